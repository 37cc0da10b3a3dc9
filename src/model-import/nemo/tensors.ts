import {
  TDT_FREQUENCIES,
  TDT_WINDOW,
  type TdtShape,
  type TdtTensor,
  tdtTensors,
} from "../../lib/tdt-file.ts";
import { ImportError } from "../import-error.ts";
import type { SourceFile } from "../source-file.ts";
import type { StoredTensor } from "../stored-tensor.ts";
import type { NemoConfig } from "./config.ts";
import { valuesOf } from "./values.ts";

/** The tensors of a checkpoint of NeMo by their names, and the file that holds them. */
export type NemoWeights = { file: SourceFile; tensors: ReadonlyMap<string, StoredTensor> };

/** A tensor of the model's file, and where its values are: in the checkpoint as they are, or computed of some of its tensors. */
export type FoundTensor = TdtTensor & { source: StoredTensor | Values };

/** Tensors that recognition does not need: counters of training, and the CTC head of a hybrid model. */
const IGNORED =
  /\.num_batches_tracked$|^ctc_decoder\.|^(?:loss|wer|ctc_loss|ctc_wer|spec_augmentation)\.|^encoder\.pos_enc\./;
/** Biases that all layers share have a copy in each layer. */
const SHARED = /^encoder\.pos_bias_[uv]$/;
/** torch adds it to the variance in batch normalization. */
const NORM_EPSILON = 1e-5;
/** The last product of the joint net follows its activation, and dropout where it was trained with it. */
const JOINT_OUT = /^joint\.joint_net\.(\d+)\.weight$/;
const LSTM = "decoder.prediction.dec_rnn.lstm.";

export const isNeeded = (name: string): boolean => !IGNORED.test(name);

/**
 * Finds out the sizes of a model from its tensors.
 *
 * @throws ImportError with the tensor that is missing or has an impossible shape
 */
export function shapeOf({ tensors, file }: NemoWeights, config: NemoConfig): TdtShape {
  const sizesOf = (name: string, dimensions: number): number[] => {
    const tensor = tensors.get(name);
    if (!tensor) throw new ImportError(file.name, `the tensor ${name} is missing`);
    if (tensor.shape.length !== dimensions || tensor.shape.includes(0))
      throw new ImportError(file.name, `the tensor ${name} is ${tensor.shape.join(" × ")}`);
    return tensor.shape;
  };
  const count = (pattern: RegExp) => [...tensors.keys()].filter((name) => pattern.test(name)).length;
  const layer = "encoder.layers.0.";
  const [width = 0] = sizesOf("encoder.pre_encode.out.weight", 2);
  const [inner = 0] = sizesOf(`${layer}feed_forward1.linear1.weight`, 2);
  const [, , kernel = 0] = sizesOf(`${layer}conv.depthwise_conv.weight`, 3);
  const [channels = 0] = sizesOf("encoder.pre_encode.conv.0.weight", 4);
  const [embeddings = 0, predictionWidth = 0] = sizesOf("decoder.prediction.embed.weight", 2);
  const [jointWidth = 0] = sizesOf("joint.enc.weight", 2);
  if (width % config.heads !== 0)
    throw new ImportError(file.name, `its width ${width} is not divided by encoder.n_heads, ${config.heads}`);
  if (width % 2 !== 0 || kernel % 2 !== 1)
    throw new ImportError(file.name, `its width is ${width}, and its convolutions have ${kernel} frames`);
  return {
    ...{ mels: config.mels, subsampling: config.subsampling, factor: config.factor, channels },
    ...{ width, inner, kernel, heads: config.heads, scalesInput: config.scalesInput },
    reflectsEnds: config.reflectsEnds,
    layers: count(/^encoder\.layers\.\d+\.norm_out\.weight$/),
    hasBiases: tensors.has(`${layer}feed_forward1.linear1.bias`),
    tokens: embeddings - 1,
    ...{ predictionWidth, jointWidth, mostSymbols: config.mostSymbols, durations: config.durations },
    predictionLayers: count(/^decoder\.prediction\.dec_rnn\.lstm\.weight_hh_l\d+$/),
  };
}

/**
 * Finds every tensor of the model's file in a checkpoint.
 *
 * @throws ImportError for a tensor that is missing, has another shape, or belongs to no part of the model
 */
