import { readFileSync } from "node:fs";
import type { Precision } from "./protocol.ts";
import type { WhisperHead } from "./whisper/whisper-model-file.ts";

/**
 * Types of weights with a kernel for few tokens (scripts/native/whisper/kernels/token-products.cpp). With other types a
 * step of several chunks costs as much as a step of each.
 */
const TYPES = ["f16", "q8_0", "q5_0", "q5_1", "q4_1"];
/** The kernel takes rows of whole blocks. Every width that OpenAI has published is a multiple. */
const BLOCK = 64;

/** What decides, besides the model, whether steps are shared. */
export type SharingMachine = {
  precision: Precision;
  /** Models run on a GPU. It was not measured whether sharing steps pays there. */
  isGpu: boolean;
  hasKernels?: boolean;
};

/**
 * Decides whether decoding steps of several chunks of a model are made together: where that costs less than a step of
 * each.
 */
export function sharesSteps(
  { type, width }: Pick<WhisperHead, "type" | "width">,
  { precision, isGpu, hasKernels = hasAvx2() }: SharingMachine,
): boolean {
  return precision !== "exact" && !isGpu && hasKernels && TYPES.includes(type) && width % BLOCK === 0;
}

function hasAvx2(): boolean {
  if (process.arch !== "x64") return false;
  try {
    return /^flags\s*:.*\bavx2\b/m.test(readFileSync("/proc/cpuinfo", "utf8"));
  } catch {
    return false;
  }
}
