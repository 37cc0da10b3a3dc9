/** Functions that make ONNX files (onnx.proto of ONNX 1.17), small enough for tests. */

function varint(value: number): number[] {
  const bytes: number[] = [];
  for (let rest = value; ; rest = Math.floor(rest / 128)) {
    if (rest < 128) return [...bytes, rest];
    bytes.push((rest % 128) + 128);
  }
}
const number = (field: number, value: number) => [...varint(field * 8), ...varint(value)];
const message = (field: number, bytes: readonly number[]) => [
  ...varint(field * 8 + 2),
  ...varint(bytes.length),
  ...bytes,
];
const text = (field: number, value: string) => message(field, [...new TextEncoder().encode(value)]);

const OPSET_11 = message(8, [...text(1, ""), ...number(2, 11)]);
const FLOAT = 1;
const INT = 2;
const INTS = 7;

const INT64 = 7;

function tensor(name: string, dimensions: readonly (string | number)[], type = FLOAT): number[] {
  const shape = dimensions.flatMap((size) =>
    message(1, typeof size === "string" ? text(2, size) : number(1, size)),
  );
  return [...text(1, name), ...message(2, message(1, [...number(1, type), ...message(2, shape)]))];
}

function model(graph: readonly number[], metadata: Readonly<Record<string, string>>): Uint8Array {
  const entries = Object.entries(metadata).flatMap(([key, value]) =>
    message(14, [...text(1, key), ...text(2, value)]),
  );
  return Uint8Array.from([...number(1, 7), ...message(7, graph), ...OPSET_11, ...entries]);
}

/** Makes a tensor of floats that the file itself holds. */
function weights(name: string, dimensions: readonly number[], values: Float32Array): number[] {
  const sizes = dimensions.flatMap((size) => number(1, size));
  return [...sizes, ...number(2, FLOAT), ...text(8, name), ...message(9, [...new Uint8Array(values.buffer)])];
}

type Attributes = Readonly<Record<string, number | readonly number[]>>;

function node(
  type: string,
  inputs: readonly string[],
  output: string,
  attributes: Attributes = {},
): number[] {
  const named = Object.entries(attributes).flatMap(([name, value]) => {
    const content =
      typeof value === "number"
        ? [...number(20, INT), ...number(3, value)]
        : [...number(20, INTS), ...value.flatMap((each) => number(8, each))];
    return message(5, [...text(1, name), ...content]);
  });
  return [...inputs.flatMap((input) => text(1, input)), ...text(2, output), ...text(4, type), ...named];
}

/** Numbers of a vector of `waveModel`. */
export const WAVE_NUMBERS = 64;
/** Far apart in phase, so that a small difference of features shows. */
const WAVE_SCALE = 0.4;

/**
 * Makes a speaker model with weights by chance: the mean over time of sines of mixtures of the mel bands. It
 * distinguishes sounds of different spectra, and shows small differences of features.
 *
 * @param framework in whose form the model reads 80 mel bands: NeMo's has further inputs and outputs
 */
export function waveModel(framework: SpeakerFramework): Uint8Array {
  const isNemo = framework === "nemo";
  let state = 7;
  const values = Float32Array.from({ length: 80 * WAVE_NUMBERS }, () => {
    state = (state * 48_271) % 2_147_483_647;
    return (state / 2_147_483_647 - 0.5) * WAVE_SCALE;
  });
  const nodes = [
    ...(isNemo ? [node("Transpose", ["feats"], "turned", { perm: [0, 2, 1] })] : []),
    node("MatMul", [isNemo ? "turned" : "feats", "mixture"], "mixed"),
    node("Sin", ["mixed"], "waves"),
    node("ReduceMean", ["waves"], "embs", { axes: [1], keepdims: 0 }),
    ...(isNemo ? [node("Cast", ["length"], "logits", { to: FLOAT })] : []),
  ];
  const graph = [
    ...nodes.flatMap((each) => message(1, each)),
    ...text(2, "waves"),
    ...message(5, weights("mixture", [80, WAVE_NUMBERS], values)),
    ...message(11, tensor("feats", isNemo ? ["B", 80, "T"] : ["B", "T", 80])),
    ...(isNemo ? message(11, tensor("length", ["B"], INT64)) : []),
    ...(isNemo ? message(12, tensor("logits", ["B"])) : []),
    ...message(12, tensor("embs", ["B", WAVE_NUMBERS])),
  ];
  return model(graph, { ...WAVE_METADATA[framework], output_dim: `${WAVE_NUMBERS}` });
}

