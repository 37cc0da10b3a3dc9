import type { MadeTensor } from "../makers/checkpoint-makers.ts";
import type { NemoModel } from "../makers/nemo-maker.ts";

/**
 * Recognition with a TDT or RNN-T model in the plainest way: NeMo's formulas (its modules `FilterbankFeatures`, `ConvSubsampling`,
 * `ConformerLayer`, `RelPositionMultiHeadAttention`, `RNNTDecoder`, `RNNTJoint` and `GreedyTDTInfer`), one loop for
 * each index, in 64 bits, with the tensors of the checkpoint as they are. The engine is compared with it.
 */

export type ReferenceToken = {
  id: number;
  frame: number;
  duration: number;
  probability: number;
  margin: number;
};

type Rows = Float64Array[];
type Weights = (name: string) => Float32Array;

/** @param samples 16 kHz */
export function recognizePlainly(
  model: NemoModel,
  tensors: readonly MadeTensor[],
  samples: Float32Array,
): { frames: number; tokens: ReferenceToken[]; leastMargin: number } {
  const byName = new Map(tensors.map(({ name, values }) => [name, values]));
  const weights = (name: string): Float32Array => byName.get(name) ?? new Float32Array();
  const encoded = encode(model, weights, features(model, weights, samples));
  return { frames: encoded.length, ...decode(model, weights, encoded) };
}

const angleOf = (n: number) => (2 * Math.PI * n) / 512;
const COSINES = Float64Array.from({ length: 512 }, (_, n) => Math.cos(angleOf(n)));
const SINES = Float64Array.from({ length: 512 }, (_, n) => Math.sin(angleOf(n)));

/** Releases before 2.5 reflect the sound at its ends, and have a frame more. */
const reflects = ({ release }: NemoModel): boolean => /^1\.|^2\.[0-4]\./.test(release);

function features(model: NemoModel, weights: Weights, samples: Float32Array): Rows {
  const { mels } = model;
  const isReflected = reflects(model);
  const [window, filters] = [
    weights("preprocessor.featurizer.window"),
    weights("preprocessor.featurizer.fb"),
  ];
  const at = (n: number) => samples[n] ?? 0;
  const sound = Float64Array.from(samples, (value, n) => value - 0.97 * (n === 0 ? 0 : at(n - 1)));
  const frames = Math.floor(samples.length / 160) + (isReflected ? 1 : 0);
  const last = samples.length - 1;
  const reflected = (n: number) => (n < 0 ? -n : n > last ? 2 * last - n : n);
  const rows = Array.from({ length: frames }, (_, frame) => {
    const power = new Float64Array(257);
    for (let bin = 0; bin <= 256; bin++) {
      let [re, im] = [0, 0];
      for (let n = 0; n < 400; n++) {
        const place = frame * 160 - 256 + 56 + n;
        const value = (sound[isReflected ? reflected(place) : place] ?? 0) * (window[n] ?? 0);
        const angle = (bin * (56 + n)) % 512;
        re += value * (COSINES[angle] ?? 0);
        im -= value * (SINES[angle] ?? 0);
      }
      power[bin] = re * re + im * im;
    }
    return Float64Array.from({ length: mels }, (_, mel) => {
      let energy = 0;
      for (let bin = 0; bin <= 256; bin++) energy += (filters[mel * 257 + bin] ?? 0) * (power[bin] ?? 0);
      return Math.log(energy + 2 ** -24);
    });
  });
  for (let mel = 0; mel < mels; mel++) {
    const values = rows.map((row) => row[mel] ?? 0);
    const mean = values.reduce((sum, value) => sum + value, 0) / frames;
    const squares = values.reduce((sum, value) => sum + (value - mean) ** 2, 0);
    const deviation = Math.sqrt(squares / (frames - 1)) + 1e-5;
    for (const row of rows) row[mel] = ((row[mel] ?? 0) - mean) / deviation;
  }
  return rows;
}

