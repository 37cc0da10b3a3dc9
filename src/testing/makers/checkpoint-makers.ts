import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { whisperTensors } from "../../model-import/tensor-list.ts";
import type { WhisperShape } from "../../model-import/whisper-config.ts";
import { type MadeEntry, makeZip } from "./zip-maker.ts";

/**
 * Makes folders as transformers publishes Whisper models, of made-up weights. The same arguments give the same bytes, so
 * that the output of other converters for them can be written down (`testing/reference-converter/`).
 */

export type MadeTensor = {
  name: string;
  shape: number[];
  values: Float32Array<ArrayBuffer>;
  /** In torch's form its values are whole numbers of 64 bits. Left out: they have the type of the file. */
  isCounter?: boolean;
};
export type MadeType = "F32" | "F16" | "BF16";
export type MadeForm = "safetensors" | "sharded" | "torch";

/** The smallest shape that whisper.cpp accepts. */
export const SMALL_SHAPE: WhisperShape = {
  vocab: 51865,
  state: 32,
  audioHeads: 4,
  audioLayers: 1,
  textHeads: 4,
  textLayers: 2,
  mels: 80,
};

/** Makes every tensor of a shape, with values of a normal size. Their order is not that of the module. */
export function makeTensors(shape: WhisperShape, seed = 1): MadeTensor[] {
  let state = seed;
  const random = () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32 - 0.5;
  };
  const tensors = whisperTensors(shape).map(({ sourceName, sourceShape }) => {
    const values = new Float32Array(sourceShape.reduce((product, size) => product * size, 1));
    // Rows differ in size, as in trained weights: blocks get different scales.
    for (let i = 0; i < values.length; i++) values[i] = random() * (i % 97 === 0 ? 1.5 : 0.1);
    return { name: `model.${sourceName}`, shape: sourceShape, values };
  });
  return tensors.reverse();
}

/** Characters that represent bytes in `vocab.json`. */
const CHARACTERS = ((): string[] => {
  let other = 256;
  return Array.from({ length: 256 }, (_, byte) => {
    const isPrintable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    return String.fromCodePoint(isPrintable ? byte : other++);
  });
})();

const endOf = (vocab: number): number => (vocab === 51864 ? 50256 : 50257);

/** Makes `vocab.json`: the given words, all bytes, made-up words, and with three vocabularies what each is known to have. */
export function makeWords(vocab: number, words?: readonly Uint8Array[]): Record<string, number> {
  const end = endOf(vocab);
  const ids: Record<string, number> = {};
  const given = words ?? Array.from({ length: 256 }, (_, byte) => Uint8Array.of(byte));
  for (const [id, bytes] of given.entries()) ids[Array.from(bytes, (byte) => CHARACTERS[byte]).join("")] = id;
  const count = vocab === 51864 ? end : end - 1;
  for (let id = Object.keys(ids).length; id < count; id++) ids[`Ġ${id.toString(36)}à¤¼`] = id;
  if (vocab !== 51864) ids[""] = end - 1;
  // OpenAI's own folders list this special token among the words; others do not.
  if (vocab === 51866) ids["<|endoftext|>"] = end;
  return ids;
}

/** Makes `added_tokens.json`. */
export function makeAddedTokens(vocab: number): Record<string, number> {
  const end = endOf(vocab);
  const after = end + 2 + (vocab === 51866 ? 100 : 99);
  return {
    "<|endoftext|>": end,
    "<|startoftranscript|>": end + 1,
    "<|en|>": end + 2,
    "<|hi|>": end + 19,
    "<|translate|>": after,
    "<|transcribe|>": after + 1,
    "<|startoflm|>": after + 2,
    "<|startofprev|>": after + 3,
    [vocab === 51866 ? "<|nospeech|>" : "<|nocaptions|>"]: after + 4,
    "<|notimestamps|>": after + 5,
  };
}

export function makeConfig(shape: WhisperShape): Record<string, unknown> {
  return {
    architectures: ["WhisperForConditionalGeneration"],
    model_type: "whisper",
    activation_function: "gelu",
    vocab_size: shape.vocab,
    num_mel_bins: shape.mels,
    d_model: shape.state,
    encoder_attention_heads: shape.audioHeads,
    encoder_layers: shape.audioLayers,
    encoder_ffn_dim: 4 * shape.state,
    decoder_attention_heads: shape.textHeads,
    decoder_layers: shape.textLayers,
    decoder_ffn_dim: 4 * shape.state,
    decoder_start_token_id: endOf(shape.vocab) + 1,
    max_source_positions: 1500,
    max_target_positions: 448,
    max_length: 448,
    scale_embedding: false,
    tie_word_embeddings: true,
  };
}

