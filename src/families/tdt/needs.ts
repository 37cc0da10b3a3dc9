import type { ModelFiles } from "../../domain/model.ts";
import type { ModelNeeds } from "../contract.ts";
import { checkTdtFile } from "./model-file.ts";

/** Frames of the features of the longest chunk, of 10 ms each. */
const FRAMES = 2_000;
/** Results of layers that live at the same time: rows of the inner width, beside some of the width. */
const INNER_ROWS = 2;
const WIDTH_ROWS = 6;
/** Scores of attention that live at the same time. */
const SCORES = 4;
const FLOAT_BYTES = 4;
const FIXED_BYTES = 16 * 1024 ** 2;

/** Returns the most memory that a chunk needs beside the weights; nothing where the file cannot be read. */
export function tdtNeeds({ weights }: ModelFiles): Omit<ModelNeeds, "bytes"> {
  if (weights === undefined) return {};
  try {
    const { mels, channels, factor, width, inner, heads } = checkTdtFile(weights).shape;
    // The first convolution leaves half of the frames and half of the bands; two results of it live at the same time.
    const convolution = 2 * (FRAMES / 2) * Math.ceil(mels / 2) * channels;
    const frames = FRAMES / factor;
    const layer = frames * (INNER_ROWS * inner + WIDTH_ROWS * width) + SCORES * heads * frames * frames;
    return { stateBytes: Math.max(convolution, layer) * FLOAT_BYTES + FIXED_BYTES };
  } catch {
    return {};
  }
}
