import type { WhisperHead } from "./model-file.ts";

/** A head of the decoder's cross-attention: its layer, and its number there. Both count from 0. */
export type AlignmentHead = readonly [layer: number, head: number];

/**
 * The heads that look at the sound of the next token, by the shape of a model: layers of the decoder, width and number of
 * tokens. Whisper's authors have published them for their own models (openai/whisper, `_ALIGNMENT_HEADS`). Large v1 has the shape
 * of v2, and other heads: a manifest may name them.
 */
const PUBLISHED: Readonly<Record<string, readonly AlignmentHead[]>> = {
  "4 384 51864": heads("1.0 2.0 2.5 3.0 3.1 3.2 3.3 3.4"),
  "4 384 51865": heads("2.2 3.0 3.2 3.3 3.4 3.5"),
  "6 512 51864": heads("3.3 4.7 5.1 5.5 5.7"),
  "6 512 51865": heads("3.1 4.2 4.3 4.7 5.1 5.2 5.4 5.6"),
  "12 768 51864": heads(
    "6.6 7.0 7.3 7.8 8.2 8.5 8.7 9.0 9.4 9.8 9.10 10.0 10.1 10.2 10.3 10.6 10.11 11.2 11.4",
  ),
  "12 768 51865": heads("5.3 5.9 8.0 8.4 8.7 8.8 9.0 9.7 9.9 10.5"),
  "24 1024 51864": heads(
    "11.4 14.1 14.12 14.14 15.4 16.0 16.4 16.9 17.12 17.14 18.7 18.10 18.15 20.0 20.3 20.9 20.14 21.12",
  ),
  "24 1024 51865": heads("13.15 15.4 15.15 16.1 20.0 23.4"),
  "32 1280 51865": heads(
    "10.12 13.17 16.11 16.12 16.13 17.15 17.16 18.4 18.11 18.19 19.11 21.2 21.3 22.3 22.9 22.12 23.5 23.7 23.13 25.5 26.1 26.12 27.15",
  ),
  "32 1280 51866": heads("7.0 10.17 12.18 13.12 16.1 17.14 19.11 21.4 24.1 25.6"),
  "4 1280 51866": heads("2.4 2.11 3.3 3.6 3.11 3.14"),
};

function heads(list: string): readonly AlignmentHead[] {
  return list.split(" ").map((pair): AlignmentHead => {
    const [layer = 0, head = 0] = pair.split(".").map(Number);
    return [layer, head];
  });
}

/**
 * How long after a token is heard the published heads look at it, milliseconds; less than 0: before. Measured with the recordings
 * of scripts/bench/whisper-words.ts. Weights of the other shapes were not there: their heads are measured when a model is added.
 */
const DELAYS_MS: Readonly<Record<string, number>> = { "4 384 51864": 120, "6 512 51865": -40 };

/** A frame of the encoder. */
const FRAME_MS = 20;
/** The longest delay, either way. */
export const MOST_DELAY_MS = 1000;

/**
 * Reports whether the heads of a model are to be measured when it is added: whether it has a shape of which it is not known when its
 * published heads look at a token.
 */
export const needsMeasuring = ({ textLayers, width, vocab }: WhisperHead): boolean =>
  !(`${textLayers} ${width} ${vocab}` in DELAYS_MS);

/** Returns the heads that are published for the shape of a model; undefined: there are none. */
export function publishedHeads({
  textLayers,
  width,
  vocab,
}: WhisperHead): readonly AlignmentHead[] | undefined {
  return PUBLISHED[`${textLayers} ${width} ${vocab}`];
}

/** What a manifest says of how words get times. Left out: what is known of the model's shape. */
export type OwnAlignment = {
  alignmentHeads?: readonly AlignmentHead[] | undefined;
  /** How long after a token is heard these heads look at it, milliseconds; less than 0: before. */
  alignmentDelayMs?: number | undefined;
};

/**
 * Returns with what the words of a model get times: its heads, and how many frames after a token is heard they look at it.
 *
 * @param own what its manifest says
 */
export function alignmentOf(
  shape: WhisperHead,
  own: OwnAlignment = {},
): { alignmentHeads: readonly AlignmentHead[]; alignmentDelay: number } {
  const { textLayers, width, vocab } = shape;
  const ofShape = own.alignmentHeads ? 0 : (DELAYS_MS[`${textLayers} ${width} ${vocab}`] ?? 0);
  return {
    alignmentHeads: own.alignmentHeads ?? publishedHeads(shape) ?? upperHeads(shape),
    alignmentDelay: Math.round((own.alignmentDelayMs ?? ofShape) / FRAME_MS),
  };
}

/**
 * Returns the delay of a model with which starts of words would come earlier; undefined: by less than a frame of the encoder. Where
 * a word begins is not known better.
 *
 * @param lateMs how much earlier; less than 0: later
 */
export function movedDelayMs(shape: WhisperHead, own: OwnAlignment, lateMs: number): number | undefined {
  if (Math.abs(lateMs) < FRAME_MS) return undefined;
  const moved = FRAME_MS * (alignmentOf(shape, own).alignmentDelay + Math.round(lateMs / FRAME_MS));
  return Math.max(-MOST_DELAY_MS, Math.min(moved, MOST_DELAY_MS));
}

/** A head, and how much of its attention lies along the text that was recognized: at most 1. */
export type MeasuredHead = { layer: number; head: number; share: number };

/** A head with less does not follow the text. */
const LEAST_SHARE = 0.5;
/** A head with less of the share of the best one would add more noise than knowledge. */
const LEAST_OF_BEST = 0.7;
const MOST_HEADS = 20;

/** Chooses the heads with which a model's words get times, in the order of its layers; none: no head follows the text. */
export function chooseHeads(measured: readonly MeasuredHead[]): AlignmentHead[] {
  const sorted = measured.toSorted((a, b) => b.share - a.share).slice(0, MOST_HEADS);
  const least = Math.max(LEAST_SHARE, LEAST_OF_BEST * (sorted[0]?.share ?? 0));
  return sorted
    .filter(({ share }) => share >= least)
    .toSorted((a, b) => a.layer - b.layer || a.head - b.head)
    .map(({ layer, head }): AlignmentHead => [layer, head]);
}

/** Returns all heads of the upper half of the layers. Where they do not follow the sound, words get no times. */
function upperHeads({ textLayers, textHeads }: WhisperHead): AlignmentHead[] {
  return allHeads({ textLayers, textHeads }).filter(([layer]) => layer >= Math.floor(textLayers / 2));
}

/** Returns all heads of a model. */
export function allHeads({
  textLayers,
  textHeads,
}: Pick<WhisperHead, "textLayers" | "textHeads">): AlignmentHead[] {
  return Array.from({ length: textLayers * textHeads }, (_, i) => [Math.floor(i / textHeads), i % textHeads]);
}