export type MadeFolder = {
  shape: WhisperShape;
  tensors: MadeTensor[];
  type: MadeType;
  form: MadeForm;
  words?: Record<string, number>;
};

/** Writes a folder and returns its path. */
export function writeCheckpoint(path: string, { shape, tensors, type, form, words }: MadeFolder): string {
  mkdirSync(path, { recursive: true });
  const writeJson = (name: string, value: unknown) => writeFileSync(join(path, name), JSON.stringify(value));
  writeJson("config.json", makeConfig(shape));
  writeJson("vocab.json", words ?? makeWords(shape.vocab));
  writeJson("added_tokens.json", makeAddedTokens(shape.vocab));
  writeJson("preprocessor_config.json", {
    feature_size: shape.mels,
    sampling_rate: 16_000,
    n_fft: 400,
    hop_length: 160,
    chunk_length: 30,
  });
  if (form === "torch") writeFileSync(join(path, "pytorch_model.bin"), makeTorchFile(tensors, type));
  else if (form === "safetensors")
    writeFileSync(join(path, "model.safetensors"), makeSafetensors(tensors, type));
  else {
    const half = Math.ceil(tensors.length / 2);
    const map: Record<string, string> = {};
    for (const [index, part] of [tensors.slice(0, half), tensors.slice(half)].entries()) {
      const name = `model-0000${index + 1}-of-00002.safetensors`;
      writeFileSync(join(path, name), makeSafetensors(part, type));
      for (const tensor of part) map[tensor.name] = name;
    }
    writeJson("model.safetensors.index.json", { metadata: {}, weight_map: map });
  }
  return path;
}

/** Makes the bytes of values in a type. bf16 drops the lower half of each. */
export function valueBytes(values: Float32Array<ArrayBuffer>, type: MadeType): Buffer {
  if (type === "F32") return Buffer.from(values.buffer);
  if (type === "F16") return Buffer.from(new Float16Array(values).buffer);
  const bits = new Uint32Array(values.buffer);
  return Buffer.from(Uint16Array.from(bits, (value) => value >>> 16).buffer);
}

type HeaderEntry = { dtype: string; shape: number[]; data_offsets: [number, number] };

/** Makes a safetensors file. `change` may spoil its header. */
export function makeSafetensors(
  tensors: readonly MadeTensor[],
  type: MadeType,
  change: (header: Record<string, HeaderEntry>) => void = () => {},
): Buffer {
  const header: Record<string, HeaderEntry> = {};
  const parts: Buffer[] = [];
  let at = 0;
  for (const { name, shape, values } of tensors) {
    const bytes = valueBytes(values, type);
    header[name] = { dtype: type, shape, data_offsets: [at, at + bytes.length] };
    parts.push(bytes);
    at += bytes.length;
  }
  change(header);
  const text = JSON.stringify({ __metadata__: { format: "pt" }, ...header });
  const padded = Buffer.from(text.padEnd(Math.ceil(text.length / 8) * 8));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(padded.length));
  return Buffer.concat([length, padded, ...parts]);
}

const TORCH_STORAGES: Record<MadeType, string> = {
  F32: "FloatStorage",
  F16: "HalfStorage",
  BF16: "BFloat16Storage",
};

/** Makes a file as torch.save writes it for a state_dict, with the output layer tied to the tokens' embedding. */
export function makeTorchFile(tensors: readonly MadeTensor[], type: MadeType): Buffer {
  const entries: MadeEntry[] = [{ name: "archive/data.pkl", content: pickleStateDict(tensors, type) }];
  entries.push({ name: "archive/byteorder", content: Buffer.from("little") });
  for (const [key, { values, isCounter }] of tensors.entries()) {
    const content = isCounter
      ? Buffer.from(BigInt64Array.from(values, (value) => BigInt(Math.round(value))).buffer)
      : valueBytes(values, type);
    entries.push({ name: `archive/data/${key}`, content });
  }
  entries.push({ name: "archive/version", content: Buffer.from("3\n") });
  return makeZip(entries);
}

/** The sizes of a model under OpenAI's names. */
export function openAiSizes(shape: WhisperShape): Record<string, number> {
  return {
    ...{ n_mels: shape.mels, n_vocab: shape.vocab, n_audio_ctx: 1500, n_audio_state: shape.state },
    ...{ n_audio_head: shape.audioHeads, n_audio_layer: shape.audioLayers, n_text_ctx: 448 },
    ...{ n_text_state: shape.state, n_text_head: shape.textHeads, n_text_layer: shape.textLayers },
  };
}

