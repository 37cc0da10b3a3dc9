import { join } from "node:path";
import { spawn } from "bun";
import { leftOut } from "./left-out.ts";

/**
 * Runs lint, types and the test suite one after the other, passes their output on, lists what was left out and why, and
 * ends with one line `N passed, N failed`; lint and types count as one test each. Arguments go to `bun test`.
 */

type Outcome = { passed: number; failed: number };

/**
 * Most tests wait: for a server, a time limit, or the only thread of a build. One file at a time uses 0.6 of two cores, so two
 * leave two fifths of them idle.
 */
const FILES_AT_ONCE = 3;
/**
 * How long each file took, in ms, on a slow machine with empty caches. The slowest begin first, so that none is the last one
 * alone; files that are missing here begin before them. `bun test --timings=FILE --update-timings` writes it.
 */
const DURATIONS = join(import.meta.dirname, "../.ci/test-durations.json");

async function run(command: string[]): Promise<{ code: number; output: string }> {
  console.log(`\n$ ${command.join(" ")}`);
  const child = spawn(command, { stdin: "ignore", stdout: "pipe", stderr: "pipe" });
  let output = "";
  const relay = async (stream: ReadableStream<Uint8Array>, to: NodeJS.WriteStream) => {
    const decoder = new TextDecoder();
    for await (const bytes of stream) {
      to.write(bytes);
      output += decoder.decode(bytes, { stream: true });
    }
  };
  await Promise.all([relay(child.stdout, process.stdout), relay(child.stderr, process.stderr)]);
  return { code: await child.exited, output };
}

async function check(command: string[]): Promise<Outcome> {
  const { code } = await run(command);
  return code === 0 ? { passed: 1, failed: 0 } : { passed: 0, failed: 1 };
}

let notTested: string[] = [];

/** Reads the counts of the suite. A runner that ended without them counts as one failure. */
async function test(args: string[]): Promise<Outcome> {
  const { code, output } = await run([
    ...[process.execPath, "test", "--timeout=120000", `--timings=${DURATIONS}`],
    // Without --no-isolate, each file would load all modules again.
    ...[`--parallel=${FILES_AT_ONCE}`, "--no-isolate"],
    ...args,
  ]);
  notTested = leftOut(output);
  // The last ones: a test may run a suite of its own, whose counts are in the output, too.
  const count = (word: string) =>
    Number([...output.matchAll(new RegExp(`^\\s*(\\d+) ${word}$`, "gm"))].at(-1)?.[1] ?? 0);
  const outcome = { passed: count("pass"), failed: count("fail") };
  if (code !== 0 && outcome.failed === 0) outcome.failed = 1;
  return outcome;
}

const outcomes = [
  await check([process.execPath, "x", "biome", "check", "--error-on-warnings", "."]),
  await check([process.execPath, "x", "tsc", "--noEmit"]),
  await check([process.execPath, "x", "tsc", "--noEmit", "-p", "src/console"]),
  await test(process.argv.slice(2)),
];
const passed = outcomes.reduce((sum, outcome) => sum + outcome.passed, 0);
const failed = outcomes.reduce((sum, outcome) => sum + outcome.failed, 0);
if (notTested.length > 0) console.log(`\n${notTested.join("\n")}`);
console.log(`\n${passed} passed, ${failed} failed`);
process.exitCode = failed === 0 && passed > 0 ? 0 : 1;
