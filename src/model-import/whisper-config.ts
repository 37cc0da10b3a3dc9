import { ImportError } from "./import-error.ts";
import { type CheckpointFolder, hasFile, type JsonObject, readJsonFile } from "./source-file.ts";

/** The sizes of a Whisper model, under the names of this program. */
export type WhisperShape = {
  /** Number of tokens: 51864 (English), 51865 or 51866 (multilingual). */
  vocab: number;
  /** Width of the states. */
  state: number;
  audioHeads: number;
  audioLayers: number;
  textHeads: number;
  textLayers: number;
  mels: number;
};

export const AUDIO_CONTEXT = 1500;
export const TEXT_CONTEXT = 448;
export const ENGLISH_VOCAB = 51864;
const VOCABS = [ENGLISH_VOCAB, 51865, 51866];
const MEL_BANDS = [80, 128];

const FILE = "config.json";
const AUDIO_FILE = "preprocessor_config.json";
const MAX_BYTES = 1024 * 1024;
const MAX_STATE = 16_384;
const MAX_LAYERS = 128;

/** How all of Whisper's models see sound. Missing values are these. */
const AUDIO_SETTINGS: Readonly<Record<string, number>> = {
  sampling_rate: 16_000,
  n_fft: 400,
  hop_length: 160,
  chunk_length: 30,
};

/**
 * Reads the sizes of a model from `config.json`, and checks that whisper.cpp computes what that file describes.
 *
 * @throws ImportError
 */
export function readWhisperConfig(folder: CheckpointFolder): WhisperShape {
  const config = readJsonFile(folder, FILE, MAX_BYTES);
  checkArchitecture(config);
  const shape: WhisperShape = {
    vocab: whole(config, "vocab_size"),
    state: whole(config, "d_model"),
    audioHeads: whole(config, "encoder_attention_heads"),
    audioLayers: whole(config, "encoder_layers"),
    textHeads: whole(config, "decoder_attention_heads"),
    textLayers: whole(config, "decoder_layers"),
    mels: whole(config, "num_mel_bins"),
  };
  checkShape(FILE, shape);
  require(config, "max_source_positions", AUDIO_CONTEXT);
  require(config, "max_target_positions", TEXT_CONTEXT);
  require(config, "encoder_ffn_dim", 4 * shape.state);
  require(config, "decoder_ffn_dim", 4 * shape.state);
  const start = config.decoder_start_token_id;
  const expected = shape.vocab === ENGLISH_VOCAB ? 50257 : 50258;
  if (typeof start === "number" && start !== expected) {
    throw new ImportError(FILE, `decoder_start_token_id is ${start}; whisper.cpp begins with ${expected}`);
  }
  checkAudio(folder, shape);
  return shape;
}

function checkArchitecture(config: JsonObject): void {
  const refuse = (reason: string) => new ImportError(FILE, reason);
  const type = config.model_type;
  if (type !== "whisper") throw refuse(`it describes a model of type ${text(type)}, not whisper`);
  const { architectures } = config;
  const isOther = Array.isArray(architectures) && !architectures.some((name) => GENERATIVE.includes(name));
  if (isOther) throw refuse(`it describes a ${text(architectures[0])}, which does not transcribe`);
  if (config.quantization_config !== undefined) {
    throw refuse("its weights are quantised already: take the original ones and --quantise them here");
  }
  const activation = config.activation_function ?? "gelu";
  if (activation !== "gelu") throw refuse(`its activation is ${text(activation)}; whisper.cpp computes gelu`);
  if (config.scale_embedding === true) throw refuse("it scales embeddings, which whisper.cpp does not");
}
const GENERATIVE = ["WhisperForConditionalGeneration", "WhisperModel"];

/**
 * Checks that whisper.cpp computes models of these sizes.
 *
 * @param file the file that gives the sizes
 * @throws ImportError
 */
export function checkShape(file: string, { vocab, state, mels, ...shape }: WhisperShape): void {
  const refuse = (reason: string) => new ImportError(file, reason);
  if (!VOCABS.includes(vocab)) {
    throw refuse(
      `vocab_size is ${vocab}; whisper.cpp knows ${VOCABS.join(", ")}. Tokens may have been added`,
    );
  }
  if (!MEL_BANDS.includes(mels)) throw refuse(`num_mel_bins is ${mels}, not ${MEL_BANDS.join(" or ")}`);
  if (state < 32 || state > MAX_STATE || state % 32 !== 0) {
    throw refuse(`d_model is ${state}, not a multiple of 32 up to ${MAX_STATE}`);
  }
  for (const heads of [shape.audioHeads, shape.textHeads]) {
    if (heads < 1 || state % heads !== 0)
      throw refuse(`${heads} attention heads do not fit d_model ${state}`);
  }
  for (const layers of [shape.audioLayers, shape.textLayers]) {
    if (layers < 1 || layers > MAX_LAYERS)
      throw refuse(`it has ${layers} layers; 1 to ${MAX_LAYERS} are possible`);
  }
}

function checkAudio(folder: CheckpointFolder, { mels }: WhisperShape): void {
  if (!hasFile(folder, AUDIO_FILE)) return;
  const settings = readJsonFile(folder, AUDIO_FILE, 4 * MAX_BYTES);
  for (const [key, expected] of Object.entries({ ...AUDIO_SETTINGS, feature_size: mels })) {
    const value = settings[key];
    if (typeof value === "number" && value !== expected) {
      throw new ImportError(AUDIO_FILE, `${key} is ${value}, not ${expected}`);
    }
  }
}

function whole(config: JsonObject, key: string): number {
  const value = config[key];
  if (typeof value !== "number" || !Number.isSafeInteger(value)) {
    throw new ImportError(FILE, `${key} is ${value === undefined ? "missing" : "not a whole number"}`);
  }
  return value;
}

function require(config: JsonObject, key: string, expected: number): void {
  const value = whole(config, key);
  if (value !== expected)
    throw new ImportError(FILE, `${key} is ${value}; whisper.cpp computes with ${expected}`);
}

const text = (value: unknown): string => JSON.stringify(value)?.slice(0, 80) ?? "none";
