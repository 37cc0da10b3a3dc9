/**
 * Damages recordings of every format in a repeatable way and decodes each. A damaged file must give a result or one of
 * the documented refusals, within its time, and must never end the program.
 *
 *   bun scripts/fuzz-decode.ts [--count 10000] [--seed 1] [--jobs 2] [--keep DIRECTORY]
 *
 * Needs the system's ffmpeg to make the undamaged files. Exits with status 1 when there was any other outcome; the files
 * that caused it are kept in DIRECTORY.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { countAudio, DecodeError } from "../src/engine/audio/decode.ts";
import { extractNativeFiles } from "../src/native/native-files.ts";
import { makeCase, makeRawSeeds, makeSeeds } from "../src/testing/makers/mutations.ts";

const TIMEOUT_MS = 20_000;
const MAX_DURATION_MS = 12 * 3_600_000;

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      count: { type: "string", default: "10000" },
      seed: { type: "string", default: "1" },
      jobs: { type: "string", default: "2" },
      keep: { type: "string", default: "fuzz-findings" },
    },
  });
  const folder = mkdtempSync(join(tmpdir(), "shruti-fuzz-"));
  try {
    const nativeFiles = await extractNativeFiles(folder);
    const seeds = [...makeSeeds(folder), ...makeRawSeeds()];
    const outcomes = new Map<string, number>();
    const findings: string[] = [];
    let slowestMs = 0;
    let next = 0;
    const count = Number(values.count);

    const runOne = async (index: number, path: string): Promise<void> => {
      const { label, bytes, format } = makeCase(seeds, Number(values.seed), index);
      writeFileSync(path, bytes);
      const startedMs = performance.now();
      let outcome: string;
      try {
        const counted = await countAudio(nativeFiles, path, {
          maxDurationMs: MAX_DURATION_MS,
          timeoutMs: TIMEOUT_MS,
          reading: format && { format },
          // Each kind is read in both ways.
          tracks: Math.floor(index / seeds.length) % 2 === 0 ? "one" : "all",
        });
        const isSound =
          counted.durationMs > 0 && counted.durationMs <= MAX_DURATION_MS && counted.channels > 0;
        if (!isSound) throw new Error(`an impossible result: ${JSON.stringify(counted)}`);
        outcome = counted.truncated ? "decoded, truncated" : "decoded";
      } catch (error) {
        outcome = error instanceof DecodeError ? `refused: ${error.reason}` : "FAULT";
        if (outcome === "FAULT" || outcome === "refused: limits") {
          findings.push(`${index} (${label}): ${error instanceof Error ? error.message : String(error)}`);
          mkdirSync(values.keep, { recursive: true });
          writeFileSync(join(values.keep, String(index)), bytes);
        }
      }
      const tookMs = performance.now() - startedMs;
      slowestMs = Math.max(slowestMs, tookMs);
      if (tookMs > TIMEOUT_MS + 5_000) findings.push(`${index} (${label}): took ${Math.round(tookMs)} ms`);
      outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
    };
    const runJob = async (job: number): Promise<void> => {
      for (let index = next++; index < count; index = next++)
        await runOne(index, join(folder, `case-${job}`));
    };
    await Promise.all(Array.from({ length: Number(values.jobs) }, (_, job) => runJob(job)));

    console.log(`${count} damaged files of ${seeds.length} formats, seed ${values.seed}`);
    for (const [outcome, times] of [...outcomes].sort())
      console.log(`${String(times).padStart(7)}  ${outcome}`);
    console.log(`slowest ${Math.round(slowestMs)} ms`);
    for (const finding of findings) console.log(finding);
    if (outcomes.has("FAULT")) process.exitCode = 1;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

await main();