function linear(weights: Weights, name: string, rows: Rows): Rows {
  const [weight, bias] = [weights(`${name}.weight`), weights(`${name}.bias`)];
  return rows.map((row) => {
    const outputs = weight.length / row.length;
    return Float64Array.from({ length: outputs }, (_, out) => {
      let sum = bias[out] ?? 0;
      for (let n = 0; n < row.length; n++) sum += (weight[out * row.length + n] ?? 0) * (row[n] ?? 0);
      return sum;
    });
  });
}

function layerNorm(weights: Weights, name: string, rows: Rows): Rows {
  const [scale, shift] = [weights(`${name}.weight`), weights(`${name}.bias`)];
  return rows.map((row) => {
    const mean = row.reduce((sum, value) => sum + value, 0) / row.length;
    const variance = row.reduce((sum, value) => sum + (value - mean) ** 2, 0) / row.length;
    return row.map(
      (value, n) => ((value - mean) / Math.sqrt(variance + 1e-5)) * (scale[n] ?? 0) + (shift[n] ?? 0),
    );
  });
}

const sigmoid = (value: number): number => 1 / (1 + Math.exp(-value));
const swish = (value: number): number => value * sigmoid(value);
const added = (rows: Rows, others: Rows, factor = 1): Rows =>
  rows.map((row, n) => row.map((value, m) => value + factor * (others[n]?.[m] ?? 0)));

/** An image: channels × frames × bands. */
type Image = Rows[];

/** Convolution of torch, with a stride of 2 and one row of zeros around, or of 1 without. */
function convolve(weights: Weights, name: string, image: Image, size: number, isDepthwise: boolean): Image {
  const [weight, bias] = [weights(`${name}.weight`), weights(`${name}.bias`)];
  const [stride, padding] = size === 1 ? [1, 0] : [2, 1];
  const inputs = isDepthwise ? 1 : image.length;
  const outputs = bias.length;
  const frames = image[0]?.length ?? 0;
  const bands = image[0]?.[0]?.length ?? 0;
  const after = (length: number) => Math.floor((length + 2 * padding - size) / stride) + 1;
  return Array.from({ length: outputs }, (_, out) =>
    Array.from({ length: after(frames) }, (_, frame) =>
      Float64Array.from({ length: after(bands) }, (_, band) => {
        let sum = bias[out] ?? 0;
        for (let channel = 0; channel < inputs; channel++)
          for (let y = 0; y < size; y++)
            for (let x = 0; x < size; x++) {
              const row = image[isDepthwise ? out : channel]?.[frame * stride - padding + y];
              const value = row?.[band * stride - padding + x] ?? 0;
              sum += value * (weight[((out * inputs + channel) * size + y) * size + x] ?? 0);
            }
        return sum;
      }),
    ),
  );
}

const rectified = (image: Image): Image =>
  image.map((rows) => rows.map((row) => row.map((v) => Math.max(0, v))));

function encode(model: NemoModel, weights: Weights, input: Rows): Rows {
  const name = (number: number) => `encoder.pre_encode.conv.${number}`;
  let image: Image = rectified(convolve(weights, name(0), [input], 3, false));
  for (let halving = 1; halving < Math.log2(model.factor); halving++) {
    if (model.subsampling === "striding") image = convolve(weights, name(2 * halving), image, 3, false);
    else {
      image = convolve(weights, name(3 * halving - 1), image, 3, true);
      image = convolve(weights, name(3 * halving), image, 1, false);
    }
    image = rectified(image);
  }
  const frames = image[0]?.length ?? 0;
  const flat = Array.from({ length: frames }, (_, frame) =>
    Float64Array.from(image.flatMap((rows) => [...(rows[frame] ?? [])])),
  );
  let rows = linear(weights, "encoder.pre_encode.out", flat);
  if (model.xscaling) rows = rows.map((row) => row.map((value) => value * Math.sqrt(model.width)));
  for (let layer = 0; layer < model.layers; layer++)
    rows = conformerLayer(`encoder.layers.${layer}.`, model, weights, rows);
  return linear(weights, "joint.enc", rows);
}

