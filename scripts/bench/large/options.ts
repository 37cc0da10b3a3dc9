import { join } from "node:path";
import { parseArgs } from "node:util";
import { BENCH_SHAPES, type BenchShape } from "../engine/shapes.ts";
import { NEMO_SHAPES, type NemoShape } from "../engine/tdt-model.ts";
import type { Cores } from "./programs.ts";

const ROOT = join(import.meta.dirname, "../../..");
const WHISPER_TYPES = ["f16", "q8_0", "q5_0"];
const SPEECH = ["dense", "half"] as const;

const PROGRAMS = [
  "shruti",
  "whisper-cli",
  "faster-whisper",
  "parakeet-cli",
  "sherpa-onnx",
  "onnx-asr",
] as const;
type ProgramName = (typeof PROGRAMS)[number];
/** Types of weights in ONNX: 32 bits, or dynamic 8 bits. */
const ONNX_TYPES = ["f32", "int8"] as const;

/** Dense speech, or the same with silence in half of it. */
export type Speech = (typeof SPEECH)[number];
/** A model to be generated: its name, its shape, and the type of its weights. */
export type LargeModel = { name: string; type: string } & (
  | { kind: "whisper"; shape: BenchShape }
  | { kind: "tdt"; shape: NemoShape }
  | { kind: "ctc"; shape: NemoShape }
);

const ALL_MODELS = [
  ...["base", "small", "medium", "turbo"].flatMap((shape) => WHISPER_TYPES.map((type) => `${shape}-${type}`)),
  ...["120m", "430m", "600m"].flatMap((shape) => ["f16", "q8_0", "q5_0"].map((type) => `${shape}-${type}`)),
  ...["ctc120m", "ctc600m"].flatMap((shape) => ONNX_TYPES.map((type) => `${shape}-${type}`)),
].join(",");

/** Reads the options of large.ts. @throws Error with the word that is not known */
export function readOptions() {
  const { values } = parseArgs({
    options: {
      executable: { type: "string", default: join(ROOT, "dist/shruti") },
      models: { type: "string", default: ALL_MODELS },
      cores: { type: "string", default: "all,one" },
      speech: { type: "string", default: "dense,half" },
      recordings: { type: "string", default: "1,8" },
      seconds: { type: "string", default: "120" },
      each: { type: "string", default: "30" },
      rounds: { type: "string", default: "1" },
      words: { type: "string", default: "96" },
      minutes: { type: "string" },
      programs: { type: "string", default: PROGRAMS.join(",") },
      python: { type: "string" },
      batch: { type: "string", default: "1" },
      folder: { type: "string" },
      "only-make": { type: "boolean", default: false },
    },
  });
  return {
    ...{ executable: values.executable, python: values.python, folder: values.folder },
    models: values.models.split(",").map(readModel),
    cores: values.cores.split(",").map((word) => oneOf<Cores>(word, ["one", "all"])),
    speech: values.speech.split(",").map((word) => oneOf<Speech>(word, SPEECH)),
    recordings: values.recordings.split(",").map((word) => number("recordings", word)),
    seconds: number("seconds", values.seconds),
    each: number("each", values.each),
    rounds: number("rounds", values.rounds),
    words: number("words", values.words),
    minutes: values.minutes === undefined ? undefined : number("minutes", values.minutes),
    programs: values.programs.split(",").map((word) => oneOf<ProgramName>(word, PROGRAMS)),
    batch: number("batch", values.batch),
    onlyMakes: values["only-make"],
  };
}

export type LargeOptions = ReturnType<typeof readOptions>;

function readModel(name: string): LargeModel {
  const [, shape = "", type = ""] = /^([a-z0-9]+)-([a-z0-9_]+)$/.exec(name) ?? [];
  if (shape in BENCH_SHAPES) return { kind: "whisper", name, shape: shape as BenchShape, type };
  if (shape in NEMO_SHAPES) return { kind: "tdt", name, shape: shape as NemoShape, type };
  const [, nemo = ""] = /^ctc(.+)$/.exec(shape) ?? [];
  if (nemo in NEMO_SHAPES)
    return { kind: "ctc", name, shape: nemo as NemoShape, type: oneOf(type, ONNX_TYPES) };
  throw new Error(`${name} is not a model: give a shape and a type of weights, such as turbo-q5_0`);
}

function oneOf<T extends string>(word: string, all: readonly T[]): T {
  const found = all.find((one) => one === word);
  if (found === undefined) throw new Error(`${word} is none of ${all.join(", ")}`);
  return found;
}

function number(name: string, word: string): number {
  const value = Number(word);
  if (!Number.isInteger(value) || value < 1) throw new Error(`--${name}: ${word} is not a number from 1`);
  return value;
}
