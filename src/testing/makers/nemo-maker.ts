import { Header } from "tar";
import { type MadeTensor, makeTorchFile } from "./checkpoint-makers.ts";

/**
 * Makes `.nemo` files as NeMo writes them, of made-up weights. Values are numbers of 16 bits, so that no form of the weights
 * rounds them. The same arguments give the same bytes.
 */

/** A model's sizes under the names of NeMo's configuration, and its tokens. */
export type NemoModel = {
  mels: number;
  subsampling: "dw_striding" | "striding";
  factor: number;
  channels: number;
  width: number;
  inner: number;
  heads: number;
  layers: number;
  kernel: number;
  hasBiases: boolean;
  xscaling: boolean;
  predictionWidth: number;
  predictionLayers: number;
  jointWidth: number;
  /** Empty: an RNN-T model. */
  durations: readonly number[];
  tokenizer: "bpe" | "wpe" | "characters";
  tokens: readonly string[];
  /** Release of NeMo that saved the model. */
  release: string;
  /** How sure the model is of its tokens; left out: 1. */
  sharpness?: number;
  seed: number;
};

const PARAKEET: NemoModel = {
  ...{ mels: 80, subsampling: "dw_striding", factor: 8, channels: 16, width: 64, inner: 256, heads: 4 },
  ...{ layers: 2, kernel: 9, hasBiases: false, xscaling: false, predictionWidth: 32, predictionLayers: 2 },
  ...{ jointWidth: 48, durations: [0, 1, 2, 3, 4], tokenizer: "bpe", seed: 40, release: "2.7.3" },
  tokens: ["<unk>", ..."ka ki ku na ni nu ta ti tu ra".split(" ").flatMap((part) => [part, `▁${part}`]), "."],
};

/** Models of three shapes, which differ in all that the engine distinguishes, and one that is sure of what it writes. */
export const NEMO_MODELS: Readonly<Record<"parakeet" | "wide" | "rnnt" | "sure", NemoModel>> = {
  parakeet: PARAKEET,
  sure: { ...PARAKEET, sharpness: 4, seed: 50 },
  wide: {
    ...{ mels: 128, subsampling: "dw_striding", factor: 4, channels: 8, width: 32, inner: 64, heads: 2 },
    ...{ layers: 3, kernel: 5, hasBiases: true, xscaling: true, predictionWidth: 64, predictionLayers: 1 },
    ...{ jointWidth: 32, durations: [0, 1, 2, 4], tokenizer: "characters", seed: 23, release: "3.0.0" },
    tokens: [" ", ..."अआइकखगतदनपबमयरलवसह"],
  },
  rnnt: {
    ...{ mels: 80, subsampling: "striding", factor: 4, channels: 24, width: 96, inner: 192, heads: 4 },
    ...{ layers: 2, kernel: 15, hasBiases: true, xscaling: true, predictionWidth: 40, predictionLayers: 1 },
    ...{ jointWidth: 64, durations: [], tokenizer: "wpe", seed: 3, release: "1.23.0" },
    tokens: [
      "[PAD]",
      "[UNK]",
      ..."one two three four five six".split(" "),
      ..."##s ##teen ##ty ##th".split(" "),
    ],
  },
};

type Random = () => number;

/** Returns numbers of mean 0 and deviation 1, roughly. Neighbours must not resemble each other, else rows are alike (Mulberry32). */
function createRandom(seed: number): Random {
  let state = seed >>> 0;
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  return () => (next() + next() + next() + next() - 2) * Math.sqrt(3);
}

