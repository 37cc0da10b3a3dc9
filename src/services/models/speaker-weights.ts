import { readFileSync, statSync } from "node:fs";
import { rename, rm } from "node:fs/promises";
import { join } from "node:path";
import type { SpeakerWeights } from "../../domain/model.ts";
import { syncPath, writeDurably } from "../../lib/durable-files.ts";
import { errorMessage } from "../../lib/error-message.ts";
import { readOnnxFile } from "../../lib/onnx-file.ts";
import { sha256OfFile } from "../../store/file-hash.ts";
import { discardStaged, stageWeights } from "./model-files.ts";

/** Speaker weights as files of the directory of models: `speakers/<kind>.onnx`. */

export const SPEAKER_WEIGHT_KINDS = ["segmentation", "speaker"] as const;
/** `segmentation` finds who speaks when within some seconds; `speaker` describes a voice as a vector. */
export type SpeakerWeightKind = (typeof SPEAKER_WEIGHT_KINDS)[number];

/** What the weights were when they were added, and what an admin said of them. Beside them as `<kind>.json`. */
export type SpeakerWeightCard = { sha256: string; bytes: number; licence?: string; source?: string };

/** What an admin says of weights. `sha256`: a file with another hash is refused. */
export type SpeakerWeightOptions = Partial<Pick<SpeakerWeightCard, "licence" | "source" | "sha256">>;

const DIRECTORY = "speakers";
const CARD_MODE = 0o600;

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

function cardPathOf(directory: string, kind: SpeakerWeightKind): string {
  return join(directory, DIRECTORY, `${kind}.json`);
}

/** Reads the card of weights; undefined for weights of an earlier version, which have none. */
function readCard(directory: string, kind: SpeakerWeightKind): SpeakerWeightCard | undefined {
  try {
    return JSON.parse(readFileSync(cardPathOf(directory, kind), "utf8")) as SpeakerWeightCard;
  } catch {
    return undefined;
  }
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
 * @returns the card that is kept beside them
 * @throws Error with the reason when the file is not of that kind; what `tryOut` throws
 */
export async function placeSpeakerWeights(
  directory: string,
  kind: SpeakerWeightKind,
  file: string,
  tryOut: (weights: SpeakerWeights) => Promise<void>,
  { sha256: wanted, ...said }: SpeakerWeightOptions = {},
): Promise<SpeakerWeightCard> {
  checkSpeakerWeights(file, kind);
  const staged = await stageWeights(file, join(directory, DIRECTORY));
  try {
    const card: SpeakerWeightCard = { sha256: staged.sha256, bytes: staged.bytes, ...said };
    if (wanted !== undefined && wanted.toLowerCase() !== card.sha256)
      throw new Error(`The SHA-256 of the file is ${card.sha256}, and not ${wanted}.`);
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
    // A card of other weights must never be beside these.
    await rm(cardPathOf(directory, kind), { force: true });
    await rename(staged.path, pathOf(directory, kind));
    await writeDurably(cardPathOf(directory, kind), `${JSON.stringify(card)}\n`, CARD_MODE);
    await syncPath(join(directory, DIRECTORY));
    return card;
  } finally {
    await discardStaged(staged);
  }
}

/** Removes the weights of a kind; false when there were none. */
export async function deleteSpeakerWeights(directory: string, kind: SpeakerWeightKind): Promise<boolean> {
  if (!installedSpeakerWeights(directory).includes(kind)) return false;
  await rm(pathOf(directory, kind), { force: true });
  await rm(cardPathOf(directory, kind), { force: true });
  await syncPath(join(directory, DIRECTORY));
  return true;
}

/** Says what is wrong with installed weights as far as size and metadata show it, one sentence for each kind. */
export function speakerWeightProblems(directory: string): string[] {
  return installedSpeakerWeights(directory).flatMap((kind) => {
    const problem = problemOf(directory, kind);
    return problem === undefined ? [] : [`speaker weights of the kind ${kind}: ${problem}`];
  });
}

/**
 * Reads installed weights to their end, and compares them with their card.
 *
 * @returns their SHA-256, and what is wrong with them
 * @throws the signal's reason when it is aborted; the file system's error
 */
export async function verifySpeakerWeights(
  directory: string,
  kind: SpeakerWeightKind,
  signal?: AbortSignal,
): Promise<{ sha256: string; problems: string[] }> {
  const sha256 = await sha256OfFile(pathOf(directory, kind), signal);
  const card = readCard(directory, kind);
  const problem = problemOf(directory, kind);
  const isOther = card !== undefined && card.sha256 !== sha256;
  return {
    sha256,
    problems: [
      ...(isOther ? [`the SHA-256 is ${sha256}, and was ${card.sha256} when they were added`] : []),
      ...(problem === undefined ? [] : [problem]),
    ],
  };
}

function problemOf(directory: string, kind: SpeakerWeightKind): string | undefined {
  const path = pathOf(directory, kind);
  try {
    checkSpeakerWeights(path, kind);
  } catch (error) {
    return errorMessage(error);
  }
  const bytes = readCard(directory, kind)?.bytes;
  const found = statSync(path).size;
  return bytes === undefined || bytes === found
    ? undefined
    : `${found} bytes, and ${bytes} when they were added`;
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
