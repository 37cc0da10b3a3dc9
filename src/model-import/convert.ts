import { createHash } from "node:crypto";
import { openCheckpoint } from "./checkpoint.ts";
import { isCt2Folder, openCt2Folder } from "./ctranslate2.ts";
import { type ByteSink, int32, openSink } from "./ggml-writer.ts";
import { createHalfReader, type HalfReader, SLICE_VALUES } from "./halves.ts";
import { ImportError } from "./import-error.ts";
import { FILTER_BINS, melFilters } from "./mel-filters.ts";
import type { OpenModel } from "./open-model.ts";
import { quantise, WEIGHT_CODES, type WeightType, weightBytes } from "./quantise.ts";
import type { CheckpointFolder, SourceFile } from "./source-file.ts";
import type { StoredTensor } from "./stored-tensor.ts";
import { OUTPUT_LAYER, TOKEN_EMBEDDING, type WhisperTensor, whisperTensors } from "./tensor-list.ts";
import { readVocabulary } from "./vocabulary.ts";
import { AUDIO_CONTEXT, readWhisperConfig, TEXT_CONTEXT, type WhisperShape } from "./whisper-config.ts";

/** What an import has made, and of what. */
export type Imported = {
  /** Lower-case hex of the file that was made. */
  sha256: string;
  bytes: number;
  /** For people, such as `12 + 12 layers of width 768`. */
  size: string;
  tensors: number;
  /** The files with weights and their SHA-256. */
  sources: { name: string; sha256: string }[];
};

export type ConvertOptions = {
  type: WeightType;
  /** Creates the empty output once its size is known; undefined: nothing is written. */
  createOutput: (bytes: number) => number | undefined;
  /** Receives the share that is done, 0 to 1. */
  onProgress: (done: number) => void;
};

const MAGIC = 0x67676d6c;
const PREFIX = "model.";

/**
 * Converts a folder of transformers or CTranslate2 with a Whisper model into a ggml file. Of transformers, the f16 file is
 * equal, byte for byte, to that of whisper.cpp's own `convert-h5-to-ggml.py`, and the others to what its quantize program
 * makes of that file. Of CTranslate2, it is equal to the one of the same weights in a folder of transformers.
 *
 * @throws ImportError when anything about the folder is not as it must be; the file system's error
 */
export async function convertFolder(folder: CheckpointFolder, options: ConvertOptions): Promise<Imported> {
  return convertModel(isCt2Folder(folder) ? openCt2Folder(folder) : await openHuggingFace(folder), options);
}

async function openHuggingFace(folder: CheckpointFolder): Promise<OpenModel> {
  const shape = readWhisperConfig(folder);
  const tokens = readVocabulary(folder, shape.vocab);
  return { shape, tokens, sizesFrom: "config.json", ...(await openCheckpoint(folder)) };
}

/**
 * Converts an opened model into a ggml file, and closes it.
 *
 * @throws as `convertFolder`
 */
export async function convertModel(model: OpenModel, options: ConvertOptions): Promise<Imported> {
  const { shape, tokens } = model;
  try {
    const found = matchTensors(model);
    const reader = createHalfReader();
    const total = found.list.reduce((sum, { source }) => sum + source.elements, 0);
    let done = 0;
    const advance = (values: number) => {
      done += values;
      // Hashing of the sources comes afterwards and takes about a quarter of the time.
      options.onProgress((0.75 * done) / total);
    };
    const head = headOf(shape, tokens, options.type);
    const bytes = found.list.reduce(
      (sum, { tensor }) => sum + tensorBytes(tensor, options.type),
      head.length,
    );
    const sink = openSink(options.createOutput(bytes));
    sink.write(head);
    for (const { tensor, source } of found.list)
      writeTensor({ tensor, source, reader, sink, advance }, options.type);
    checkOutputLayer(found, shape);
    const sources = hashSources(model.files, (share) => options.onProgress(0.75 + 0.25 * share));
    return { sha256: sink.finish(), bytes, size: sizeOf(shape), tensors: found.list.length, sources };
  } finally {
    model.close();
  }
}

/** Says how large a Whisper model is. */
export const sizeOf = ({ audioLayers, textLayers, state }: WhisperShape): string =>
  `${audioLayers} + ${textLayers} layers of width ${state}`;

type Found = {
  list: { tensor: WhisperTensor; source: StoredTensor }[];
  outputLayer: StoredTensor | undefined;
  embedding: StoredTensor | undefined;
};

/** Finds every tensor of the model in a checkpoint. A checkpoint of the bare model has names without `model.`. */
function matchTensors({ tensors: stored, shape, sizesFrom }: OpenModel): Found {
  const file = stored.values().next().value?.file.name ?? "weights";
  const hasPrefix = stored.has(`${PREFIX}${TOKEN_EMBEDDING}`);
  const left = new Map(stored);
  const take = (name: string): StoredTensor | undefined => {
    const tensor = left.get(name);
    left.delete(name);
    return tensor;
  };
  const list = whisperTensors(shape).map((tensor) => {
    const name = (hasPrefix ? PREFIX : "") + tensor.sourceName;
    const source = take(name);
    if (!source) throw new ImportError(file, `the tensor ${name} is missing`);
    if (source.shape.join() !== tensor.sourceShape.join()) {
      throw new ImportError(
        source.file.name,
        `the tensor ${source.label ?? name} is ${source.shape.join(" × ")}; ${sizesFrom} says ${tensor.sourceShape.join(" × ")}`,
      );
    }
    return { tensor, source };
  });
  const outputLayer = take(OUTPUT_LAYER);
  const [unknown] = left;
  if (unknown) {
    const hint = /lora_|base_model/.test(unknown[0])
      ? ": merge the adapter (LoRA) into its base model first"
      : "";
    throw new ImportError(
      unknown[1].file.name,
      `the tensor ${unknown[1].label ?? unknown[0]} belongs to no Whisper model${hint}`,
    );
  }
  const embedding = list.find(({ tensor }) => tensor.sourceName === TOKEN_EMBEDDING)?.source;
  return { list, outputLayer, embedding };
}

