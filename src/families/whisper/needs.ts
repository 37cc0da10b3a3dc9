import type { ModelFiles } from "../../domain/model.ts";
import type { FamilyMachine, ModelNeeds } from "../contract.ts";
import { readHead, type WhisperHead } from "./model-file.ts";
import { stepSharing } from "./step-sharing.ts";

/** Says what the head of a model's file shows of its needs; nothing where the file cannot be read. */
export function whisperNeeds({ weights }: ModelFiles, machine: FamilyMachine): Omit<ModelNeeds, "bytes"> {
  const head = weights === undefined ? undefined : readHead(weights);
  return head ? { ...memoryOf(head), sharing: stepSharing(head, machine) } : {};
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
