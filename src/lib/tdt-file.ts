/**
 * The file of a TDT or RNN-T model, in GGUF: what the import writes, families check and `src/native/tdt/` loads. NeMo has no
 * such file; names and forms are this project's own.
 */

/** What the file says it is: `general.architecture`. */
export const TDT_ARCHITECTURE = "shruti-tdt";

/** How the encoder makes fewer frames of the features: NeMo's names. */
export const SUBSAMPLINGS = ["dw_striding", "striding"] as const;
export type Subsampling = (typeof SUBSAMPLINGS)[number];

/** Sizes of a model. */
export type TdtShape = {
  /** Bands of the features. */
  mels: number;
  subsampling: Subsampling;
  /** Frames of features for one of the encoder; a power of two. */
  factor: number;
  channels: number;
  /** Width of the encoder, and of the inner layer of its feed-forward nets. */
  width: number;
  inner: number;
  heads: number;
  layers: number;
  /** Frames of the encoder's convolutions; odd. */
  kernel: number;
  /** Products of the encoder's layers have biases. */
  hasBiases: boolean;
  /** The input of the first layer is multiplied by the root of the width. */
  scalesInput: boolean;
  /**
   * The sound continues as its mirror image at both ends, and features have a frame more: NeMo before release 2.5. Otherwise there
   * is silence.
   */
  reflectsEnds: boolean;
  /** Tokens without the blank, which follows them. */
  tokens: number;
  predictionWidth: number;
  predictionLayers: number;
  jointWidth: number;
  /** Most tokens of one frame. */
  mostSymbols: number;
  /** Frames that a token or blank takes, by the number of the output; empty for an RNN-T model. */
  durations: readonly number[];
};

/**
 * A tensor of the file. `shape`: the fastest dimension first. `stored`: 32 bits, 16 bits, or as the weights of the file where
 * their rows are whole blocks, else 16 bits.
 */
export type TdtTensor = { name: string; shape: readonly number[]; stored: "f32" | "f16" | "weights" };

/** Frequencies of a spectrum, and samples of a frame's window. */
export const TDT_FREQUENCIES = 257;
export const TDT_WINDOW = 400;

/** Lists all tensors of a model, in the order of the file. */
export function tdtTensors(shape: TdtShape): TdtTensor[] {
  const { mels, width, tokens, predictionWidth, jointWidth, durations } = shape;
  const list: TdtTensor[] = [
    { name: "features.filters", shape: [TDT_FREQUENCIES, mels], stored: "f32" },
    { name: "features.window", shape: [TDT_WINDOW], stored: "f32" },
    ...subsamplingTensors(shape),
  ];
  for (let layer = 0; layer < shape.layers; layer++) list.push(...layerTensors(`layers.${layer}.`, shape));
  list.push({ name: "prediction.embedding", shape: [predictionWidth, tokens + 1], stored: "weights" });
  for (let layer = 0; layer < shape.predictionLayers; layer++) {
    const gates = 4 * predictionWidth;
    for (const part of ["input", "hidden"])
      list.push({
        name: `prediction.${layer}.${part}`,
        shape: [predictionWidth, gates],
        stored: "weights",
      });
    list.push({ name: `prediction.${layer}.bias`, shape: [gates], stored: "f32" });
  }
  return [
    ...list,
    ...product("joint.encoder", width, jointWidth),
    ...product("joint.prediction", predictionWidth, jointWidth),
    ...product("joint.out", jointWidth, tokens + 1 + durations.length),
  ];
}

function product(name: string, inputs: number, outputs: number, hasBias = true): TdtTensor[] {
  const weight: TdtTensor = { name: `${name}.weight`, shape: [inputs, outputs], stored: "weights" };
  return hasBias ? [weight, { name: `${name}.bias`, shape: [outputs], stored: "f32" }] : [weight];
}

/** Bands that the convolutions leave of the features: each that halves the frames halves these as well. */
function bandsAfter(mels: number, halvings: number): number {
  let bands = mels;
  for (let n = 0; n < halvings; n++) bands = Math.floor((bands - 1) / 2) + 1;
  return bands;
}

function subsamplingTensors({ mels, subsampling, factor, channels, width }: TdtShape): TdtTensor[] {
  const halvings = Math.log2(factor);
  const list: TdtTensor[] = [];
  const add = (size: number, inputs: number, stored: TdtTensor["stored"]) => {
    const name = `subsampling.${list.length / 2}`;
    list.push({ name: `${name}.weight`, shape: [size, size, inputs, channels], stored });
    list.push({ name: `${name}.bias`, shape: [channels], stored: "f32" });
  };
  add(3, 1, "f32");
  for (let n = 1; n < halvings; n++) {
    if (subsampling === "striding") add(3, channels, "f16");
    else {
      add(3, 1, "f32");
      add(1, channels, "f32");
    }
  }
  return [...list, ...product("subsampling.out", bandsAfter(mels, halvings) * channels, width)];
}

function layerTensors(of: string, { width, inner, heads, kernel, hasBiases }: TdtShape): TdtTensor[] {
  const vector = (name: string, length = width): TdtTensor => ({
    name: of + name,
    shape: [length],
    stored: "f32",
  });
  const norm = (name: string) => [vector(`${name}.weight`), vector(`${name}.bias`)];
  const linear = (name: string, inputs = width, outputs = width) =>
    product(of + name, inputs, outputs, hasBiases);
  const forward = (name: string) => [
    ...linear(`${name}.up`, width, inner),
    ...linear(`${name}.down`, inner, width),
  ];
  const perHead = (name: string): TdtTensor => ({
    name: of + name,
    shape: [width / heads, heads],
    stored: "f32",
  });
  return [
    ...norm("norm_ff1"),
    ...forward("ff1"),
    ...norm("norm_att"),
    ...["query", "key", "value", "out"].flatMap((part) => linear(`att.${part}`)),
    { name: `${of}att.position`, shape: [width, width], stored: "weights" },
    perHead("att.bias_u"),
    perHead("att.bias_v"),
    ...norm("norm_conv"),
    ...linear("conv.in", width, 2 * width),
    { name: `${of}conv.depth.weight`, shape: [kernel, width], stored: "f32" },
    vector("conv.depth.bias"),
    ...linear("conv.out"),
    ...norm("norm_ff2"),
    ...forward("ff2"),
    ...norm("norm_out"),
  ];
}
