import { closeSync, fstatSync, readSync, statSync } from "node:fs";
import { rename, rm } from "node:fs/promises";
import { join } from "node:path";
import type { SpeakerWeights } from "../domain/model.ts";
import { syncPath } from "../lib/durable-files.ts";
import { openRegularFile } from "../lib/regular-file.ts";
import { discardStaged, stageWeights } from "./model-files.ts";

/** Weights for telling speakers apart as they lie in the models' directory: `speakers/<kind>.onnx`. */

export const SPEAKER_WEIGHT_KINDS = ["segmentation", "speaker"] as const;
/** `segmentation`: who speaks when within some seconds; `speaker`: what a voice is like. */
export type SpeakerWeightKind = (typeof SPEAKER_WEIGHT_KINDS)[number];

const DIRECTORY = "speakers";
const MAX_BYTES = 2 ** 31;

/** Metadata that sherpa-onnx asks of a file of each kind; it ends the process where one is missing. */
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

/** Kinds that are installed. */
export function installedSpeakerWeights(directory: string): SpeakerWeightKind[] {
  return SPEAKER_WEIGHT_KINDS.filter((kind) =>
    statSync(pathOf(directory, kind), { throwIfNoEntry: false })?.isFile(),
  );
}

/** The paths, when both kinds are installed. */
export function findSpeakerWeights(directory: string): SpeakerWeights | undefined {
  if (installedSpeakerWeights(directory).length < SPEAKER_WEIGHT_KINDS.length) return undefined;
  return {
    segmentationPath: pathOf(directory, "segmentation"),
    embeddingPath: pathOf(directory, "speaker"),
  };
}

/**
 * Copies a file of weights into the models' directory, in place of one of the same kind.
 *
 * @param tryOut called with both kinds' paths, the new file among them under a temporary name, once both are there
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
    // The copy is what will be loaded, and the original may have changed meanwhile.
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
 * Looks at a file's metadata without loading it.
 *
 * @throws Error with the reason why it cannot be used as this kind of weights
 */
export function checkSpeakerWeights(file: string, kind: SpeakerWeightKind): void {
  const metadata = readOnnxMetadata(file);
  const missing = REQUIRED_METADATA[kind].filter((key) => !metadata.has(key));
  if (missing.length > 0) {
    const isOther = SPEAKER_WEIGHT_KINDS.find(
      (other) => other !== kind && REQUIRED_METADATA[other].every((key) => metadata.has(key)),
    );
    const hint = isOther ? `; it looks like weights of the kind ${isOther}` : "";
    throw new Error(
      `The file is not a valid ${kind} model for sherpa-onnx: its metadata has no ${missing.join(", ")}${hint}.`,
    );
  }
  if (metadata.get("sample_rate") !== "16000") {
    throw new Error(`The model is made for ${metadata.get("sample_rate")} Hz; it has to be 16000.`);
  }
}

/** Fields of `ModelProto` and `StringStringEntryProto` (onnx.proto of ONNX 1.17), and the wire types of protobuf. */
const IR_VERSION = 1;
const GRAPH = 7;
const METADATA = 14;
const VARINT = 0;
const FIXED64 = 1;
const LENGTH_DELIMITED = 2;
const FIXED32 = 5;
const MAX_ENTRY_BYTES = 64 * 1024;

/**
 * The metadata of an ONNX file; its graph is stepped over, not read.
 *
 * @throws Error when the file is no whole ONNX model
 */
export function readOnnxMetadata(file: string): Map<string, string> {
  const descriptor = openRegularFile(file);
  try {
    const facts = fstatSync(descriptor);
    if (facts.size > MAX_BYTES) throw new Error("The file is larger than 2 GiB.");
    const metadata = new Map<string, string>();
    const seen = new Set<number>();
    for (let at = 0; at < facts.size; ) {
      const field = readField(descriptor, at, facts.size);
      seen.add(field.number);
      if (field.number === METADATA && field.bytes !== undefined) {
        const [key, value] = readEntry(field.bytes);
        metadata.set(key, value);
      }
      at = field.end;
    }
    if (!seen.has(IR_VERSION) || !seen.has(GRAPH)) throw new Error("The file is not an ONNX model.");
    return metadata;
  } finally {
    closeSync(descriptor);
  }
}

type Field = { number: number; end: number; bytes: Uint8Array | undefined };

function readField(descriptor: number, at: number, size: number): Field {
  const head = new Uint8Array(20);
  const available = readSync(descriptor, head, 0, head.length, at);
  const tag = readVarint(head.subarray(0, available), 0);
  const number = Math.floor(tag.value / 8);
  const wireType = tag.value % 8;
  let end = at + tag.length;
  let bytes: Uint8Array | undefined;
  if (wireType === VARINT) {
    end += readVarint(head.subarray(0, available), tag.length).length;
  } else if (wireType === LENGTH_DELIMITED) {
    const length = readVarint(head.subarray(0, available), tag.length);
    const start = end + length.length;
    end = start + length.value;
    if (number === METADATA && length.value <= MAX_ENTRY_BYTES && end <= size) {
      bytes = new Uint8Array(length.value);
      readSync(descriptor, bytes, 0, bytes.length, start);
    }
  } else if (wireType === FIXED64 || wireType === FIXED32) {
    end += wireType === FIXED64 ? 8 : 4;
  } else {
    throw new Error("The file is not an ONNX model.");
  }
  if (number === 0 || end > size) throw new Error("The file is not a complete ONNX model.");
  return { number, end, bytes };
}

/** Seven bits a byte, the least significant first. */
function readVarint(bytes: Uint8Array, start: number): { value: number; length: number } {
  let value = 0;
  for (let index = 0; index < 10; index++) {
    const byte = bytes[start + index];
    if (byte === undefined) break;
    value += (byte & 0x7f) * 2 ** (7 * index);
    if (byte < 0x80) return { value, length: index + 1 };
  }
  throw new Error("The file is not a complete ONNX model.");
}

/** Key and value of a metadata entry: fields 1 and 2, both texts. */
function readEntry(bytes: Uint8Array): [string, string] {
  const texts = ["", ""];
  for (let at = 0; at < bytes.length; ) {
    const tag = readVarint(bytes, at);
    const length = readVarint(bytes, at + tag.length);
    const start = at + tag.length + length.length;
    const text = new TextDecoder().decode(bytes.subarray(start, start + length.value));
    const number = Math.floor(tag.value / 8);
    if (number === 1 || number === 2) texts[number - 1] = text;
    at = start + length.value;
  }
  return [texts[0] ?? "", texts[1] ?? ""];
}
