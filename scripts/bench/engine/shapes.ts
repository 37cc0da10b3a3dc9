import { F16, type TensorSizes } from "../../../src/families/whisper/model-file.ts";

/** Shapes of Whisper's models. */
export const BENCH_SHAPES = {
  base: { vocab: 51865, state: 512, audioLayers: 6, textLayers: 6, mels: 80, weights: F16 },
  small: { vocab: 51865, state: 768, audioLayers: 12, textLayers: 12, mels: 80, weights: F16 },
  medium: { vocab: 51865, state: 1024, audioLayers: 24, textLayers: 24, mels: 80, weights: F16 },
  turbo: { vocab: 51866, state: 1280, audioLayers: 32, textLayers: 4, mels: 128, weights: F16 },
  large: { vocab: 51866, state: 1280, audioLayers: 32, textLayers: 32, mels: 128, weights: F16 },
} as const satisfies Record<string, TensorSizes>;

export type BenchShape = keyof typeof BENCH_SHAPES;

/** A generated model, by its name such as `bench-small-q5_0`; without a type its weights are f16. */
export type BenchModelName = { shape: BenchShape; type: string };

/** @returns undefined for the name of another model */
export function readBenchModelName(name: string): BenchModelName | undefined {
  const [, shape = "", type = "f16"] = /^bench-([a-z]+)(?:-([a-z0-9_]+))?$/.exec(name) ?? [];
  return shape in BENCH_SHAPES ? { shape: shape as BenchShape, type } : undefined;
}

const WINDOW = 1500;
/** Attention of the encoder reads so many keys: whisper.cpp fills them up with zeros. */
const KEYS = 1536;

/** Returns the floating-point operations of a window: products and attention of the encoder, and `tokens` of the decoder. */
export function windowOperations(shape: BenchShape, tokens: number): number {
  const { vocab, state, audioLayers, textLayers, mels } = BENCH_SHAPES[shape];
  const convolutions = 2 * (2 * WINDOW * 3 * mels * state + WINDOW * 3 * state * state);
  const layer = 2 * (WINDOW * 12 * state * state + 2 * WINDOW * KEYS * state);
  const crossKeysAndValues = 2 * textLayers * 2 * WINDOW * state * state;
  const token = 2 * (textLayers * (14 * state * state + 2 * KEYS * state) + vocab * state);
  return convolutions + audioLayers * layer + crossKeysAndValues + tokens * token;
}
