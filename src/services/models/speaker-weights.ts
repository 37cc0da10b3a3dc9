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

/** How new weights are tried. */
export type SpeakerWeightTrial = {
  /** Receives a pair with the new file, which has a temporary name. It is not called where the other kind is missing. */
  tryOut: (weights: SpeakerWeights) => Promise<void>;
  /** The nets of the executable. */
  carried: SpeakerWeights | undefined;
};

/** What the path of each kind is called in a pair. */
const PATH_NAMES = { segmentation: "segmentationPath", speaker: "embeddingPath" } as const;

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

function isInstalled(directory: string, kind: SpeakerWeightKind): boolean {
  return statSync(pathOf(directory, kind), { throwIfNoEntry: false })?.isFile() === true;
}

/** Returns the kinds that are installed. */
export function installedSpeakerWeights(directory: string): SpeakerWeightKind[] {
  return SPEAKER_WEIGHT_KINDS.filter((kind) => isInstalled(directory, kind));
}

/** A net as a file. `sha256`: what the file must have, where that is known. */
type Net = { path: string; sha256?: string | undefined };

/** Finds the net of a kind: the installed one, else that of the executable. */
function netOf(
  directory: string,
  kind: SpeakerWeightKind,
  carried: SpeakerWeights | undefined,
): Net | undefined {
  if (isInstalled(directory, kind))
    return { path: pathOf(directory, kind), sha256: readCard(directory, kind)?.sha256 };
  return carried && { path: carried[PATH_NAMES[kind]], sha256: carried.expected?.[kind] };
}

function pairOf(nets: Record<SpeakerWeightKind, Net | undefined>): SpeakerWeights | undefined {
  const { segmentation, speaker } = nets;
  if (!segmentation || !speaker) return undefined;
  const expected = Object.fromEntries(
    Object.entries({ segmentation: segmentation.sha256, speaker: speaker.sha256 }).filter(
      ([, sha256]) => sha256 !== undefined,
    ),
  );
  return { segmentationPath: segmentation.path, embeddingPath: speaker.path, expected };
}

/**
 * Returns the pairs of nets with which speakers can be distinguished, in the order in which they are tried. An installed
 * net takes the place of the executable's net of its kind. Behind a pair with an installed net comes the executable's pair,
 * because the installed net may be damaged.
 *
 * @param carried the nets of the executable
 * @returns nothing where a kind is missing
 */
export function speakerWeightPairs(directory: string, carried: SpeakerWeights | undefined): SpeakerWeights[] {
  const first = pairOf({
    segmentation: netOf(directory, "segmentation", carried),
    speaker: netOf(directory, "speaker", carried),
  });
  if (!first) return [];
  return carried && installedSpeakerWeights(directory).length > 0 ? [first, carried] : [first];
}

/** Reports whether there is a net of each kind. */
export function hasSpeakerWeights(directory: string, carried: SpeakerWeights | undefined): boolean {
  return carried !== undefined || installedSpeakerWeights(directory).length === SPEAKER_WEIGHT_KINDS.length;
}

/**
 * Copies a file of weights into the directory of models. It replaces weights of the same kind.
 *
 * @returns the card that is kept beside them
 * @throws Error with the reason when the file is not of that kind; what `tryOut` throws
 */
export async function placeSpeakerWeights(
  directory: string,
  kind: SpeakerWeightKind,
  file: string,
  { tryOut, carried }: SpeakerWeightTrial,
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
    const pair = pairOf({
      segmentation: netOf(directory, "segmentation", carried),
      speaker: netOf(directory, "speaker", carried),
      [kind]: { path: staged.path },
    });
    if (pair) await tryOut(pair);
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

/**
 * Reads the executable's nets to their end, and compares them with their SHA-256.
 *
 * @returns what `verifySpeakerWeights` returns, for each kind
 * @throws as that does
 */
export async function verifyCarriedWeights(
  carried: SpeakerWeights,
  signal?: AbortSignal,
): Promise<{ kind: SpeakerWeightKind; sha256: string; problems: string[] }[]> {
  const outcomes = [];
  for (const kind of SPEAKER_WEIGHT_KINDS) {
    const path = carried[PATH_NAMES[kind]];
    const sha256 = await sha256OfFile(path, signal);
    const problems =
      sha256 === carried.expected?.[kind]
        ? []
        : [`the SHA-256 is ${sha256}, and not that of the build; remove ${path}, and it is written again`];
    outcomes.push({ kind, sha256, problems });
  }
  return outcomes;
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