export function findTensors(
  weights: NemoWeights,
  shape: TdtShape,
  { hasFusedNorm }: Pick<NemoConfig, "hasFusedNorm">,
): FoundTensor[] {
  const left = new Map([...weights.tensors].filter(([name]) => !SHARED.test(name)));
  const take: TakeTensor = (name, sizes) => {
    const tensor = left.get(name);
    const file = weights.file.name;
    if (!tensor) throw new ImportError(file, `the tensor ${name} is missing`);
    left.delete(name);
    if (tensor.shape.join() !== sizes.join())
      throw new ImportError(
        file,
        `the tensor ${name} is ${tensor.shape.join(" × ")}; the other tensors and model_config.yaml say ${sizes.join(" × ")}`,
      );
    return tensor;
  };
  const optional: TakeTensor<StoredTensor | undefined> = (name, sizes) =>
    left.has(name) ? take(name, sizes) : undefined;
  const jointOut = [...left.keys()]
    .map((name) => JOINT_OUT.exec(name)?.[1])
    .find((number) => number !== undefined);
  const normParts = hasFusedNorm ? FUSED_PARTS : NORM_PARTS;
  const made = computedTensors(shape, { take, optional, normParts });
  const found = tdtTensors(shape).map((tensor): FoundTensor => {
    const source =
      made.get(tensor.name) ?? take(sourceName(tensor.name, shape, jointOut ?? "2"), sourceShape(tensor));
    return { ...tensor, source };
  });
  const [unknown] = left.keys();
  if (unknown !== undefined)
    throw new ImportError(
      weights.file.name,
      `the tensor ${unknown} belongs to no part that the engine computes`,
    );
  return found;
}

type TakeTensor<Result = StoredTensor> = (name: string, sizes: readonly number[]) => Result;
/** Takes tensors out of those of a checkpoint; `normParts`: the tensors of its normalization of channels. */
type Checkpoint = {
  take: TakeTensor;
  optional: TakeTensor<StoredTensor | undefined>;
  normParts: readonly string[];
};

/** Returns the shape in the checkpoint, where the fastest dimension is the last. */
function sourceShape({ name, shape }: TdtTensor): number[] {
  const sizes = shape.toReversed();
  return /\.conv\.(?:in|out)\.weight$/.test(name) ? [...sizes, 1] : sizes;
}

/** Parts of a layer, of the file and of NeMo. */
const PARTS: Readonly<Record<string, string>> = {
  norm_ff1: "norm_feed_forward1",
  "ff1.up": "feed_forward1.linear1",
  "ff1.down": "feed_forward1.linear2",
  norm_att: "norm_self_att",
  "att.query": "self_attn.linear_q",
  "att.key": "self_attn.linear_k",
  "att.value": "self_attn.linear_v",
  "att.out": "self_attn.linear_out",
  "att.position": "self_attn.linear_pos.weight",
  "att.bias_u": "self_attn.pos_bias_u",
  "att.bias_v": "self_attn.pos_bias_v",
  norm_conv: "norm_conv",
  "conv.in": "conv.pointwise_conv1",
  "conv.out": "conv.pointwise_conv2",
  norm_ff2: "norm_feed_forward2",
  "ff2.up": "feed_forward2.linear1",
  "ff2.down": "feed_forward2.linear2",
  norm_out: "norm_out",
};

const JOINT: Readonly<Record<string, string>> = { encoder: "enc", prediction: "pred" };

/** Returns NeMo's name of a tensor that has a counterpart there. */
function sourceName(name: string, { subsampling }: TdtShape, jointOut: string): string {
  const layer = /^layers\.(\d+)\.(.+?)(\.weight|\.bias)?$/.exec(name);
  if (layer) return `encoder.layers.${layer[1]}.${PARTS[layer[2] ?? ""]}${layer[3] ?? ""}`;
  const step = /^subsampling\.(\d+)\.(\w+)$/.exec(name);
  if (step) return `encoder.pre_encode.conv.${stepNumber(Number(step[1]), subsampling)}.${step[2]}`;
  const gates = /^prediction\.(\d+)\.(input|hidden)$/.exec(name);
  if (gates) return `${LSTM}weight_${gates[2] === "input" ? "ih" : "hh"}_l${gates[1]}`;
  const joint = /^joint\.(\w+)\.(\w+)$/.exec(name);
  if (joint?.[1] === "out") return `joint.joint_net.${jointOut}.${joint[2]}`;
  if (joint) return `joint.${JOINT[joint[1] ?? ""]}.${joint[2]}`;
  return name.replace("subsampling.out", "encoder.pre_encode.out");
}

