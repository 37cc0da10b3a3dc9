import type { EngineOptions } from "../../domain/engine-options.ts";
import type { FamilyMachine, StepSharing } from "../contract.ts";
import type { WhisperHead } from "./model-file.ts";

/**
 * The kernel for few tokens (src/native/whisper/kernels/token-products.cpp) takes rows of whole blocks. On a GPU a
 * token's part of a tensor must begin at a multiple of 256 bytes. Every width that OpenAI has published is a multiple.
 */
const BLOCK = 64;

/** Reports whether recognition may differ in small ways from that of whisper.cpp as it comes, and is faster. */
export const usesOwnKernels = ({ precision }: Pick<EngineOptions, "precision">): boolean =>
  precision === "fast";

/**
 * Decides where decoding steps of several chunks of a model are made together: where the weights are then read once for
 * all of them, and that costs less than a step of each.
 */
export function stepSharing(
  { width }: Pick<WhisperHead, "width">,
  { engine, processorFlags }: FamilyMachine,
): StepSharing {
  const { shared_steps: where } = engine;
  const isWanted = usesOwnKernels(engine) && where !== "never" && width % BLOCK === 0;
  return {
    onProcessor: isWanted && processorFlags.has("avx2"),
    onGpu: isWanted && where === "auto",
  };
}

/** Says why chunks of a model share no steps on the processor; undefined: they do. */
export function unsharedReason(head: Pick<WhisperHead, "width">, machine: FamilyMachine): string | undefined {
  if (stepSharing(head, machine).onProcessor) return undefined;
  const { engine, processorFlags } = machine;
  if (!usesOwnKernels(engine)) return `engine.precision is ${engine.precision}`;
  if (engine.shared_steps === "never") return "engine.shared_steps is never";
  return processorFlags.has("avx2") ? "the model's width is unusual" : "the processor has no AVX2";
}