/** Makes all tensors of a model under NeMo's names. */
export function makeNemoTensors(model: NemoModel): MadeTensor[] {
  const random = createRandom(model.seed);
  const tensors: MadeTensor[] = [];
  const add = (name: string, shape: number[], deviation: number, mean = 0) => {
    const count = shape.reduce((product, size) => product * size, 1);
    const halves = new Float16Array(count).map(() => mean + deviation * random());
    const isCounter = name.endsWith("num_batches_tracked");
    tensors.push({ name, shape, values: Float32Array.from(halves), ...(isCounter ? { isCounter } : {}) });
  };
  const linear = (name: string, inputs: number, outputs: number, hasBias: boolean, more: number[] = []) => {
    add(`${name}.weight`, [outputs, inputs, ...more], 1 / Math.sqrt(inputs));
    if (hasBias) add(`${name}.bias`, [outputs], 0.1);
  };
  const norm = (name: string, width: number) => {
    add(`${name}.weight`, [width], 0.1, 1);
    add(`${name}.bias`, [width], 0.1);
  };
  addFeatures(model, tensors);
  addSubsampling(model, add, linear);
  for (let layer = 0; layer < model.layers; layer++)
    addLayer(`encoder.layers.${layer}.`, model, { add, linear, norm });
  const { predictionWidth: width, jointWidth, tokens, durations } = model;
  add("decoder.prediction.embed.weight", [tokens.length + 1, width], 1);
  for (let layer = 0; layer < model.predictionLayers; layer++) {
    const name = "decoder.prediction.dec_rnn.lstm.";
    for (const part of ["weight_ih_l", "weight_hh_l"])
      add(`${name}${part}${layer}`, [4 * width, width], 1.5 / Math.sqrt(width));
    for (const part of ["bias_ih_l", "bias_hh_l"]) add(`${name}${part}${layer}`, [4 * width], 0.1);
  }
  // A token has to end by itself where no duration ends it.
  add("joint.pred.weight", [jointWidth, width], (durations.length > 0 ? 1 : 4) / Math.sqrt(width));
  add("joint.pred.bias", [jointWidth], 0.1);
  // The sound says more than the text before.
  add("joint.enc.weight", [jointWidth, model.width], 2 / Math.sqrt(model.width));
  add("joint.enc.bias", [jointWidth], 0.1);
  const outputs = tokens.length + 1 + durations.length;
  const sharpness = model.sharpness ?? 1;
  add("joint.joint_net.2.weight", [outputs, jointWidth], (4 * sharpness) / Math.sqrt(jointWidth));
  add("joint.joint_net.2.bias", [outputs], 0.1);
  // Most frames of a trained model have no token.
  const bias = tensors.at(-1)?.values;
  if (bias) bias[tokens.length] = 8 * sharpness;
  if (bias && durations.length > 0) bias[tokens.length + 1] = -2 * sharpness;
  return inOrder(tensors);
}

/** Parts of a layer in the order of NeMo's files. */
const LAYER_ORDER = [
  "norm_feed_forward1",
  "feed_forward1",
  "norm_conv",
  "conv",
  "norm_self_att",
  "self_attn",
];
const POSITIONS = /pos_bias_[uv]$/;

/** Sorts tensors as NeMo writes them. They are made in another order. */
function inOrder(tensors: readonly MadeTensor[]): MadeTensor[] {
  const placeOf = ({ name }: MadeTensor): number => {
    const [, layer, part = ""] = /^encoder\.layers\.(\d+)\.(\w+)/.exec(name) ?? [];
    if (name.startsWith("preprocessor.")) return name.endsWith("window") ? -4 : -3;
    if (name.startsWith("encoder.pre_encode")) return name.includes(".out.") ? -2 : -1;
    if (layer === undefined) return name.startsWith("decoder.") ? 1e6 : 2e6;
    const found = LAYER_ORDER.indexOf(part);
    return (
      100 * Number(layer) + 10 * (found === -1 ? LAYER_ORDER.length : found) + (POSITIONS.test(name) ? 0 : 1)
    );
  };
  return tensors.toSorted((one, other) => placeOf(one) - placeOf(other));
}

type Add = (name: string, shape: number[], deviation: number, mean?: number) => void;
type Linear = (name: string, inputs: number, outputs: number, hasBias: boolean, more?: number[]) => void;

/** Triangles of equal distance, and the window that NeMo has. */
function addFeatures({ mels }: NemoModel, tensors: MadeTensor[]): void {
  const filters = new Float32Array(mels * 257);
  for (let mel = 0; mel < mels; mel++) {
    const [left, middle, right] = [mel, mel + 1, mel + 2].map((corner) => (256 * corner) / (mels + 1));
    for (let bin = 0; bin < 257; bin++) {
      const up = (bin - (left ?? 0)) / ((middle ?? 0) - (left ?? 0));
      const down = ((right ?? 0) - bin) / ((right ?? 0) - (middle ?? 0));
      filters[mel * 257 + bin] = Math.max(0, Math.min(up, down)) * 0.02;
    }
  }
  const window = Float32Array.from({ length: 400 }, (_, n) => 0.5 - 0.5 * Math.cos((2 * Math.PI * n) / 399));
  tensors.push({ name: "preprocessor.featurizer.window", shape: [400], values: window });
  tensors.push({ name: "preprocessor.featurizer.fb", shape: [1, mels, 257], values: filters });
}

