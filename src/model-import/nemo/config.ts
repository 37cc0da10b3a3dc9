import { SUBSAMPLINGS, type Subsampling, TDT_WINDOW } from "../../lib/tdt-file.ts";
import { ImportError } from "../import-error.ts";
import { isJsonObject, type SourceFile } from "../source-file.ts";

/** What the configuration of a model says that its tensors do not show. */
export type NemoConfig = {
  mels: number;
  heads: number;
  subsampling: Subsampling;
  factor: number;
  scalesInput: boolean;
  reflectsEnds: boolean;
  hasFusedNorm: boolean;
  mostSymbols: number;
  durations: readonly number[];
  /** The configuration itself, for the tokenizer. */
  at: ReadSetting;
};

/** Reads a setting by its dotted name; undefined: it is not there, or null. */
export type ReadSetting = (name: string) => unknown;

const CONFIG = "model_config.yaml";
const MAX_BYTES = 32 * 1024 * 1024;
const RATE_HZ = 16_000;
const MOST_SYMBOLS = 10;
const MAX_SYMBOLS = 1_000;
const MAX_DURATION = 64;
const FACTORS = [2, 4, 8, 16];
/** The first release that fills the sound up with silence at its ends. Those before reflect it. */
const FIRST_WITH_SILENCE = [2, 5] as const;
/** NeMo adds it to the energy of a band: 2⁻²⁴. */
const LEAST_ENERGY = 2 ** -24;

/** Settings that have one value in all models that the engine computes. `undefined`: the setting may be missing. */
const FIXED: readonly [name: string, ...values: unknown[]][] = [
  ["sample_rate", undefined, RATE_HZ],
  ["preprocessor.sample_rate", undefined, RATE_HZ],
  ["preprocessor.normalize", undefined, "per_feature"],
  ["preprocessor.window_size", undefined, TDT_WINDOW / RATE_HZ],
  ["preprocessor.window_stride", undefined, 0.01],
  ["preprocessor.window", undefined, "hann"],
  ["preprocessor.n_fft", undefined, 512],
  ["preprocessor.preemph", undefined, 0.97],
  ["preprocessor.log", undefined, true],
  ["preprocessor.log_zero_guard_type", undefined, "add"],
  ["preprocessor.mag_power", undefined, 2],
  ["preprocessor.frame_splicing", undefined, 1],
  ["preprocessor.exact_pad", undefined, false],
  ["encoder.self_attention_model", undefined, "rel_pos"],
  ["encoder.att_context_style", undefined, "regular"],
  ["encoder.causal_downsampling", undefined, false],
  ["encoder.conv_norm_type", undefined, "batch_norm", "fused_batch_norm"],
  ["encoder.conv_context_size", undefined],
  ["encoder.reduction", undefined],
  ["encoder.feat_out", undefined, -1, 0],
  ["decoder.normalization_mode", undefined],
  ["decoder.blank_as_pad", undefined, true],
  ["decoder.prednet.rnn_hidden_size", undefined, -1],
  ["joint.jointnet.activation", "relu"],
];

/** Classes of the parts, by the last part of their names in Python. */
const CLASSES: readonly [name: string, classes: readonly string[]][] = [
  ["preprocessor._target_", ["AudioToMelSpectrogramPreprocessor"]],
  ["encoder._target_", ["ConformerEncoder"]],
  ["decoder._target_", ["RNNTDecoder"]],
  ["joint._target_", ["RNNTJoint"]],
];

/**
 * Reads `model_config.yaml` of a `.nemo` file. Whatever the engine does not compute is refused by the name of its setting.
 *
 * @throws ImportError
 */
export function readNemoConfig(file: SourceFile | undefined): NemoConfig {
  const refuse = (reason: string) => new ImportError(CONFIG, reason);
  if (!file) throw refuse("the file is missing");
  if (file.bytes > MAX_BYTES) throw refuse(`it is larger than ${MAX_BYTES} bytes`);
  const at = settingsOf(parse(file.read(0, file.bytes)));
  for (const [name, ...values] of FIXED) {
    const value = at(name);
    if (!values.includes(value))
      throw refuse(`${name} is ${shown(value)}; the engine computes with ${values.map(shown).join(" or ")}`);
  }
  for (const [name, classes] of CLASSES) {
    const value = at(name);
    if (typeof value !== "string" || !classes.includes(value.split(".").at(-1) ?? ""))
      throw refuse(`${name} is ${shown(value)}, not ${classes.join(" or ")}`);
  }
  checkContext(at("encoder.att_context_size"), refuse);
  const least = at("preprocessor.log_zero_guard_value");
  if (least !== undefined && !(Math.abs(Number(plainText(least)) / LEAST_ENERGY - 1) <= 1e-6))
    throw refuse(`preprocessor.log_zero_guard_value is ${shown(least)}, not 2⁻²⁴`);
  const whole = (name: string, from: number, to: number, otherwise?: number): number => {
    const value = at(name) ?? otherwise;
    if (typeof value === "number" && Number.isInteger(value) && value >= from && value <= to) return value;
    throw refuse(`${name} is ${shown(value)}, not a whole number from ${from} to ${to}`);
  };
  const subsampling = SUBSAMPLINGS.find((one) => one === at("encoder.subsampling"));
  if (!subsampling)
    throw refuse(
      `encoder.subsampling is ${shown(at("encoder.subsampling"))}, not ${SUBSAMPLINGS.join(" or ")}`,
    );
  const factor = whole("encoder.subsampling_factor", 2, 16);
  if (!FACTORS.includes(factor))
    throw refuse(`encoder.subsampling_factor is ${factor}, not ${FACTORS.join(", ")}`);
  const scales = at("encoder.xscaling") ?? true;
  if (typeof scales !== "boolean") throw refuse(`encoder.xscaling is ${shown(scales)}, not true or false`);
  const symbols = ["decoding.greedy.max_symbols", "decoding.greedy.max_symbols_per_step"];
  const named = symbols.find((name) => at(name) !== undefined) ?? symbols[0] ?? "";
  return {
    mels: whole("preprocessor.features", 1, 256, 64),
    heads: whole("encoder.n_heads", 1, 64, 4),
    subsampling,
    factor,
    scalesInput: scales,
    hasFusedNorm: at("encoder.conv_norm_type") === "fused_batch_norm",
    reflectsEnds: isBefore(at("nemo_version"), FIRST_WITH_SILENCE),
    mostSymbols: whole(named, 1, MAX_SYMBOLS, MOST_SYMBOLS),
    durations: readDurations(at, refuse),
    at,
  };
}

