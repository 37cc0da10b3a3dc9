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

/**
 * Makes a speaker-embedding model for sherpa-onnx without weights: from 80 mel bands over time it computes each band's
 * norm. It distinguishes only voices of very different spectra.
 */
export function bandNormModel(metadata: Readonly<Record<string, string>> = BAND_NORM_METADATA): Uint8Array {
  const axes = message(5, [...text(1, "axes"), ...number(20, INTS), ...number(8, 1)]);
  const keepDims = message(5, [...text(1, "keepdims"), ...number(20, INT), ...number(3, 0)]);
  const node = [...text(1, "feats"), ...text(2, "embs"), ...text(4, "ReduceL2"), ...axes, ...keepDims];
  const graph = [
    ...message(1, node),
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

/** Returns the metadata that sherpa-onnx needs in a segmentation model. */
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
  const weights = [...number(1, 4), ...number(2, FLOAT), ...text(8, "w"), ...raw, ...entries];
  const hasWeights = external !== undefined || rawBytes !== undefined;
  const attribute = [...text(1, "then_branch"), ...message(6, message(5, weights))];
  const placed = isNested ? message(1, [...text(4, "If"), ...message(5, attribute)]) : message(5, weights);
  const graph = [
    ...text(2, "ctc"),
    ...(hasWeights ? placed : []),
    ...message(11, tensor("audio_signal", ["n", bins, "t"])),
    ...message(11, tensor("length", ["n"], lengthType)),
    ...message(12, tensor("logprobs", ["n", "t4", classes])),
  ];
  return model(graph, metadata);
}
