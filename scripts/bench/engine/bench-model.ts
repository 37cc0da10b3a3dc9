import { closeSync, openSync, writeSync } from "node:fs";
import { expectedTensors, F16 } from "../../../src/families/whisper/model-file.ts";
import { BENCH_SHAPES, type BenchShape } from "./shapes.ts";

const HEAD_WIDTH = 64;
const AUDIO_CONTEXT = 1500;
const TEXT_CONTEXT = 448;
const FILTER_BINS = 201;
const END_OF_TEXT = 50257;
/** `<|0.00|>` of the smallest multilingual vocabulary. A larger one has further languages before it. */
const FIRST_TIMESTAMP = 50364;
const LEAST_VOCAB = 51865;
/** The times `<|0.00|>` to `<|30.00|>`: the whole window was recognized, and the next begins after it. */
const WINDOW_TIMESTAMPS = 1500;
/** Start of transcript, language, task. */
const PROMPT_TOKENS = 3;
/** Large enough that layers of random weights do not change which token is next. */
const POSITION_STRENGTH = 200;

/**
 * Writes a model of the shape of one of Whisper's. Its weights are random, except that for all audio it writes `words`
 * different words from 0 to 30 s in each window of 30 s. So every program that runs it does the same arithmetic.
 *
 * The decoder's position picks the token: position p stands out in dimension p, and so does the token that is to
 * follow in the (tied) embedding.
 *
 * @param words text tokens of a window, at most 440
 */
export function writeBenchModel(path: string, words: number, name: BenchShape = "base"): void {
  const sizes = BENCH_SHAPES[name];
  const file = openSync(path, "w");
  const write = (bytes: Uint8Array) => writeSync(file, bytes);
  const int32 = (...values: number[]) => write(new Uint8Array(Int32Array.from(values).buffer));
  const { vocab, state, audioLayers, textLayers, mels } = sizes;
  const heads = state / HEAD_WIDTH;
  int32(0x67676d6c, vocab, AUDIO_CONTEXT, state, heads, audioLayers);
  int32(TEXT_CONTEXT, state, heads, textLayers, mels, 1);
  int32(mels, FILTER_BINS);
  write(new Uint8Array(melFilters(mels).buffer));
  const list = [" ", ...benchWords(words)];
  int32(list.length);
  for (const word of list) {
    const bytes = new TextEncoder().encode(word);
    int32(bytes.length);
    write(bytes);
  }
  const follows = followers(words, FIRST_TIMESTAMP + vocab - LEAST_VOCAB);
  const random = uniform(1);
  for (const [tensor, { shape, weights }] of expectedTensors(sizes)) {
    const nameBytes = new TextEncoder().encode(tensor);
    int32(shape.length, nameBytes.length, weights.type, ...shape);
    write(nameBytes);
    const values = tensorValues(tensor, shape, random, follows);
    write(weights === F16 ? toHalf(values) : new Uint8Array(values.buffer));
  }
  closeSync(file);
}

/** Returns the token that follows position p, counted from the last token of the prompt. */
function followers(words: number, firstTimestamp: number): Map<number, number> {
  const last = PROMPT_TOKENS - 1;
  const follows = new Map([[last, firstTimestamp]]);
  for (let word = 0; word < words; word++) follows.set(last + 1 + word, 1 + word);
  follows.set(last + 1 + words, firstTimestamp + WINDOW_TIMESTAMPS);
  for (let p = last + 2 + words; p < TEXT_CONTEXT; p++) follows.set(p, END_OF_TEXT);
  return follows;
}

function tensorValues(
  name: string,
  shape: readonly number[],
  random: () => number,
  follows: ReadonlyMap<number, number>,
): Float32Array<ArrayBuffer> {
  const values = new Float32Array(shape.reduce((product, size) => product * size, 1));
  if (/ln(_post)?\.weight$/.test(name)) return values.fill(1);
  if (name.endsWith(".bias")) return values;
  for (let i = 0; i < values.length; i++) values[i] = random() * 0.06;
  const width = shape[0] ?? 1;
  // The end of the text follows many positions, which share one dimension.
  const dimensionOf = (position: number) => Math.min(position, END_DIMENSION);
  for (const [position, token] of follows) {
    const at = dimensionOf(token === END_OF_TEXT ? END_DIMENSION : position);
    if (name === "decoder.positional_embedding") values[position * width + at] = POSITION_STRENGTH;
    if (name === "decoder.token_embedding.weight") values[token * width + at] = 1;
  }
  return values;
}

const END_DIMENSION = 500;

/** Makes pronounceable words that all differ, so that no guard takes them for a loop. */
function benchWords(count: number): string[] {
  const starts = ["ba", "de", "ki", "lo", "mu", "na", "pe", "ri", "so", "tu"];
  const ends = ["lan", "mer", "nik", "pol", "rus", "sat", "ten", "vim", "wod", "zul"];
  return Array.from({ length: count }, (_, n) => {
    const middle = starts[Math.floor(n / 100) % 10];
    return ` ${starts[n % 10]}${ends[Math.floor(n / 10) % 10]}${middle}`;
  });
}

/** Returns a generator of numbers between −1 and 1, the same in every run (linear congruential). */
function uniform(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 31 - 1;
  };
}

/** Makes triangular filters between equally spaced points of the mel scale, as librosa does. */
function melFilters(mels: number): Float32Array<ArrayBuffer> {
  const toMel = (hertz: number) => 2595 * Math.log10(1 + hertz / 700);
  const toHertz = (mel: number) => 700 * (10 ** (mel / 2595) - 1);
  const points = Array.from({ length: mels + 2 }, (_, i) => toHertz((toMel(8000) * i) / (mels + 1)));
  const filters = new Float32Array(mels * FILTER_BINS);
  for (let mel = 0; mel < mels; mel++) {
    const [low = 0, peak = 0, high = 0] = points.slice(mel, mel + 3);
    for (let bin = 0; bin < FILTER_BINS; bin++) {
      const hertz = (bin * 8000) / (FILTER_BINS - 1);
      const height = Math.min((hertz - low) / (peak - low), (high - hertz) / (high - peak));
      filters[mel * FILTER_BINS + bin] = (Math.max(0, height) * 2) / (high - low);
    }
  }
  return filters;
}

function toHalf(values: Float32Array): Uint8Array {
  return new Uint8Array(Float16Array.from(values).buffer);
}
