import { join } from "node:path";

/**
 * Runs a script in a process of its own, because the memory of the process of the tests depends on the tests before.
 *
 * @param script JavaScript. `source("lib/ids.ts")` is the path of a module; the value of `outcome`, as JSON, is returned
 * @returns the most memory that the process had since it began, bytes
 */
export async function peakMemoryOf(script: string): Promise<{ bytes: number; outcome: unknown }> {
  const root = JSON.stringify(join(import.meta.dir, "../.."));
  const child = Bun.spawn(
    [
      process.execPath,
      "-e",
      `const source = (name) => ${root} + "/" + name;
      let outcome;
      ${script}
      // Unlike getrusage, it does not count the memory of the process that has started this one.
      const [, peak] = /^VmHWM:\\s+(\\d+) kB$/m.exec(await Bun.file("/proc/self/status").text());
      console.log(JSON.stringify({ bytes: Number(peak) * 1024, outcome }));`,
    ],
    { stdout: "pipe", stderr: "inherit" },
  );
  const printed = await child.stdout.text();
  if ((await child.exited) !== 0) throw new Error("the script failed");
  return JSON.parse(printed) as { bytes: number; outcome: unknown };
}
