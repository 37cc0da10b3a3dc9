import { closeSync, fstatSync } from "node:fs";
import { openRegularFile } from "../../lib/regular-file.ts";
import { FileCursor } from "./file-cursor.ts";

/** The contents of the head of a model file. */
export type ModelFileInfo = {
  multilingual: boolean;
  /** Number of tokens: 51864 (English only), 51865 or 51866 (with Cantonese). */
  vocab: number;
  /** Number of whisper's language codes for which the model has tokens. */
  languages: number;
  audioLayers: number;
  textLayers: number;
  /** Width of the encoder's and decoder's states. */
  stateSize: number;
  heads: number;
  mels: number;
  /** The type of most weights: `f16`, `q5_1` and others. */
  fileType: string;
  /** whisper.cpp's name for the number of audio layers, such as `tiny` or `base`; or `unknown`. */
  type: string;
  tensors: number;
  bytes: number;
};

type WeightType = { name: string; type: number; blockElements: number; blockBytes: number };

const MAGIC = 0x67676d6c;
const QUANTIZATION_VERSION_FACTOR = 1000;
const AUDIO_CONTEXT = 1500;
const TEXT_CONTEXT = 448;
const FILTER_BINS = 201;
const ENGLISH_VOCAB = 51864;
const MULTILINGUAL_VOCABS = [51865, 51866];
const MAX_TOKEN_BYTES = 1024;
const MAX_LAYERS = 128;
const MAX_STATE = 16384;
const MAX_NAME_BYTES = 128;
const MAX_DIMENSIONS = 4;

/** ggml's tensor types by number: elements and bytes of a block (ggml.c, `type_traits`). */
const F32: WeightType = { name: "f32", type: 0, blockElements: 1, blockBytes: 4 };
export const F16: WeightType = { name: "f16", type: 1, blockElements: 1, blockBytes: 2 };

/**
 * File types that whisper.cpp can use, by the number in the head (ggml.h, `ggml_ftype`). Number 0, 32-bit weights, is not
 * among them: such a file loads, but the first transcription aborts in ggml's convolution.
 */
export const FILE_TYPES: ReadonlyMap<number, WeightType> = new Map<number, WeightType>([
  [1, F16],
  [2, { name: "q4_0", type: 2, blockElements: 32, blockBytes: 18 }],
  [3, { name: "q4_1", type: 3, blockElements: 32, blockBytes: 20 }],
  [7, { name: "q8_0", type: 8, blockElements: 32, blockBytes: 34 }],
  [8, { name: "q5_0", type: 6, blockElements: 32, blockBytes: 22 }],
  [9, { name: "q5_1", type: 7, blockElements: 32, blockBytes: 24 }],
  [10, { name: "q2_k", type: 10, blockElements: 256, blockBytes: 84 }],
  [11, { name: "q3_k", type: 11, blockElements: 256, blockBytes: 110 }],
  [12, { name: "q4_k", type: 12, blockElements: 256, blockBytes: 144 }],
  [13, { name: "q5_k", type: 13, blockElements: 256, blockBytes: 176 }],
  [14, { name: "q6_k", type: 14, blockElements: 256, blockBytes: 210 }],
]);

const TYPE_NAMES = new Map([
  [4, "tiny"],
  [6, "base"],
  [12, "small"],
  [24, "medium"],
  [32, "large"],
]);

/**
 * Checks that whisper.cpp 1.9.1 can load a file as a model without reading outside of it: possible sizes, a complete
 * vocabulary, and exactly the tensors that follow from the sizes, each with the right shape and type and wholly within
 * the file. It reads the head of the file and of each tensor, but not the weights, so it does not find damaged weights.
 *
 * whisper.cpp itself crashes on most damaged files, and accepts one without tensors as a model that recognizes nothing.
 * The format is defined by whisper.cpp's `models/convert-pt-to-ggml.py` and its `whisper_model_load`.
 *
 * @throws Error with the path and the reason
 */
export function checkModelFile(path: string): ModelFileInfo {
  let file: number;
  try {
    file = openRegularFile(path);
  } catch (error) {
    throw new Error(`model ${path} cannot be opened: ${(error as NodeJS.ErrnoException).code ?? error}`);
  }
  try {
    return readModel(new FileCursor(file, fstatSync(file).size));
  } catch (error) {
    throw new Error(`model ${path} cannot be used: ${(error as Error).message}`);
  } finally {
    closeSync(file);
  }
}

/** What the head of a file says of the shape of a model: `width` is that of the states, `textHeads` those of a layer of the decoder. */
export type WhisperHead = {
  width: number;
  textLayers: number;
  textHeads: number;
  audioLayers: number;
  vocab: number;
};

/** Reports whether a model has tokens for languages and tasks. */
export const isMultilingual = ({ vocab }: Pick<WhisperHead, "vocab">): boolean => vocab !== ENGLISH_VOCAB;

