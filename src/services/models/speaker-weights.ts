import { statSync } from "node:fs";
import { rename, rm } from "node:fs/promises";
import { join } from "node:path";
import type { SpeakerWeights } from "../../domain/model.ts";
import { syncPath } from "../../lib/durable-files.ts";
import { readOnnxFile } from "../../lib/onnx-file.ts";
import { discardStaged, stageWeights } from "./model-files.ts";

/** Speaker weights as files of the directory of models: `speakers/<kind>.onnx`. */

export const SPEAKER_WEIGHT_KINDS = ["segmentation", "speaker"] as const;
/** `segmentation` finds who speaks when within some seconds; `speaker` describes a voice as a vector. */
export type SpeakerWeightKind = (typeof SPEAKER_WEIGHT_KINDS)[number];

const DIRECTORY = "speakers";

/** Metadata in sherpa-onnx's form that each kind has, whatever its framework. The engine reads the rest. */
const REQUIRED_METADATA: Record<SpeakerWeightKind, readonly string[]> = {
  segmentation: [
    "num_speakers",
    "powerset_max_classes",
    "num_classes",
    "sample_rate",
    "window_size",
    "receptive_field_size",
    "receptive_field_shift",
  ],
  speaker: ["framework", "output_dim", "sample_rate"],
};

function pathOf(directory: string, kind: SpeakerWeightKind): string {
  return join(directory, DIRECTORY, `${kind}.onnx`);
}

/** Returns the kinds that are installed. */
export function installedSpeakerWeights(directory: string): SpeakerWeightKind[] {
  return SPEAKER_WEIGHT_KINDS.filter((kind) =>
    statSync(pathOf(directory, kind), { throwIfNoEntry: false })?.isFile(),
  );
}

/** Returns the paths of the weights; undefined unless both kinds are installed. */
export function findSpeakerWeights(directory: string): SpeakerWeights | undefined {
  if (installedSpeakerWeights(directory).length < SPEAKER_WEIGHT_KINDS.length) return undefined;
  return {
    segmentationPath: pathOf(directory, "segmentation"),
    embeddingPath: pathOf(directory, "speaker"),
  };
}

/**
 * Copies a file of weights into the directory of models. It replaces weights of the same kind.
 *
 * @param tryOut is called with the paths of both kinds, when both are there. The new file has a temporary name
 * @throws Error with the reason when the file is not of that kind; what `tryOut` throws
 */
export async function placeSpeakerWeights(
  directory: string,
  kind: SpeakerWeightKind,
  file: string,
  tryOut: (weights: SpeakerWeights) => Promise<void>,
): Promise<void> {
  checkSpeakerWeights(file, kind);
  const staged = await stageWeights(file, join(directory, DIRECTORY));
  try {
    // The engine will load the copy, and the original may have changed since the first check.
    checkSpeakerWeights(staged.path, kind);
    const other = kind === "segmentation" ? "speaker" : "segmentation";
    if (installedSpeakerWeights(directory).includes(other)) {
      const otherPath = pathOf(directory, other);
      await tryOut(
        kind === "segmentation"
          ? { segmentationPath: staged.path, embeddingPath: otherPath }
          : { segmentationPath: otherPath, embeddingPath: staged.path },
      );
    }
    await rename(staged.path, pathOf(directory, kind));
    await syncPath(join(directory, DIRECTORY));
  } finally {
    await discardStaged(staged);
  }
}

/** Removes the weights of a kind; false when there were none. */
export async function deleteSpeakerWeights(directory: string, kind: SpeakerWeightKind): Promise<boolean> {
  if (!installedSpeakerWeights(directory).includes(kind)) return false;
  await rm(pathOf(directory, kind), { force: true });
  await syncPath(join(directory, DIRECTORY));
  return true;
}

/**
 * Checks a file's metadata without loading its graph.
 *
 * @throws Error with the reason why it cannot be used as this kind of weights
 */
export function checkSpeakerWeights(file: string, kind: SpeakerWeightKind): void {
  const { metadata } = readOnnxFile(file);
  const missing = REQUIRED_METADATA[kind].filter((key) => !metadata.has(key));
  if (missing.length > 0) {
    const isOther = SPEAKER_WEIGHT_KINDS.find(
      (other) => other !== kind && REQUIRED_METADATA[other].every((key) => metadata.has(key)),
    );
    const hint = isOther ? `; it looks like weights of the kind ${isOther}` : "";
    throw new Error(
      `The file is not a valid ${kind} model: its metadata has no ${missing.join(", ")}${hint}.`,
    );
  }
  if (metadata.get("sample_rate") !== "16000") {
    throw new Error(`The model is made for ${metadata.get("sample_rate")} Hz; it has to be 16000.`);
  }
}