/** Makes a file as OpenAI's program loads it, of tensors with the names of transformers. */
export function makeOpenAiFile(
  shape: WhisperShape,
  tensors: readonly MadeTensor[],
  type: MadeType,
  { sizes = openAiSizes(shape), root = "base" }: { sizes?: Record<string, number>; root?: string } = {},
): Buffer {
  const names = new Map(whisperTensors(shape).map(({ sourceName, ggmlName }) => [sourceName, ggmlName]));
  const items = tensors.map((tensor, key): [string, Buffer] => [
    names.get(tensor.name.slice("model.".length)) ?? tensor.name,
    pickledTensor(tensor, key, type),
  ]);
  const dictionary = (entries: readonly (readonly [string, Buffer])[]) =>
    Buffer.concat([
      op(0x7d, 0x28),
      ...entries.flatMap(([name, value]) => [pickledText(name), value]),
      op(0x75),
    ]);
  const pickle = Buffer.concat([
    op(0x80, 2),
    dictionary([
      ["dims", dictionary(Object.entries(sizes).map(([name, size]) => [name, int(size)] as const))],
      ["model_state_dict", dictionary(items)],
    ]),
    op(0x2e),
  ]);
  return makeZip([
    { name: `${root}/data.pkl`, content: pickle },
    ...tensors.map(({ values }, key) => ({ name: `${root}/data/${key}`, content: valueBytes(values, type) })),
    { name: `${root}/version`, content: Buffer.from("3\n") },
  ]);
}

const op = (...bytes: number[]): Buffer => Buffer.from(bytes);
const int = (value: number): Buffer => {
  const bytes = Buffer.alloc(5, "J");
  bytes.writeInt32LE(value, 1);
  return bytes;
};
/** Pickles a text, protocol 2. */
export const pickledText = (text: string): Buffer => {
  const bytes = Buffer.from(text);
  const length = Buffer.alloc(5, "X");
  length.writeUInt32LE(bytes.length, 1);
  return Buffer.concat([length, bytes]);
};
const tuple = (...items: Buffer[]): Buffer => Buffer.concat([op(0x28), ...items, op(0x74)]);
export const pickledGlobal = (module: string, name: string): Buffer => Buffer.from(`c${module}\n${name}\n`);

/** Pickles one tensor as torch does. `key` names its storage. */
export function pickledTensor({ shape, values, isCounter }: MadeTensor, key: number, type: MadeType): Buffer {
  const stride = shape.map((_, index) => shape.slice(index + 1).reduce((product, size) => product * size, 1));
  const storage = tuple(
    pickledText("storage"),
    pickledGlobal("torch", isCounter ? "LongStorage" : TORCH_STORAGES[type]),
    pickledText(String(key)),
    pickledText("cpu"),
    int(values.length),
  );
  const hooks = Buffer.concat([pickledGlobal("collections", "OrderedDict"), op(0x29, 0x52)]);
  const args = tuple(
    Buffer.concat([storage, op(0x51)]),
    int(0),
    tuple(...shape.map(int)),
    tuple(...stride.map(int)),
    op(0x89),
    hooks,
  );
  return Buffer.concat([pickledGlobal("torch._utils", "_rebuild_tensor_v2"), args, op(0x52)]);
}

/** Pickles a dictionary of names and already pickled values. */
export function pickledDict(items: readonly (readonly [string, Buffer])[]): Buffer {
  const parts = items.flatMap(([name, value]) => [pickledText(name), value]);
  return Buffer.concat([
    op(0x80, 2),
    pickledGlobal("collections", "OrderedDict"),
    op(0x29, 0x52, 0x71, 0, 0x28),
    ...parts,
    op(0x75),
    // The state of the dictionary: torch's `_metadata`.
    op(0x7d),
    pickledText("_metadata"),
    op(0x7d, 0x73, 0x62, 0x2e),
  ]);
}

function pickleStateDict(tensors: readonly MadeTensor[], type: MadeType): Buffer {
  const items = tensors.map((tensor, key): [string, Buffer] => [
    tensor.name,
    pickledTensor(tensor, key, type),
  ]);
  const embedding = tensors.findIndex(({ name }) => name === "model.decoder.embed_tokens.weight");
  const tied = tensors[embedding];
  if (tied) items.push(["proj_out.weight", pickledTensor(tied, embedding, type)]);
  return pickledDict(items);
}
