import { engineOf } from "../domain/model.ts";
import type { EngineModel } from "./protocol.ts";
import type { ModelNeeds } from "./sizing.ts";
import { type SharingMachine, stepSharing } from "./step-sharing.ts";
import { readHead, type WhisperHead } from "./whisper/whisper-model-file.ts";

/** A model as far as it decides what it needs of a machine. */
export type SizedModel = Partial<Pick<EngineModel, "family" | "files" | "version">> & {
  /** Size of the weights; left out: 0. */
  bytes?: number;
};

export type NeedsOf = (model: SizedModel) => ModelNeeds;

/** A bound on memory: few models are installed at once, but they may change for years. */
const MAX_FILES = 100;

/** Creates a function that says what a model needs. It reads the head of each model's file once. */
export function createModelNeeds(machine: SharingMachine): NeedsOf {
  const known = new Map<string, Omit<ModelNeeds, "bytes">>();

  function needsOf(path: string): Omit<ModelNeeds, "bytes"> {
    const head = readHead(path);
    return head ? { ...memoryOf(head), sharing: stepSharing(head, machine) } : {};
  }

  return ({ family, files, version, bytes = 0 }) => {
    const path = files?.weights;
    if (family === undefined || engineOf(family) !== "whisper" || path === undefined) return { bytes };
    const key = `${version} ${path}`;
    const found = known.get(key) ?? needsOf(path);
    if (known.size >= MAX_FILES) known.clear();
    known.set(key, found);
    return { bytes, ...found };
  };
}

/** Positions of the caches. whisper.cpp fills them up to multiples of 256. */
const CROSS_POSITIONS = 1536;
const TEXT_POSITIONS = 512;
/** Bytes of a key and a value, for each position, layer and dimension. */
const CACHE_BYTES = 4;
/** A second try decodes five samples at once. whisper.cpp then makes the cache of the text for seven, and keeps it. */
const SAMPLES = 7;
/** Buffers of the other graphs, with a long prompt. Measured, rounded up. */
const FIXED_BUFFER_BYTES = 64 * 1024 ** 2;
/** Buffers of the encoder's graphs. Measured: 98 KB with base, 101 with small, 90 with turbo; rounded up. */
const ENCODER_BYTES_OF_WIDTH = 128 * 1024;

/** Returns the most memory that a chunk needs beside the weights, and what it needs besides while it is encoded. */
function memoryOf({
  width,
  textLayers,
}: WhisperHead): Required<Pick<ModelNeeds, "stateBytes" | "encoderBytes">> {
  const positions = CROSS_POSITIONS + SAMPLES * TEXT_POSITIONS;
  const caches = width * textLayers * positions * CACHE_BYTES;
  return { stateBytes: caches + FIXED_BUFFER_BYTES, encoderBytes: width * ENCODER_BYTES_OF_WIDTH };
}