export type SpeakerFramework = "wespeaker" | "3d-speaker" | "nemo";

const COMMON = { language: "none", url: "none", comment: "made for tests", sample_rate: "16000" };
/** What the published models of each framework say of themselves. */
const WAVE_METADATA: Record<SpeakerFramework, Readonly<Record<string, string>>> = {
  wespeaker: {
    ...COMMON,
    framework: "wespeaker",
    normalize_samples: "0",
    feature_normalize_type: "global-mean",
  },
  "3d-speaker": {
    ...COMMON,
    framework: "3d-speaker",
    normalize_samples: "1",
    feature_normalize_type: "global-mean",
  },
  nemo: {
    ...COMMON,
    framework: "nemo",
    feat_dim: "80",
    window_size_ms: "25",
    window_stride_ms: "10",
    window_type: "hann",
    feature_normalize_type: "per_feature",
  },
};

/**
 * Makes a speaker model without weights: from 80 mel bands over time it computes each band's
 * norm. It distinguishes only voices of very different spectra.
 */
export function bandNormModel(metadata: Readonly<Record<string, string>> = BAND_NORM_METADATA): Uint8Array {
  const graph = [
    ...message(1, node("ReduceL2", ["feats"], "embs", { axes: [1], keepdims: 0 })),
    ...text(2, "bands"),
    ...message(11, tensor("feats", ["B", "T", 80])),
    ...message(12, tensor("embs", ["B", 80])),
  ];
  return model(graph, metadata);
}

export const BAND_NORM_METADATA = {
  framework: "wespeaker",
  language: "none",
  url: "none",
  comment: "made for tests",
  output_dim: "80",
  sample_rate: "16000",
  normalize_samples: "1",
};

/** Makes a model whose metadata says that it distinguishes speakers, and which has no network. */
export function emptyModel(metadata: Readonly<Record<string, string>>): Uint8Array {
  return model(text(2, "empty"), metadata);
}

/** The metadata of pyannote's segmentation model in sherpa-onnx's form. */
export const SEGMENTATION_METADATA = {
  num_speakers: "3",
  powerset_max_classes: "2",
  num_classes: "7",
  sample_rate: "16000",
  window_size: "160000",
  receptive_field_size: "991",
  receptive_field_shift: "270",
};

/** The metadata of a CTC model of NeMo with 90 tokens. */
export const CTC_METADATA = { vocab_size: "90", subsampling_factor: "4", normalize_type: "per_feature" };

/** What `ctcModel` makes differently from a model that can be used. */
export type CtcModelOptions = {
  metadata?: Readonly<Record<string, string>>;
  bins?: string | number;
  classes?: string | number;
  lengthType?: number;
  /** A tensor of 4 floats, with this many bytes in the file. */
  rawBytes?: number;
  /** Where 4 floats of weights are, instead of in the file. */
  external?: Readonly<Record<string, string>>;
  /** The external weights belong to a graph within a node. */
  isNested?: boolean;
};

/** Makes the head of a CTC model with metadata, inputs and outputs, and without a network. */
export function ctcModel({
  metadata = CTC_METADATA,
  bins = 80,
  classes = 91,
  lengthType = INT64,
  rawBytes,
  external,
  isNested = false,
}: CtcModelOptions = {}): Uint8Array {
  const entries = Object.entries(external ?? {}).flatMap(([key, value]) =>
    message(13, [...text(1, key), ...text(2, value)]),
  );
  const raw = rawBytes === undefined ? [] : message(9, new Array(rawBytes).fill(0));
  const held = [...number(1, 4), ...number(2, FLOAT), ...text(8, "w"), ...raw, ...entries];
  const hasWeights = external !== undefined || rawBytes !== undefined;
  const attribute = [...text(1, "then_branch"), ...message(6, message(5, held))];
  const placed = isNested ? message(1, [...text(4, "If"), ...message(5, attribute)]) : message(5, held);
  const graph = [
    ...text(2, "ctc"),
    ...(hasWeights ? placed : []),
    ...message(11, tensor("audio_signal", ["n", bins, "t"])),
    ...message(11, tensor("length", ["n"], lengthType)),
    ...message(12, tensor("logprobs", ["n", "t4", classes])),
  ];
  return model(graph, metadata);
}