/** Returns undefined when a file does not begin as a model does. */
export function readHead(path: string): WhisperHead | undefined {
  let file: number;
  try {
    file = openRegularFile(path);
  } catch {
    return undefined;
  }
  try {
    const cursor = new FileCursor(file, fstatSync(file).size);
    if (cursor.uint32() !== MAGIC) return undefined;
    const { state, textLayers, textHeads, audioLayers, vocab } = readSizes(cursor);
    return { width: state, textLayers, textHeads, audioLayers, vocab };
  } catch {
    return undefined;
  } finally {
    closeSync(file);
  }
}

function readModel(cursor: FileCursor): ModelFileInfo {
  if (cursor.bytes === 0) throw new Error("the file is empty");
  if (cursor.bytes < 4 || cursor.uint32() !== MAGIC)
    throw new Error("it is not a whisper model in ggml format");
  const sizes = readSizes(cursor);
  skipFilters(cursor, sizes.mels);
  skipVocabulary(cursor, sizes.vocab);
  const tensors = expectedTensors(sizes);
  walkTensors(cursor, tensors);
  const multilingual = sizes.vocab !== ENGLISH_VOCAB;
  return {
    multilingual,
    vocab: sizes.vocab,
    languages: multilingual ? sizes.vocab - 51766 : 1,
    audioLayers: sizes.audioLayers,
    textLayers: sizes.textLayers,
    stateSize: sizes.state,
    heads: sizes.audioHeads,
    mels: sizes.mels,
    fileType: sizes.weights.name,
    type: TYPE_NAMES.get(sizes.audioLayers) ?? "unknown",
    tensors: tensors.size,
    bytes: cursor.bytes,
  };
}

/** The sizes that determine the shapes of a model's tensors. */
export type TensorSizes = {
  vocab: number;
  /** Width of the states. */
  state: number;
  audioLayers: number;
  textLayers: number;
  mels: number;
  weights: WeightType;
};

type Sizes = TensorSizes & { audioHeads: number; textHeads: number };

function readSizes(cursor: FileCursor): Sizes {
  const vocab = cursor.int32();
  const audioContext = cursor.int32();
  const audioState = cursor.int32();
  const audioHeads = cursor.int32();
  const audioLayers = cursor.int32();
  const textContext = cursor.int32();
  const textState = cursor.int32();
  const textHeads = cursor.int32();
  const textLayers = cursor.int32();
  const mels = cursor.int32();
  const fileType = cursor.int32();

  // whisper.cpp derives the special tokens from the size of the vocabulary, and has names for 100 languages.
  if (vocab !== ENGLISH_VOCAB && !MULTILINGUAL_VOCABS.includes(vocab)) {
    throw new Error(`its vocabulary of ${vocab} tokens is not one of whisper's`);
  }
  if (audioContext !== AUDIO_CONTEXT)
    throw new Error(`its audio context is ${audioContext}, not ${AUDIO_CONTEXT}`);
  if (textContext !== TEXT_CONTEXT)
    throw new Error(`its text context is ${textContext}, not ${TEXT_CONTEXT}`);
  if (audioState !== textState) throw new Error("its encoder and decoder differ in width");
  if (audioState < 32 || audioState > MAX_STATE || audioState % 32 !== 0) {
    throw new Error(`its width of ${audioState} is not a multiple of 32 up to ${MAX_STATE}`);
  }
  for (const heads of [audioHeads, textHeads]) {
    if (heads < 1 || audioState % heads !== 0 || (audioState / heads) % 8 !== 0 || audioState / heads > 256) {
      throw new Error(`its ${heads} attention heads do not fit its width of ${audioState}`);
    }
  }
  for (const layers of [audioLayers, textLayers]) {
    if (layers < 1 || layers > MAX_LAYERS) throw new Error(`its number of layers is ${layers}`);
  }
  if (mels !== 80 && mels !== 128) throw new Error(`it wants ${mels} mel bands, not 80 or 128`);
  if (fileType === 0)
    throw new Error("its weights have 32 bits, which whisper.cpp cannot use: convert it to f16");
  const weights = fileType < 0 ? undefined : FILE_TYPES.get(fileType % QUANTIZATION_VERSION_FACTOR);
  if (weights === undefined) throw new Error(`its file type ${fileType} is not supported`);
  if (audioState % weights.blockElements !== 0) {
    throw new Error(`its width of ${audioState} cannot be stored as ${weights.name}`);
  }
  return { vocab, state: audioState, audioHeads, textHeads, audioLayers, textLayers, mels, weights };
}

function skipFilters(cursor: FileCursor, mels: number): void {
  const filterMels = cursor.int32();
  const filterBins = cursor.int32();
  if (filterMels !== mels || filterBins !== FILTER_BINS) {
    throw new Error(`its mel filters are ${filterMels} × ${filterBins}, not ${mels} × ${FILTER_BINS}`);
  }
  cursor.skip(filterMels * filterBins * 4);
}

