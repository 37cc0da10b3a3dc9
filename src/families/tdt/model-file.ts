import { errorMessage } from "../../lib/error-message.ts";
import { GGML_TYPES, type GgmlType, type GgufFile, readGgufFile } from "../../lib/gguf-file.ts";
import { SUBSAMPLINGS, TDT_ARCHITECTURE, type TdtShape, tdtTensors } from "../../lib/tdt-file.ts";

/** What the file of a TDT model says. */
export type TdtModelInfo = {
  shape: TdtShape;
  /** The type of most weights, such as `q8_0`. */
  weights: GgmlType;
  /** Texts of the tokens by their numbers. `▁` begins a word. */
  tokens: readonly string[];
  /** Codes of the languages that the model names; empty: it names none. */
  languages: readonly string[];
};

const MAX_SIZE = 65_536;
const MAX_LAYERS = 64;
const MAX_TOKENS = 200_000;
const MAX_FACTOR = 16;
const MAX_DURATIONS = 64;
/** Most frames of one duration. */
const MAX_DURATION = 64;

/**
 * Checks that the engine can load a file as a TDT model without reading outside of it: possible sizes, and exactly the tensors
 * that follow from them. It does not read the weights, so it does not find damaged ones.
 *
 * @throws Error with the path and the reason
 */
export function checkTdtFile(path: string): TdtModelInfo {
  try {
    const file = readGgufFile(path);
    const info = readInfo(file);
    checkTensors(file, info);
    return info;
  } catch (error) {
    const reason = errorMessage(error);
    throw new Error(reason.includes(path) ? reason : `model ${path} cannot be used: ${reason}`, {
      cause: error,
    });
  }
}

function readInfo({ values }: GgufFile): TdtModelInfo {
  if (values.get("general.architecture") !== TDT_ARCHITECTURE)
    throw new Error(
      `it is a GGUF file of ${JSON.stringify(values.get("general.architecture"))}, not of a TDT model`,
    );
  const size = (name: string, most = MAX_SIZE): number => {
    const value = values.get(`tdt.${name}`);
    if (typeof value === "number" && Number.isInteger(value) && value >= 1 && value <= most) return value;
    throw new Error(`its ${name} is ${String(value)}, not 1 to ${most}`);
  };
  const flag = (name: string, otherwise?: boolean): boolean => {
    const value = values.get(`tdt.${name}`) ?? otherwise;
    if (typeof value === "boolean") return value;
    throw new Error(`it does not say ${name}`);
  };
  const subsampling = SUBSAMPLINGS.find((one) => one === values.get("tdt.subsampling"));
  const weights = values.get("tdt.weights");
  if (!subsampling) throw new Error("it does not say its subsampling");
  if (typeof weights !== "string" || !isWeightType(weights))
    throw new Error("it does not say the type of its weights");
  const shape: TdtShape = {
    ...{
      mels: size("mels", 256),
      subsampling,
      factor: size("factor", MAX_FACTOR),
      channels: size("channels"),
    },
    ...{
      width: size("width"),
      inner: size("inner"),
      heads: size("heads"),
      layers: size("layers", MAX_LAYERS),
    },
    ...{ kernel: size("kernel", 255), hasBiases: flag("has_biases"), scalesInput: flag("scales_input") },
    // Files of before it was written have silence.
    reflectsEnds: flag("reflects_ends", false),
    ...{ tokens: size("token_count", MAX_TOKENS), predictionWidth: size("prediction_width") },
    ...{ predictionLayers: size("prediction_layers", 8), jointWidth: size("joint_width") },
    ...{ mostSymbols: size("most_symbols", 1_000), durations: durationsOf(values.get("tdt.durations")) },
  };
  checkShape(shape);
  const tokens = textsOf(values.get("tdt.tokens"));
  if (tokens.length !== shape.tokens)
    throw new Error(`it has the texts of ${tokens.length} tokens, not of ${shape.tokens}`);
  return { shape, weights, tokens, languages: textsOf(values.get("tdt.languages")) };
}

const isWeightType = (name: string): name is GgmlType => name !== "f32" && Object.hasOwn(GGML_TYPES, name);

/** The engine moves on by these numbers without looking at them. An RNN-T model has none. */
function durationsOf(value: unknown = []): number[] {
  const isDuration = (one: unknown): one is number => typeof one === "number" && one <= MAX_DURATION;
  if (!Array.isArray(value) || value.length > MAX_DURATIONS || !value.every(isDuration))
    throw new Error(`its durations are not at most ${MAX_DURATIONS} numbers up to ${MAX_DURATION}`);
  if (value.length > 0 && value.every((frames) => frames === 0)) throw new Error("its durations are all 0");
  return value;
}

const textsOf = (value: unknown): string[] =>
  Array.isArray(value) ? value.filter((one): one is string => typeof one === "string") : [];

function checkShape({ factor, width, heads, kernel }: TdtShape): void {
  if (!Number.isInteger(Math.log2(factor)) || factor < 2)
    throw new Error(`its factor is ${factor}, not 2, 4, 8 or 16`);
  if (width % heads !== 0 || width % 2 !== 0)
    throw new Error(`its ${heads} heads do not fit its width of ${width}`);
  if (kernel % 2 !== 1) throw new Error(`its convolutions have ${kernel} frames, which is even`);
}

function checkTensors({ tensors }: GgufFile, { shape, weights }: TdtModelInfo): void {
  const left = new Set(tensors.keys());
  for (const { name, shape: expected, stored } of tdtTensors(shape)) {
    const tensor = tensors.get(name);
    if (!tensor) throw new Error(`its tensor ${name} is missing`);
    left.delete(name);
    if (tensor.shape.join() !== expected.join())
      throw new Error(`its tensor ${name} is ${tensor.shape.join(" × ")}, not ${expected.join(" × ")}`);
    const isWhole = (expected[0] ?? 0) % GGML_TYPES[weights].values === 0;
    const type: GgmlType = stored !== "weights" ? stored : isWhole ? weights : "f16";
    if (tensor.type !== GGML_TYPES[type].type)
      throw new Error(
        `its tensor ${name} has the type ${tensor.type}, not ${GGML_TYPES[type].type} (${type})`,
      );
  }
  const [unknown] = left;
  if (unknown !== undefined) throw new Error(`it has an unknown tensor ${JSON.stringify(unknown)}`);
}