function addSubsampling(
  { mels, subsampling, factor, channels, width }: NemoModel,
  add: Add,
  linear: Linear,
): void {
  const name = (number: number) => `encoder.pre_encode.conv.${number}`;
  const convolution = (number: number, inputs: number, size: number) => {
    add(`${name(number)}.weight`, [channels, inputs, size, size], 1.4 / Math.sqrt(inputs * size * size));
    add(`${name(number)}.bias`, [channels], 0.1);
  };
  convolution(0, 1, 3);
  let bands = Math.ceil(mels / 2);
  for (let halving = 1; halving < Math.log2(factor); halving++) {
    bands = Math.ceil(bands / 2);
    if (subsampling === "striding") convolution(2 * halving, channels, 3);
    else {
      convolution(3 * halving - 1, 1, 3);
      convolution(3 * halving, channels, 1);
    }
  }
  linear("encoder.pre_encode.out", bands * channels, width, true);
}

type Makers = { add: Add; linear: Linear; norm: (name: string, width: number) => void };

function addLayer(of: string, model: NemoModel, { add, linear, norm }: Makers): void {
  const { width, inner, heads, kernel, hasBiases } = model;
  for (const part of ["feed_forward1", "feed_forward2"]) {
    norm(`${of}norm_${part}`, width);
    linear(`${of}${part}.linear1`, width, inner, hasBiases);
    linear(`${of}${part}.linear2`, inner, width, hasBiases);
  }
  for (const part of ["norm_conv", "norm_self_att", "norm_out"]) norm(of + part, width);
  linear(`${of}conv.pointwise_conv1`, width, 2 * width, hasBiases, [1]);
  add(`${of}conv.depthwise_conv.weight`, [width, 1, kernel], 1 / Math.sqrt(kernel));
  if (hasBiases) add(`${of}conv.depthwise_conv.bias`, [width], 0.1);
  norm(`${of}conv.batch_norm`, width);
  add(`${of}conv.batch_norm.running_mean`, [width], 0.1);
  add(`${of}conv.batch_norm.running_var`, [width], 0.05, 0.5);
  add(`${of}conv.batch_norm.num_batches_tracked`, [], 0, 7);
  linear(`${of}conv.pointwise_conv2`, width, width, hasBiases, [1]);
  for (const part of ["q", "k", "v", "out"]) linear(`${of}self_attn.linear_${part}`, width, width, hasBiases);
  linear(`${of}self_attn.linear_pos`, width, width, false);
  for (const part of ["u", "v"]) add(`${of}self_attn.pos_bias_${part}`, [heads, width / heads], 0.3);
}

/** A reference of OmegaConf. */
const referenceTo = (name: string): string => `$${`{${name}}`}`;

type Config = Record<string, unknown> & Record<"encoder" | "joint" | "preprocessor", Record<string, unknown>>;

/** Says which files of the archive a tokenizer has. Models of characters have none. */
function tokenizerConfig({ tokenizer }: NemoModel): Record<string, unknown> {
  if (tokenizer === "characters") return {};
  const files = { model_path: "nemo:01ab_tokenizer.model", spe_tokenizer_vocab: "nemo:01ab_tokenizer.vocab" };
  const kind = { dir: "tokenizer", type: tokenizer, vocab_path: "nemo:01ab_vocab.txt" };
  return { tokenizer: { ...kind, ...(tokenizer === "bpe" ? files : {}) } };
}

