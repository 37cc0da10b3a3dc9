import { afterAll, expect, test } from "bun:test";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { upToDateBinary } from "./binary.ts";

/** `engine.decoder` puts another decoder in the place of the carried one: what FFmpeg's licence gives a user. */

const folder = mkdtempSync(join(tmpdir(), "shruti-decoder-"));
afterAll(() => rmSync(folder, { recursive: true }));
const SAMPLE = resolve(import.meta.dir, "../../models/samples/02-hi.wav");

const transcribe = (decoder: string) => run(decoder, "transcribe", SAMPLE, "--language", "hi");

async function run(decoder: string, ...args: string[]): Promise<{ code: number; out: string; err: string }> {
  const child = Bun.spawn([await upToDateBinary(), ...args], {
    cwd: folder,
    env: {
      PATH: process.env.PATH ?? "",
      HOME: folder,
      SHRUTI_STORAGE_DATA_DIR: join(folder, "data"),
      SHRUTI_MODELS_DEFAULT: "demo",
      SHRUTI_ENGINE_DECODER: decoder,
    },
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
  });
  const [out, err] = await Promise.all([child.stdout.text(), child.stderr.text()]);
  return { code: await child.exited, out, err };
}

test("another decoder does the work", async () => {
  const carried = await transcribe("");
  expect(carried).toMatchObject({ code: 0, out: expect.stringMatching(/\S/) });
  // Without a data directory, the carried files are in the user's cache.
  const places = new Bun.Glob("**/native/*/decoder").scanSync({ cwd: folder, dot: true, absolute: true });
  const [original = ""] = [...places];
  const used = join(folder, "used");
  const other = join(folder, "other-decoder");
  writeFileSync(other, `#!/bin/sh\n: > '${used}'\nexec '${original}' "$@"\n`, { mode: 0o755 });
  expect(await transcribe(other)).toMatchObject({ code: 0, out: carried.out });
  expect(existsSync(used)).toBe(true);
}, 60_000);

// A supervisor does not start the server again after status 2.
test.each([
  ["a relative path", "other-decoder", "engine.decoder: other-decoder is not an absolute path"],
  ["no such program", "/nothing/here", "engine.decoder: /nothing/here cannot be run (ENOENT)"],
  ["a folder", tmpdir(), "is not a program"],
  ["a file without the right to run it", SAMPLE, "cannot be run (EACCES)"],
])(
  "%s is refused by the setting's name",
  async (_what, decoder, message) => {
    const err = expect.stringContaining(message);
    expect({ ...(await transcribe(decoder)) }).toMatchObject({ code: 2, out: "", err });
    expect({ ...(await run(decoder, "serve")) }).toMatchObject({ code: 2, out: "", err });
    expect({ ...(await run(decoder, "config", "check")) }).toMatchObject({ code: 2, out: "", err });
  },
  60_000,
);
