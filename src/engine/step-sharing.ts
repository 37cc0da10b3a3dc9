import { readFileSync } from "node:fs";
import { engineOf } from "../domain/model.ts";
import type { SharingModel } from "./local-executor.ts";
import type { Precision } from "./protocol.ts";
import { readWeights } from "./whisper/whisper-model-file.ts";

/**
 * Types of weights with a kernel for few tokens (scripts/native/whisper/kernels/token-products.cpp). With other types a
 * step of several chunks costs as much as a step of each.
 */
const TYPES = ["f16", "q8_0", "q5_0", "q5_1", "q4_1"];
/** The kernel takes rows of whole blocks. Every width that OpenAI has published is a multiple. */
const BLOCK = 64;

/** A bound on memory: few models are installed at once, but they may change for years. */
const MAX_FILES = 100;

/** What decides, besides the model, whether steps are shared. */
export type SharingMachine = {
  precision: Precision;
  /** Models run on a GPU. It was not measured whether sharing steps pays there. */
  isGpu: boolean;
  hasKernels?: boolean;
};

/**
 * Returns a function that decides whether decoding steps of several chunks of a model are made together: where that
 * costs less than a step of each. It reads the head of a model's file, once.
 */
export function createStepSharing({
  precision,
  isGpu,
  hasKernels = hasAvx2(),
}: SharingMachine): (model: SharingModel) => boolean {
  const known = new Map<string, boolean>();
  return ({ family, files, version }) => {
    const path = files?.weights;
    if (precision === "exact" || isGpu || !hasKernels) return false;
    if (family === undefined || engineOf(family) !== "whisper" || path === undefined) return false;
    const key = `${version} ${path}`;
    const found = known.get(key) ?? isTaken(readWeights(path));
    if (known.size >= MAX_FILES) known.clear();
    known.set(key, found);
    return found;
  };
}

function isTaken(weights: ReturnType<typeof readWeights>): boolean {
  return weights !== undefined && TYPES.includes(weights.type) && weights.width % BLOCK === 0;
}

function hasAvx2(): boolean {
  if (process.arch !== "x64") return false;
  try {
    return /^flags\s*:.*\bavx2\b/m.test(readFileSync("/proc/cpuinfo", "utf8"));
  } catch {
    return false;
  }
}
