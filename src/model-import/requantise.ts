import { type ConvertOptions, encode, hashSources, type Imported, sizeOf } from "./convert.ts";
import { int32, openSink } from "./ggml-writer.ts";
import { createHalfReader } from "./halves.ts";
import { ImportError } from "./import-error.ts";
import { WEIGHT_CODES, weightBytes } from "./quantise.ts";
import type { SourceFile } from "./source-file.ts";
import { countElements, type StoredTensor } from "./stored-tensor.ts";
import type { WhisperShape } from "./whisper-config.ts";

const HEAD_INTEGERS = 12;
const FILE_TYPE_AT = 11;
const F32 = 0;
const F16 = 1;
const MAX_TOKENS = 60_000;
const MAX_TOKEN_BYTES = 1024;
const MAX_NAME_BYTES = 128;
const MAX_DIMENSIONS = 4;

/** A tensor of a ggml file: its head as it is, and where its values are. */
type GgmlTensor = { dimensions: number; code: number; shape: number[]; name: string; values: StoredTensor };

/**
 * Makes a file with smaller weights of a ggml file with f16 weights. The result is equal, byte for byte, to that of
 * whisper.cpp's quantize program: matrices are rounded to blocks, everything else is copied.
 *
 * @param file a file that `checkModelFile` has accepted
 * @throws ImportError for a file that is cut or has other weights than f16
 */
export async function requantise(file: SourceFile, options: ConvertOptions): Promise<Imported> {
  const { type } = options;
  if (type === "f16") throw new ImportError(file.name, "its weights are f16 already");
  const { head, shape, end } = readHead(file);
  const tensors = [...walkTensors(file, end)];
  const isRounded = ({ code, dimensions }: GgmlTensor) => code === F16 && dimensions === 2;
  const bytesOf = (tensor: GgmlTensor) =>
    tensorHead(tensor, tensor.code).length +
    (isRounded(tensor)
      ? weightBytes(type, tensor.values.elements)
      : tensor.values.elements * (tensor.code === F32 ? 4 : 2));
  const bytes = tensors.reduce((sum, tensor) => sum + bytesOf(tensor), end);
  const sink = openSink(options.createOutput(bytes));
  sink.write(int32(...head.slice(0, FILE_TYPE_AT), WEIGHT_CODES[type].file));
  copy(file, HEAD_INTEGERS * 4, end, sink.write);
  const reader = createHalfReader();
  const total = tensors.reduce((sum, { values }) => sum + values.elements, 0);
  let done = 0;
  for (const tensor of tensors) {
    const { values, name, code } = tensor;
    if (isRounded(tensor)) {
      sink.write(tensorHead(tensor, WEIGHT_CODES[type].tensor));
      for (const halves of reader.slices(values, name)) sink.write(encode(halves, type));
    } else {
      sink.write(tensorHead(tensor, code));
      copy(file, values.position, values.position + values.elements * (code === F32 ? 4 : 2), sink.write);
    }
    done += values.elements;
    options.onProgress((0.75 * done) / total);
  }
  const sources = hashSources([file], (share) => options.onProgress(0.75 + 0.25 * share));
  return { sha256: sink.finish(), bytes, size: sizeOf(shape), tensors: tensors.length, sources };
}

type Head = { head: number[]; shape: WhisperShape; end: number };

/** Reads the head, and finds the end of filters and vocabulary. */
function readHead(file: SourceFile): Head {
  const head = [...new Int32Array(new Uint8Array(file.read(0, HEAD_INTEGERS * 4)).buffer)];
  const [
    ,
    vocab = 0,
    ,
    state = 0,
    audioHeads = 0,
    audioLayers = 0,
    ,
    ,
    textHeads = 0,
    textLayers = 0,
    mels = 0,
  ] = head;
  if (head[FILE_TYPE_AT] !== WEIGHT_CODES.f16.file) {
    throw new ImportError(file.name, "its weights are not f16; only those can be rounded to other types");
  }
  const shape = { vocab, state, audioHeads, audioLayers, textHeads, textLayers, mels };
  let at = HEAD_INTEGERS * 4;
  const filters = file.read(at, 8);
  at += 8 + filters.readInt32LE(0) * filters.readInt32LE(4) * 4;
  const tokens = file.read(at, 4).readInt32LE();
  if (tokens < 0 || tokens > MAX_TOKENS) throw new ImportError(file.name, "its vocabulary is impossible");
  at += 4;
  for (let id = 0; id < tokens; id++) {
    const length = file.read(at, 4).readUInt32LE();
    if (length > MAX_TOKEN_BYTES) throw new ImportError(file.name, "its vocabulary is impossible");
    at += 4 + length;
  }
  return { head, shape, end: at };
}

function* walkTensors(file: SourceFile, start: number): Generator<GgmlTensor> {
  for (let at = start; at < file.bytes; ) {
    const head = file.read(at, 12);
    const [dimensions, nameBytes, code] = [head.readInt32LE(0), head.readInt32LE(4), head.readInt32LE(8)];
    if (dimensions < 1 || dimensions > MAX_DIMENSIONS || nameBytes < 1 || nameBytes > MAX_NAME_BYTES) {
      throw new ImportError(file.name, "one of its tensors has an impossible head");
    }
    if (code !== F32 && code !== F16)
      throw new ImportError(file.name, "one of its tensors is neither f32 nor f16");
    const sizes = file.read(at + 12, 4 * dimensions);
    const shape = Array.from({ length: dimensions }, (_, n) => sizes.readInt32LE(4 * n));
    const name = file.read(at + 12 + 4 * dimensions, nameBytes).toString("utf8");
    const position = at + 12 + 4 * dimensions + nameBytes;
    const elements = countElements(file.name, name, shape);
    const type = code === F32 ? "F32" : "F16";
    yield { dimensions, code, shape, name, values: { file, type, shape, position, elements } };
    at = position + elements * (code === F32 ? 4 : 2);
  }
}

function tensorHead({ dimensions, shape, name }: GgmlTensor, code: number): Uint8Array {
  const bytes = Buffer.from(name);
  return Buffer.concat([int32(dimensions, bytes.length, code, ...shape), bytes]);
}

function copy(file: SourceFile, from: number, to: number, write: (bytes: Uint8Array) => void): void {
  const buffer = new Uint8Array(4 * 1024 * 1024);
  for (let at = from; at < to; at += buffer.length) {
    const part = buffer.subarray(0, Math.min(buffer.length, to - at));
    file.fill(part, at);
    write(part);
  }
}
