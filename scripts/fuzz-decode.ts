/**
 * Damages recordings of every format in a repeatable way and decodes each: a damaged file must give a result or
 * one of the documented refusals, within its time, and must never take the program down.
 *
 *   bun scripts/fuzz-decode.ts [--count 10000] [--seed 1] [--jobs 2] [--keep DIRECTORY]
 *
 * Needs the system's ffmpeg to make the undamaged files. Exit status 1 when anything else came out; the files that
 * did it are kept in DIRECTORY.
 */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { countAudio, DecodeError } from "../src/engine/decode.ts";
import { extractNativeFiles } from "../src/engine/native-files.ts";
import {
  ENCODED_FORMATS,
  encodeFormat,
  makeWav,
  seededRandom,
  systemEncoders,
} from "../src/testing/audio-makers.ts";

const TIMEOUT_MS = 20_000;
const MAX_DURATION_MS = 12 * 3_600_000;

type Random = () => number;
type Seed = { name: string; bytes: Uint8Array };
type Mutation = { name: string; apply: (bytes: Uint8Array, random: Random) => Uint8Array };

const below = (random: Random, bound: number) => Math.floor(random() * Math.max(1, bound));

/** Places in a file where damage does most: near its start, where headers are, half of the time. */
function place(bytes: Uint8Array, random: Random): number {
  return below(random, random() < 0.5 ? Math.min(bytes.length, 512) : bytes.length);
}

const MUTATIONS: readonly Mutation[] = [
  {
    name: "flipped bits",
    apply(bytes, random) {
      const out = bytes.slice();
      for (let count = 1 + below(random, 64); count > 0; count -= 1) {
        const at = place(out, random);
        out[at] = (out[at] ?? 0) ^ (1 << below(random, 8));
      }
      return out;
    },
  },
  {
    name: "extreme numbers",
    apply(bytes, random) {
      const out = bytes.slice();
      const view = new DataView(out.buffer);
      const values = [0, 1, 0x7f_ff_ff_ff, 0x80_00_00_00, 0xff_ff_ff_ff, 0xff_ff_ff_fe, 0x10_00_00_00];
      for (let count = 1 + below(random, 6); count > 0; count -= 1) {
        const at = Math.min(place(out, random), out.length - 4);
        view.setUint32(at, values[below(random, values.length)] ?? 0, random() < 0.5);
      }
      return out;
    },
  },
  { name: "cut off", apply: (bytes, random) => bytes.slice(0, below(random, bytes.length)) },
  { name: "beginning lost", apply: (bytes, random) => bytes.slice(below(random, bytes.length)) },
  {
    name: "stretch of noise",
    apply(bytes, random) {
      const out = bytes.slice();
      const start = place(out, random);
      const end = Math.min(out.length, start + 1 + below(random, 4096));
      for (let at = start; at < end; at += 1) out[at] = below(random, 256);
      return out;
    },
  },
  {
    name: "stretch repeated",
    apply(bytes, random) {
      const start = place(bytes, random);
      const end = Math.min(bytes.length, start + 1 + below(random, 8192));
      return new Uint8Array([
        ...bytes.subarray(0, end),
        ...bytes.subarray(start, end),
        ...bytes.subarray(end),
      ]);
    },
  },
  {
    name: "stretch lost",
    apply(bytes, random) {
      const start = place(bytes, random);
      return new Uint8Array([
        ...bytes.subarray(0, start),
        ...bytes.subarray(start + 1 + below(random, 2048)),
      ]);
    },
  },
];

/** Two files grown together: a container of one kind over the data of another. */
function spliced(seeds: readonly Seed[], first: Seed, random: Random): Uint8Array {
  const second = seeds[below(random, seeds.length)] ?? first;
  const at = place(first.bytes, random);
  return new Uint8Array([
    ...first.bytes.subarray(0, at),
    ...second.bytes.subarray(below(random, second.bytes.length)),
  ]);
}

function makeSeeds(folder: string): Seed[] {
  const encoders = systemEncoders();
  const source = makeWav({ seconds: 1, rateHz: 16_000, channels: 2 });
  const seeds: Seed[] = [{ name: "own.wav", bytes: source }];
  for (const format of ENCODED_FORMATS) {
    if (!encoders.has(format.encoder)) continue;
    // A plain array: `slice` of a Buffer shares its memory, and damage would add up.
    const bytes = new Uint8Array(readFileSync(encodeFormat(folder, source, format)));
    seeds.push({ name: format.name, bytes });
  }
  return seeds;
}

type Case = { label: string; bytes: Uint8Array };

function makeCase(seeds: readonly Seed[], seed: number, index: number): Case {
  const random = seededRandom(seed * 1_000_003 + index);
  const origin = seeds[index % seeds.length] ?? { name: "none", bytes: new Uint8Array() };
  const kind = below(random, MUTATIONS.length + 1);
  const mutation = MUTATIONS[kind];
  if (!mutation) return { label: `${origin.name}, spliced`, bytes: spliced(seeds, origin, random) };
  return { label: `${origin.name}, ${mutation.name}`, bytes: mutation.apply(origin.bytes, random) };
}

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
    const seeds = makeSeeds(folder);
    const outcomes = new Map<string, number>();
    const findings: string[] = [];
    let slowestMs = 0;
    let next = 0;
    const count = Number(values.count);

    const runOne = async (index: number, path: string): Promise<void> => {
      const { label, bytes } = makeCase(seeds, Number(values.seed), index);
      writeFileSync(path, bytes);
      const startedMs = performance.now();
      let outcome: string;
      try {
        const counted = await countAudio(nativeFiles, path, {
          maxDurationMs: MAX_DURATION_MS,
          timeoutMs: TIMEOUT_MS,
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
    const lane = async (job: number): Promise<void> => {
      for (let index = next++; index < count; index = next++)
        await runOne(index, join(folder, `case-${job}`));
    };
    await Promise.all(Array.from({ length: Number(values.jobs) }, (_, job) => lane(job)));

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
