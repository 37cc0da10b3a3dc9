import type { InstalledModel, ModelDecoding } from "../../domain/model.ts";
import type { RecognizedSegment } from "../../domain/recognition.ts";
import { startErrors } from "../../pipeline/word-starts.ts";
import { type Sample, wordsOf } from "./trial-samples.ts";

/** Fewer words say little. */
const LEAST_WORDS = 6;
/** A word of a lower confidence may be a guess, and its time with it. */
const LEAST_CONFIDENCE = 0.5;
/** Words behind a pause begin with the sound in any case, so one correction may not be enough. */
const MOST_CORRECTIONS = 4;
/** A word that is further away is at another place, and how far says nothing. */
const FARTHEST_MS = 300;

/** How far starts are from those that are known, on the whole: without those that are far away, and by their distance. */
type Figures = { lateMs: number; distanceMs: number };

/** What corrects the starts of a model's words: `FamilyTrial.wordStarts`. */
type Earlier = (model: InstalledModel, lateMs: number) => ModelDecoding | undefined;

/**
 * Finds out whether the starts of a model's words come late or early on the whole, and corrects that. Each correction is tried with the
 * same samples: one with which starts are not nearer is not used, nor is one that few words speak for.
 *
 * @param samples those that the model understands
 * @param hear recognizes a sample, with times of words; undefined: the time was over
 * @returns the decoding of the model with the correction; undefined: there is none
 */
export async function correctStarts(
  model: InstalledModel,
  samples: readonly Sample[],
  hear: (model: InstalledModel, sample: Sample) => Promise<readonly RecognizedSegment[] | undefined>,
  earlier: Earlier,
): Promise<ModelDecoding | undefined> {
  const figuresOf = async (tried: InstalledModel): Promise<Figures | undefined> => {
    const errors: number[] = [];
    for (const sample of samples) {
      const segments = await hear(tried, sample);
      if (!segments) return undefined;
      errors.push(...errorsIn(sample, segments));
    }
    return figures(errors);
  };
  let best: ModelDecoding | undefined;
  let found = await figuresOf(model);
  for (let n = 0; found && n < MOST_CORRECTIONS; n++) {
    const decoding: ModelDecoding | undefined = earlier(
      best ? { ...model, decoding: best } : model,
      found.lateMs,
    );
    const after: Figures | undefined = decoding && (await figuresOf({ ...model, decoding }));
    if (!after || after.distanceMs >= found.distanceMs) break;
    [best, found] = [decoding, after];
  }
  return best;
}

/** Sums up errors of starts. @returns undefined for too few */
function figures(errors: readonly number[]): Figures | undefined {
  if (errors.length < LEAST_WORDS) return undefined;
  const quarter = Math.floor(errors.length / 4);
  const middle = errors.toSorted((a, b) => a - b).slice(quarter, errors.length - quarter);
  return {
    lateMs: mean(middle),
    distanceMs: mean(errors.map((error) => Math.min(Math.abs(error), FARTHEST_MS))),
  };
}

const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;

/** Returns how much later than it was said each word of a sample was heard that was heard right. */
function errorsIn(sample: Sample, segments: readonly RecognizedSegment[]): number[] {
  const heard = segments.flatMap(({ words = [] }) => words);
  const sure = heard.filter(({ confidence }) => confidence >= LEAST_CONFIDENCE);
  return startErrors(wordsOf(sample), sure, sample.language) ?? [];
}