/** A file may list fewer tokens than the model has; whisper.cpp invents names for the rest. */
function skipVocabulary(cursor: FileCursor, vocab: number): void {
  const tokens = cursor.int32();
  if (tokens < 1 || tokens > vocab) throw new Error(`its vocabulary lists ${tokens} of ${vocab} tokens`);
  let blankSeen = false;
  for (let id = 0; id < tokens; id++) {
    const length = cursor.uint32();
    if (length > MAX_TOKEN_BYTES) throw new Error(`token ${id} of its vocabulary is ${length} bytes long`);
    if (length === 1) blankSeen = cursor.uint8() === 0x20 || blankSeen;
    else cursor.skip(length);
  }
  // whisper.cpp looks up the blank to suppress it, and aborts without it.
  if (!blankSeen) throw new Error("its vocabulary has no blank");
}

type Tensor = { shape: number[]; weights: WeightType };

/** Returns every tensor of a whisper model by name (whisper.cpp's `whisper_model_load` and `whisper-arch.h`). */
export function expectedTensors(sizes: TensorSizes): Map<string, Tensor> {
  const { state, weights, mels, vocab } = sizes;
  const tensors = new Map<string, Tensor>();
  const vector = (name: string, length = state) => tensors.set(name, { shape: [length], weights: F32 });
  const matrix = (name: string, columns = state, rows = state) =>
    tensors.set(name, { shape: [columns, rows], weights });
  const norm = (name: string) => {
    vector(`${name}.weight`);
    vector(`${name}.bias`);
  };
  const attention = (name: string) => {
    norm(`${name}_ln`);
    for (const part of ["query", "key", "value", "out"]) {
      matrix(`${name}.${part}.weight`);
      if (part !== "key") vector(`${name}.${part}.bias`);
    }
  };
  const mlp = (block: string) => {
    norm(`${block}.mlp_ln`);
    matrix(`${block}.mlp.0.weight`, state, 4 * state);
    vector(`${block}.mlp.0.bias`, 4 * state);
    matrix(`${block}.mlp.2.weight`, 4 * state, state);
    vector(`${block}.mlp.2.bias`);
  };

  tensors.set("encoder.positional_embedding", { shape: [state, AUDIO_CONTEXT], weights: F32 });
  for (const [name, inputs] of [
    ["encoder.conv1", mels],
    ["encoder.conv2", state],
  ] as const) {
    tensors.set(`${name}.weight`, { shape: [3, inputs, state], weights: F16 });
    tensors.set(`${name}.bias`, { shape: [1, state], weights: F32 });
  }
  norm("encoder.ln_post");
  for (let layer = 0; layer < sizes.audioLayers; layer++) {
    attention(`encoder.blocks.${layer}.attn`);
    mlp(`encoder.blocks.${layer}`);
  }
  tensors.set("decoder.positional_embedding", { shape: [state, TEXT_CONTEXT], weights: F32 });
  matrix("decoder.token_embedding.weight", state, vocab);
  norm("decoder.ln");
  for (let layer = 0; layer < sizes.textLayers; layer++) {
    attention(`decoder.blocks.${layer}.attn`);
    attention(`decoder.blocks.${layer}.cross_attn`);
    mlp(`decoder.blocks.${layer}`);
  }
  return tensors;
}

function walkTensors(cursor: FileCursor, expected: Map<string, Tensor>): void {
  if (cursor.atEnd()) throw new Error("it has no weights");
  const missing = new Set(expected.keys());
  while (!cursor.atEnd()) {
    const dimensions = cursor.int32();
    const nameBytes = cursor.int32();
    const type = cursor.int32();
    if (dimensions < 1 || dimensions > MAX_DIMENSIONS)
      throw new Error(`a tensor has ${dimensions} dimensions`);
    if (nameBytes < 1 || nameBytes > MAX_NAME_BYTES)
      throw new Error("a tensor's name has an impossible length");
    const shape = Array.from({ length: dimensions }, () => cursor.int32());
    const name = cursor.text(nameBytes);
    const tensor = expected.get(name);
    if (tensor === undefined) throw new Error(`it has an unknown tensor ${JSON.stringify(name)}`);
    if (!missing.delete(name)) throw new Error(`it has the tensor ${name} twice`);
    if (!sameShape(shape, tensor.shape)) {
      throw new Error(`its tensor ${name} is ${shape.join(" × ")}, not ${tensor.shape.join(" × ")}`);
    }
    if (type !== tensor.weights.type) {
      throw new Error(
        `its tensor ${name} has type ${type}, not ${tensor.weights.type} (${tensor.weights.name})`,
      );
    }
    const elements = shape.reduce((product, size) => product * size, 1);
    cursor.skip((elements / tensor.weights.blockElements) * tensor.weights.blockBytes);
  }
  const first = missing.values().next().value;
  if (first !== undefined) throw new Error(`${missing.size} of its tensors are missing, such as ${first}`);
}

/** Compares shapes without trailing sizes of one, in which converters differ. */
function sameShape(shape: number[], expected: number[]): boolean {
  for (let i = 0; i < Math.max(shape.length, expected.length); i++) {
    if ((shape[i] ?? 1) !== (expected[i] ?? 1)) return false;
  }
  return true;
}