function conformerLayer(of: string, model: NemoModel, weights: Weights, input: Rows): Rows {
  const forward = (part: string, rows: Rows) => {
    const inner = linear(weights, `${of}${part}.linear1`, layerNorm(weights, `${of}norm_${part}`, rows));
    return linear(
      weights,
      `${of}${part}.linear2`,
      inner.map((row) => row.map(swish)),
    );
  };
  let rows = added(input, forward("feed_forward1", input), 0.5);
  rows = added(
    rows,
    attention(`${of}self_attn.`, model, weights, layerNorm(weights, `${of}norm_self_att`, rows)),
  );
  rows = added(rows, convolution(`${of}conv.`, model, weights, layerNorm(weights, `${of}norm_conv`, rows)));
  rows = added(rows, forward("feed_forward2", rows), 0.5);
  return layerNorm(weights, `${of}norm_out`, rows);
}

function attention(of: string, { width, heads }: NemoModel, weights: Weights, rows: Rows): Rows {
  const [query = [], key = [], value = []] = ["q", "k", "v"].map((part) =>
    linear(weights, `${of}linear_${part}`, rows),
  );
  const frames = rows.length;
  // Row n is for the distance of n − (frames − 1).
  const sines = Array.from({ length: 2 * frames - 1 }, (_, n) =>
    Float64Array.from({ length: width }, (_, m) => {
      const angle = (n - (frames - 1)) * Math.exp(-(m - (m % 2)) * (Math.log(10_000) / width));
      return m % 2 === 0 ? Math.sin(angle) : Math.cos(angle);
    }),
  );
  const position = linear(weights, `${of}linear_pos`, sines);
  const [biasU, biasV] = [weights(`${of}pos_bias_u`), weights(`${of}pos_bias_v`)];
  const depth = width / heads;
  const mixed = rows.map(() => new Float64Array(width));
  for (let head = 0; head < heads; head++) {
    for (let i = 0; i < frames; i++) {
      const scores = Float64Array.from({ length: frames }, (_, j) => {
        let sum = 0;
        for (let n = head * depth; n < (head + 1) * depth; n++) {
          const q = query[i]?.[n] ?? 0;
          sum += (q + (biasU[n] ?? 0)) * (key[j]?.[n] ?? 0);
          sum += (q + (biasV[n] ?? 0)) * (position[i - j + frames - 1]?.[n] ?? 0);
        }
        return sum / Math.sqrt(depth);
      });
      const top = Math.max(...scores);
      const shares = scores.map((score) => Math.exp(score - top));
      const total = shares.reduce((sum, share) => sum + share, 0);
      for (let n = head * depth; n < (head + 1) * depth; n++) {
        let sum = 0;
        for (let j = 0; j < frames; j++) sum += ((shares[j] ?? 0) / total) * (value[j]?.[n] ?? 0);
        (mixed[i] ?? new Float64Array())[n] = sum;
      }
    }
  }
  return linear(weights, `${of}linear_out`, mixed);
}

function convolution(of: string, { width, kernel }: NemoModel, weights: Weights, rows: Rows): Rows {
  const gated = linear(weights, `${of}pointwise_conv1`, rows).map((row) =>
    Float64Array.from({ length: width }, (_, n) => (row[n] ?? 0) * sigmoid(row[width + n] ?? 0)),
  );
  const [weight, bias] = [weights(`${of}depthwise_conv.weight`), weights(`${of}depthwise_conv.bias`)];
  const norm = (part: string) => weights(`${of}batch_norm.${part}`);
  const [scale, shift, mean, variance] = [
    norm("weight"),
    norm("bias"),
    norm("running_mean"),
    norm("running_var"),
  ];
  const mixed = gated.map((_, frame) =>
    Float64Array.from({ length: width }, (_, n) => {
      let sum = bias[n] ?? 0;
      for (let k = 0; k < kernel; k++)
        sum += (weight[n * kernel + k] ?? 0) * (gated[frame + k - (kernel - 1) / 2]?.[n] ?? 0);
      const normal = (sum - (mean[n] ?? 0)) / Math.sqrt((variance[n] ?? 0) + 1e-5);
      return swish(normal * (scale[n] ?? 0) + (shift[n] ?? 0));
    }),
  );
  return linear(weights, `${of}pointwise_conv2`, mixed);
}

