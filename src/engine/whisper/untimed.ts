import { SAMPLE_RATE_HZ } from "../../domain/chunk.ts";
import type { LoadedModel, WhisperOptions } from "./whisper-model.ts";
import type { WhisperSegment } from "./whisper-segments.ts";

/**
 * Recognition with weights that were trained without timestamps.
 *
 * whisper.cpp then takes the whole window for one segment, and drops its text when it does not end within about 220
 * tokens: some 15 s of fast speech in an Indian script. So the text is ended earlier, and audio with so much text is
 * recognized again in two halves, which are cut where it is quietest.
 */

/** Tokens after which a text is ended; below the bound of whisper.cpp. */
const MAX_TOKENS = 200;
/** Audio that is not divided further: speech of that length never has 200 tokens, so the model is in a loop. */
const SHORTEST_SECONDS = 4;
const FRAME = SAMPLE_RATE_HZ / 50;

type Model = Pick<LoadedModel, "recognize">;

/** Recognizes at most 30 s. The segments have the times of the audio that they were made of. */
export async function recognizeUntimed(
  model: Model,
  samples: Float32Array,
  options: WhisperOptions,
  signal?: AbortSignal,
): Promise<WhisperSegment[]> {
  const found = await model.recognize(samples, { ...options, maxTokens: MAX_TOKENS }, signal);
  const tokens = found.reduce((sum, segment) => sum + segment.tokens.length, 0);
  if (tokens < MAX_TOKENS || samples.length < SHORTEST_SECONDS * SAMPLE_RATE_HZ) {
    return withTimes(found, samples.length);
  }
  const middle = quietestNearMiddle(samples);
  const first = await recognizeUntimed(model, samples.subarray(0, middle), options, signal);
  const second = await recognizeUntimed(model, samples.subarray(middle), options, signal);
  const offsetMs = toMs(middle);
  return [
    ...first,
    ...second.map(({ words, ...segment }) => ({
      ...moved(segment, offsetMs),
      ...(words ? { words: words.map((word) => moved(word, offsetMs)) } : {}),
    })),
  ];
}

function moved<T extends { startMs: number; endMs: number }>(timed: T, byMs: number): T {
  return { ...timed, startMs: timed.startMs + byMs, endMs: timed.endMs + byMs };
}

/** whisper.cpp gives such segments the times of its window. */
function withTimes(segments: readonly WhisperSegment[], samples: number): WhisperSegment[] {
  return segments.map((segment) => ({ ...segment, startMs: 0, endMs: toMs(samples) }));
}

const toMs = (samples: number): number => Math.round((samples * 1000) / SAMPLE_RATE_HZ);

/** Returns the beginning of the quietest frame of 20 ms in the middle third. */
function quietestNearMiddle(samples: Float32Array): number {
  const [from, to] = [Math.floor(samples.length / 3), Math.floor((2 * samples.length) / 3)];
  let best = Math.floor(samples.length / 2);
  let least = Number.POSITIVE_INFINITY;
  for (let at = from; at + FRAME <= to; at += FRAME) {
    const frame = samples.subarray(at, at + FRAME);
    const energy = frame.reduce((sum, sample) => sum + sample * sample, 0);
    if (energy >= least) continue;
    least = energy;
    best = at;
  }
  return best;
}