/** Makes what `model_config.yaml` holds. JSON is YAML as well. */
export function makeNemoConfig(model: NemoModel): Config {
  const { mels, subsampling, factor, channels, width, heads, layers, kernel, xscaling, durations, tokens } =
    model;
  const { hasBiases, predictionWidth, predictionLayers } = model;
  const isTdt = durations.length > 0;
  return {
    sample_rate: 16_000,
    preprocessor: {
      _target_: "nemo.collections.asr.modules.AudioToMelSpectrogramPreprocessor",
      ...{ sample_rate: 16_000, normalize: "per_feature", window_size: 0.025, window_stride: 0.01 },
      ...{ window: "hann", features: mels, n_fft: 512, frame_splicing: 1, dither: 1e-5, pad_to: 0 },
    },
    model_defaults: { heads, ...(isTdt ? { tdt_durations: durations } : {}) },
    encoder: {
      _target_: "nemo.collections.asr.modules.ConformerEncoder",
      ...{ feat_in: mels, feat_out: -1, n_layers: layers, d_model: width },
      ...{ subsampling, subsampling_factor: factor, subsampling_conv_channels: channels, reduction: null },
      ...{
        self_attention_model: "rel_pos",
        n_heads: referenceTo("model_defaults.heads"),
        att_context_size: [-1, -1],
        xscaling,
      },
      ...{ untie_biases: true, conv_kernel_size: kernel, conv_norm_type: "batch_norm" },
      // Release 1 has biases everywhere, and no such setting.
      ...(model.release.startsWith("1.") ? {} : { use_bias: hasBiases }),
    },
    decoder: {
      _target_: "nemo.collections.asr.modules.RNNTDecoder",
      ...{ normalization_mode: null, blank_as_pad: true, vocab_size: tokens.length },
      prednet: { pred_hidden: predictionWidth, pred_rnn_layers: predictionLayers, t_max: null, dropout: 0.2 },
    },
    joint: {
      _target_: "nemo.collections.asr.modules.RNNTJoint",
      ...{ num_classes: tokens.length, num_extra_outputs: durations.length, vocabulary: tokens },
      jointnet: {
        ...{ joint_hidden: model.jointWidth, activation: "relu", dropout: 0.2 },
        ...{ encoder_hidden: width, pred_hidden: predictionWidth },
      },
    },
    ...tokenizerConfig(model),
    decoding: {
      ...{ strategy: "greedy_batch", greedy: { max_symbols: 10 } },
      ...(isTdt ? { model_type: "tdt", durations } : {}),
    },
    loss: isTdt
      ? { loss_name: "tdt", tdt_kwargs: { durations, sigma: 0.02, omega: 0.1 } }
      : { loss_name: "default" },
    labels: tokens,
    target: `nemo.collections.asr.models.EncDecRNNT${model.tokenizer === "characters" ? "" : "BPE"}Model`,
    nemo_version: model.release,
  };
}

/** A file of an archive. `type`: of tar, such as `SymbolicLink`. */
export type NemoEntry = {
  name: string;
  content: Uint8Array;
  type?: "File" | "SymbolicLink" | "ExtendedHeader" | "Directory";
};

/** Makes a tar archive, with the time of each file in an extended header, as Python's tarfile does. */
export function makeTar(entries: readonly NemoEntry[]): Buffer {
  const withTimes = entries.flatMap((entry): NemoEntry[] => {
    if (entry.type === "Directory") return [entry];
    const line = "27 mtime=1764158400.1234567\n";
    return [{ name: `PaxHeader/${entry.name}`, content: Buffer.from(line), type: "ExtendedHeader" }, entry];
  });
  const parts = withTimes.flatMap(({ name, content, type = "File" }) => {
    const block = Buffer.alloc(512);
    const size = type === "SymbolicLink" ? 0 : content.length;
    const header = { path: `./${name}`, type, size, mode: 0o644, mtime: new Date(1.7e12) };
    new Header({ ...header, ...(type === "SymbolicLink" ? { linkpath: "/etc/passwd" } : {}) }).encode(block);
    return [block, content.subarray(0, size), Buffer.alloc((512 - (size % 512)) % 512)];
  });
  return Buffer.concat([...parts, Buffer.alloc(1024)]);
}

/** Makes a `.nemo` file. */
export function makeNemo(
  config: unknown,
  tensors: readonly MadeTensor[],
  more: readonly NemoEntry[] = [],
): Buffer {
  return makeTar([
    { name: "", content: new Uint8Array(), type: "Directory" },
    { name: "model_config.yaml", content: Buffer.from(JSON.stringify(config, null, 1)) },
    { name: "model_weights.ckpt", content: makeTorchFile(tensors, "F32") },
    ...more,
  ]);
}