type Memory = { hidden: Float64Array; cell: Float64Array }[];

/** A step of the LSTM layers. @param input undefined: the beginning, for which NeMo has zeros */
function predict(
  model: NemoModel,
  weights: Weights,
  input: number | undefined,
  memory: Memory,
): Float64Array {
  const width = model.predictionWidth;
  const table = weights("decoder.prediction.embed.weight");
  let x = new Float64Array(width);
  if (input !== undefined) x = Float64Array.from(table.subarray(input * width, (input + 1) * width));
  for (const [layer, state] of memory.entries()) {
    const of = (part: string) => weights(`decoder.prediction.dec_rnn.lstm.${part}_l${layer}`);
    const [wi, wh, bi, bh] = [of("weight_ih"), of("weight_hh"), of("bias_ih"), of("bias_hh")];
    const gate = Float64Array.from({ length: 4 * width }, (_, out) => {
      let sum = (bi[out] ?? 0) + (bh[out] ?? 0);
      for (let n = 0; n < width; n++)
        sum += (wi[out * width + n] ?? 0) * (x[n] ?? 0) + (wh[out * width + n] ?? 0) * (state.hidden[n] ?? 0);
      return sum;
    });
    state.cell = state.cell.map((value, n) => {
      const kept = sigmoid(gate[width + n] ?? 0) * value;
      return kept + sigmoid(gate[n] ?? 0) * Math.tanh(gate[2 * width + n] ?? 0);
    });
    state.hidden = state.cell.map((value, n) => sigmoid(gate[3 * width + n] ?? 0) * Math.tanh(value));
    x = Float64Array.from(state.hidden);
  }
  return x;
}

const largest = (values: Float64Array): number => values.indexOf(Math.max(...values));
/** How far the largest value is above the second one. */
const marginOf = (values: Float64Array): number => {
  const [first = 0, second = 0] = [...values].sort((a, b) => b - a);
  return values.length > 1 ? first - second : Number.POSITIVE_INFINITY;
};

function decode(model: NemoModel, weights: Weights, encoded: Rows) {
  const blank = model.tokens.length;
  const newState = () => ({
    hidden: new Float64Array(model.predictionWidth),
    cell: new Float64Array(model.predictionWidth),
  });
  const memory: Memory = Array.from({ length: model.predictionLayers }, newState);
  let [prediction = new Float64Array()] = linear(weights, "joint.pred", [
    predict(model, weights, undefined, memory),
  ]);
  const tokens: ReferenceToken[] = [];
  let leastMargin = Number.POSITIVE_INFINITY;
  for (let frame = 0, symbols = 0; frame < encoded.length; ) {
    const sum = (encoded[frame] ?? new Float64Array()).map((value, n) =>
      Math.max(0, value + (prediction[n] ?? 0)),
    );
    const [scores = new Float64Array()] = linear(weights, "joint.joint_net.2", [sum]);
    const [ofTokens, ofDurations] = [scores.subarray(0, blank + 1), scores.subarray(blank + 1)];
    const id = largest(ofTokens);
    let duration = model.durations.length > 0 ? (model.durations[largest(ofDurations)] ?? 0) : 0;
    const margin = Math.min(marginOf(ofTokens), marginOf(ofDurations));
    leastMargin = Math.min(leastMargin, margin);
    if (id === blank) duration = Math.max(1, duration);
    else {
      const total = ofTokens.reduce((all, score) => all + Math.exp(score - (ofTokens[id] ?? 0)), 0);
      const taken = model.durations.length > 0 ? duration : 1;
      tokens.push({ id, frame, duration: taken, probability: 1 / total, margin });
      [prediction = prediction] = linear(weights, "joint.pred", [predict(model, weights, id, memory)]);
      symbols++;
      if (duration === 0 && symbols >= 10) duration = 1;
    }
    if (duration > 0) symbols = 0;
    frame += duration;
  }
  return { tokens, leastMargin };
}
