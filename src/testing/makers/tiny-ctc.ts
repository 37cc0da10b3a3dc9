import { readFileSync } from "node:fs";
import { join } from "node:path";

/** The tiny CTC model of `models/tiny-ctc`, and its recordings with transcripts, for tests. */

export const TINY_CTC = join(import.meta.dir, "../../../models/tiny-ctc");
/** A network with random weights that takes samples, in the form of Omnilingual's models. */
export const RAW_CTC = join(TINY_CTC, "raw");
/** Recordings with the times of their words. */
export const TIMED = join(TINY_CTC, "timed");
const RECORDINGS = join(TINY_CTC, "recordings");
const HEAD_BYTES = 44;

/** A recording that the model was not trained with. Its PCM is 16 kHz mono. */
export type TinyRecording = { name: string; path: string; text: string; pcm: Int16Array };

export const tinyRecordings: readonly TinyRecording[] = readFileSync(
  join(RECORDINGS, "transcripts.tsv"),
  "utf8",
)
  .split("\n")
  .filter((line) => line !== "")
  .map((line) => {
    const [name = "", text = ""] = line.split("\t");
    const path = join(RECORDINGS, name);
    const bytes = new Uint8Array(readFileSync(path).subarray(HEAD_BYTES));
    return { name, path, text, pcm: new Int16Array(bytes.buffer) };
  });

/**
 * Computes how well a number separates right from wrong: the probability that a right one has a greater number than a
 * wrong one (the area under the ROC curve).
 */
export function separation(judged: readonly { isRight: boolean; value: number }[]): number {
  const right = judged.filter(({ isRight }) => isRight);
  const wrong = judged.filter(({ isRight }) => !isRight);
  let won = 0;
  for (const { value } of right)
    for (const other of wrong) won += value > other.value ? 1 : value === other.value ? 0.5 : 0;
  return won / (right.length * wrong.length);
}