type Refuse = (reason: string) => ImportError;

/** Returns a text or number as text, and `""` for all else: lists of aliases can be endless, and settings can be named `toString`. */
function plainText(value: unknown): string {
  return typeof value === "string" || typeof value === "number" ? String(value) : "";
}

/** Reports whether a release of NeMo came before another. The first ones did not write into a model which they were. */
function isBefore(release: unknown, [major, minor]: readonly [number, number]): boolean {
  const [, first, second] = /^(\d{1,4})\.(\d{1,4})/.exec(plainText(release)) ?? [];
  return Number(first ?? 0) < major || (Number(first) === major && Number(second) < minor);
}

/** A model that was trained with several contexts has a list of them. The engine's frames hear all others. */
function checkContext(value: unknown, refuse: Refuse): void {
  const isWhole = (pair: unknown) =>
    Array.isArray(pair) && pair.length === 2 && pair.every((side) => side === -1);
  if (value === undefined || isWhole(value)) return;
  if (Array.isArray(value) && value.length === 1 && isWhole(value[0])) return;
  throw refuse(`encoder.att_context_size is ${shown(value)}; the engine computes with [-1, -1] (unlimited)`);
}

/** Durations are outputs of the joint net besides the tokens. Without these the model is an RNN-T model. */
function readDurations(at: ReadSetting, refuse: Refuse): number[] {
  const extra = at("joint.num_extra_outputs") ?? 0;
  const places = ["model_defaults.tdt_durations", "decoding.durations", "loss.tdt_kwargs.durations"];
  const place = places.find((name) => Array.isArray(at(name)));
  if (extra === 0) return [];
  const list: unknown = place === undefined ? undefined : at(place);
  if (!Array.isArray(list) || place === undefined)
    throw refuse(`joint.num_extra_outputs is ${shown(extra)}, and it names no durations`);
  const isDuration = (value: unknown): value is number =>
    typeof value === "number" && Number.isInteger(value) && value >= 0 && value <= MAX_DURATION;
  if (!list.every(isDuration) || list.length !== extra)
    throw refuse(`${place} is ${shown(list)}, not ${shown(extra)} whole numbers from 0 to ${MAX_DURATION}`);
  if (!list.some((duration) => duration > 0)) throw refuse(`${place} has no duration above 0`);
  return list;
}

const SHOWN_LENGTH = 80;
const SHOWN_VALUES = 8;

/** Renders a setting for a message. Aliases of YAML can make a value that is endless, so only its beginning is looked at. */
export function shown(value: unknown, depth = 0): string {
  if (value === undefined) return "not set";
  if (isJsonObject(value)) return "a list of settings";
  if (!Array.isArray(value)) return (JSON.stringify(value) ?? "impossible").slice(0, SHOWN_LENGTH);
  const parts = value
    .slice(0, SHOWN_VALUES)
    .map((one) => (depth > 0 && Array.isArray(one) ? "[…]" : shown(one, depth + 1)));
  return `[${[...parts, ...(value.length > SHOWN_VALUES ? ["…"] : [])].join(",")}]`.slice(0, SHOWN_LENGTH);
}

function parse(bytes: Uint8Array): Record<string, unknown> {
  let value: unknown;
  try {
    value = Bun.YAML.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch {
    throw new ImportError(CONFIG, "the file is not valid YAML");
  }
  if (!isJsonObject(value)) throw new ImportError(CONFIG, "the file is not a list of settings");
  return value;
}

const MAX_REFERENCES = 64;

/** Follows references of OmegaConf, such as `${model_defaults.enc_hidden}`. */
function settingsOf(root: Record<string, unknown>): ReadSetting {
  return (name) => {
    // All references of a setting count together: a reference of many parts, each of which is one, would never end otherwise.
    let references = 0;
    const find = (path: string): unknown => {
      let value: unknown = root;
      for (const part of path.split(".")) {
        value = isJsonObject(value) && Object.hasOwn(value, part) ? value[part] : undefined;
        const reference =
          typeof value === "string" ? /^\$\{(?:model\.)?([\w.]+)\}$/.exec(value)?.[1] : undefined;
        if (reference === undefined) continue;
        references += 1;
        if (references > MAX_REFERENCES) throw new ImportError(CONFIG, `${name} refers to itself`);
        value = find(reference);
      }
      return value ?? undefined;
    };
    return find(name);
  };
}