/** Numbers of convolutions in NeMo's list, in which activations stand as well: 0, then pairs 2 and 3, 5 and 6; or 0, 2, 4. */
function stepNumber(step: number, subsampling: TdtShape["subsampling"]): number {
  return subsampling === "striding" ? 2 * step : step + Math.floor((step + 1) / 2);
}

type Values = () => Float32Array<ArrayBuffer>;

/** Says how the values of those tensors are computed that have no counterpart in the checkpoint. */
function computedTensors(shape: TdtShape, checkpoint: Checkpoint): Map<string, Values> {
  const { take } = checkpoint;
  const whole = (name: string, sizes: readonly number[]): Values => {
    const tensor = take(name, sizes);
    return () => valuesOf(tensor, name);
  };
  const made = new Map([
    ["features.filters", whole("preprocessor.featurizer.fb", [1, shape.mels, TDT_FREQUENCIES])],
    ["features.window", whole("preprocessor.featurizer.window", [TDT_WINDOW])],
    ["prediction.embedding", embedding(shape, take)],
  ]);
  for (let layer = 0; layer < shape.predictionLayers; layer++)
    made.set(`prediction.${layer}.bias`, lstmBias(layer, shape, take));
  for (let layer = 0; layer < shape.layers; layer++) {
    const { weight, bias } = depthwise(`encoder.layers.${layer}.conv.`, shape, checkpoint);
    made.set(`layers.${layer}.conv.depth.weight`, weight);
    made.set(`layers.${layer}.conv.depth.bias`, bias);
  }
  return made;
}

/** With the blank the engine begins a text, where NeMo's prediction net receives zeros. */
function embedding({ tokens, predictionWidth }: TdtShape, take: TakeTensor): Values {
  const name = "decoder.prediction.embed.weight";
  const tensor = take(name, [tokens + 1, predictionWidth]);
  return () => {
    const values = valuesOf(tensor, name);
    values.fill(0, tokens * predictionWidth);
    return values;
  };
}

/** torch adds two biases to each gate. */
function lstmBias(layer: number, { predictionWidth }: TdtShape, take: TakeTensor): Values {
  const names = ["bias_ih_l", "bias_hh_l"].map((part) => LSTM + part + layer);
  const [input, hidden] = names.map((name) => take(name, [4 * predictionWidth]));
  return () => {
    const values = valuesOf(input as StoredTensor, names[0] ?? "");
    const others = valuesOf(hidden as StoredTensor, names[1] ?? "");
    return values.map((value, n) => value + (others[n] ?? 0));
  };
}

/** NeMo can make mean and variance a part of the factors (`fused_batch_norm`). */
const FUSED_PARTS = ["weight", "bias"] as const;
const NORM_PARTS = [...FUSED_PARTS, "running_mean", "running_var"] as const;

/**
 * The batch normalization after the convolution of each channel multiplies and adds numbers that do not change, so they become
 * part of the convolution.
 */
function depthwise(
  of: string,
  { width, kernel }: TdtShape,
  { take, optional, normParts }: Checkpoint,
): { weight: Values; bias: Values } {
  const [weightName, biasName] = [`${of}depthwise_conv.weight`, `${of}depthwise_conv.bias`];
  const weight = take(weightName, [width, 1, kernel]);
  const bias = optional(biasName, [width]);
  const norm = normParts.map(
    (part) => [`${of}batch_norm.${part}`, take(`${of}batch_norm.${part}`, [width])] as const,
  );
  const readNorm = () => {
    const [scale = [], shift = [], mean = [], variance] = norm.map(([name, tensor]) =>
      valuesOf(tensor, name),
    );
    const deviation = (n: number) => (variance ? Math.sqrt((variance[n] ?? 0) + NORM_EPSILON) : 1);
    const factor = (n: number) => (scale[n] ?? 0) / deviation(n);
    return { factor, shift, mean };
  };
  return {
    weight: () => {
      const { factor } = readNorm();
      return valuesOf(weight, weightName).map((value, n) => value * factor(Math.floor(n / kernel)));
    },
    bias: () => {
      const { factor, shift, mean } = readNorm();
      const before = bias ? valuesOf(bias, biasName) : new Float32Array(width);
      return before.map((value, n) => (value - (mean[n] ?? 0)) * factor(n) + (shift[n] ?? 0));
    },
  };
}