function headOf(shape: WhisperShape, tokens: readonly Buffer[], type: WeightType): Buffer {
  const { vocab, state, audioHeads, audioLayers, textHeads, textLayers, mels } = shape;
  return Buffer.concat([
    int32(MAGIC, vocab, AUDIO_CONTEXT, state, audioHeads, audioLayers),
    int32(TEXT_CONTEXT, state, textHeads, textLayers, mels, WEIGHT_CODES[type].file),
    int32(mels, FILTER_BINS),
    new Uint8Array(melFilters(mels).buffer),
    int32(tokens.length),
    ...tokens.flatMap((token) => [int32(token.length), token]),
  ]);
}

/** The type that a tensor has in a file of a type. */
function typeOf({ stored }: WhisperTensor, type: WeightType): WeightType | "f32" {
  if (stored === "weights") return type;
  return stored;
}

const elementsOf = ({ shape }: WhisperTensor): number => shape.reduce((product, size) => product * size, 1);

function tensorHead(tensor: WhisperTensor, type: WeightType): Uint8Array {
  const { shape, ggmlName } = tensor;
  const stored = typeOf(tensor, type);
  const code = stored === "f32" ? 0 : WEIGHT_CODES[stored].tensor;
  const name = Buffer.from(ggmlName);
  return Buffer.concat([int32(shape.length, name.length, code, ...shape.toReversed()), name]);
}

function tensorBytes(tensor: WhisperTensor, type: WeightType): number {
  const stored = typeOf(tensor, type);
  const elements = elementsOf(tensor);
  return tensorHead(tensor, type).length + (stored === "f32" ? elements * 4 : weightBytes(stored, elements));
}

type Writing = {
  tensor: WhisperTensor;
  source: StoredTensor;
  reader: HalfReader;
  sink: ByteSink;
  advance: (values: number) => void;
};

function writeTensor({ tensor, source, reader, sink, advance }: Writing, type: WeightType): void {
  const stored = typeOf(tensor, type);
  sink.write(tensorHead(tensor, type));
  for (const halves of reader.slices(source, source.label ?? tensor.sourceName)) {
    sink.write(encode(halves, stored));
    advance(halves.length);
  }
}

const wide = new Float32Array(SLICE_VALUES);
const blocks = new Uint8Array(weightBytes("q8_0", SLICE_VALUES));

/** Makes the bytes of a slice. They are valid until the next call. */
export function encode(halves: Float16Array<ArrayBuffer>, stored: WeightType | "f32"): Uint8Array {
  if (stored === "f16") return new Uint8Array(halves.buffer, halves.byteOffset, halves.byteLength);
  const values = wide.subarray(0, halves.length);
  values.set(halves);
  if (stored === "f32") return new Uint8Array(values.buffer, 0, values.byteLength);
  const into = blocks.subarray(0, weightBytes(stored, values.length));
  quantise(values, stored, into);
  return into;
}

/** The file has no place for an output layer of its own. So it must have the values of the tokens' embedding. */
function checkOutputLayer({ outputLayer, embedding }: Found, { vocab, state }: WhisperShape): void {
  if (!outputLayer || !embedding) return;
  if (outputLayer.file === embedding.file && outputLayer.position === embedding.position) return;
  const refuse = () =>
    new ImportError(
      outputLayer.file.name,
      `the tensor ${OUTPUT_LAYER} differs from ${TOKEN_EMBEDDING}, and whisper.cpp uses one for both`,
    );
  if (outputLayer.shape.join() !== [vocab, state].join()) throw refuse();
  const one = createHalfReader().slices(outputLayer, OUTPUT_LAYER);
  const other = createHalfReader().slices(embedding, TOKEN_EMBEDDING);
  for (const values of one) {
    const compared = other.next().value;
    if (!compared || Buffer.compare(encode(values, "f16"), encode(compared, "f16")) !== 0) throw refuse();
  }
}

/** Hashes whole files. */
export function hashSources(
  files: readonly SourceFile[],
  onProgress: (share: number) => void,
): Imported["sources"] {
  const total = files.reduce((sum, { bytes }) => sum + bytes, 0);
  const buffer = new Uint8Array(4 * 1024 * 1024);
  let done = 0;
  return files.map((file) => {
    const hash = createHash("sha256");
    for (let at = 0; at < file.bytes; at += buffer.length) {
      const part = buffer.subarray(0, Math.min(buffer.length, file.bytes - at));
      file.fill(part, at);
      hash.update(part);
      done += part.length;
      onProgress(done / total);
    }
    return { name: file.name, sha256: hash.digest("hex") };
  });
}
