import type { ModelFiles } from "../../domain/model.ts";
import type { FamilyMachine, ModelNeeds } from "../contract.ts";
import { checkTdtFile } from "./model-file.ts";

/**
 * Most frames of features that are encoded at once, and those of the longest chunk (src/native/tdt/tdt-encoder.cc). Where results
 * are as long as the features there are fewer.
 */
const FRAMES = 6_000;
const FRAMES_OF_FEATURES = 3_000;
const CHUNK_FRAMES = 2_000;
/** Results of layers that live at the same time: rows of the inner width, beside some of the width. */
const INNER_ROWS = 2;
const WIDTH_ROWS = 6;
/** Scores of attention that live at the same time. */
const SCORES = 4;
const FLOAT_BYTES = 4;
const FIXED_BYTES = 16 * 1024 ** 2;
/** Features of a chunk, its encoded frames and its samples. */
const CHUNK_BYTES = 4 * 1024 ** 2;

/**
 * Says what a model needs beside its weights; nothing where the file cannot be read. Chunks take part in one computation for
 * each core, so each core needs the memory of the encoder once.
 */
export function tdtNeeds({ weights }: ModelFiles, { engine }: FamilyMachine): Omit<ModelNeeds, "bytes"> {
  if (weights === undefined) return {};
  try {
    const { mels, channels, factor, width, inner, heads, layers } = checkTdtFile(weights).shape;
    // The first convolution leaves half of the frames and half of the bands; two results of it live at the same time.
    const convolution = 2 * (FRAMES_OF_FEATURES / 2) * Math.ceil(mels / 2) * channels;
    const frames = FRAMES / factor;
    const scores = SCORES * heads * frames * (CHUNK_FRAMES / factor);
    const layer = frames * (INNER_ROWS * inner + WIDTH_ROWS * width) + scores;
    // A row for each distance in each layer, which all computations of a model read (src/native/tdt/tdt-positions.h).
    const distances = layers * 2 * (CHUNK_FRAMES / factor) * width;
    return {
      stateBytes: CHUNK_BYTES,
      sharedBytes: distances * FLOAT_BYTES,
      encoderBytes: Math.max(convolution, layer) * FLOAT_BYTES + FIXED_BYTES,
      sharing: { onProcessor: engine.shared_steps !== "never", onGpu: false },
    };
  } catch {
    return {};
  }
}
