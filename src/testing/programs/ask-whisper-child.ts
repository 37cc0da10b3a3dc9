import { expect } from "bun:test";
import { join } from "node:path";
import { NATIVE_DIR } from "../kits/native-files.ts";

/**
 * Runs a scenario of whisper-test-child.ts with the native files of the build, in a process of its own, and returns the
 * JSON that it prints. A child that ends with another status than 0, writes to stderr or takes longer fails the test.
 *
 * @param wrapper a command that runs the child, such as in a namespace of its own
 * @param script a file of this folder
 */
export async function askWhisperChild<T>(
  scenario: string,
  request: object,
  limitMs: number,
  wrapper: readonly string[] = [],
  script = "whisper-test-child.ts",
): Promise<T> {
  const path = join(import.meta.dirname, script);
  const command = [process.execPath, path, NATIVE_DIR, scenario, JSON.stringify(request)];
  const child = Bun.spawn([...wrapper, ...command], { stdout: "pipe", stderr: "pipe", timeout: limitMs });
  const [stdout, stderr] = await Promise.all([child.stdout.text(), child.stderr.text()]);
  expect({ code: await child.exited, stderr }).toEqual({ code: 0, stderr: "" });
  return JSON.parse(stdout) as T;
}
