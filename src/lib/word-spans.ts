/** A word of a text: the characters from `from` up to, and without, `to`. */
export type WordSpan = { text: string; from: number; to: number };

const BETWEEN_SPACES = /\S+/gu;
/** Scripts whose words are written without spaces between them. */
const WITHOUT_SPACES =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}]/u;
const SEGMENTER = new Intl.Segmenter("und", { granularity: "word" });

/**
 * Finds the words of a text: what is between white space. Where a script has no spaces between words, they are those of
 * Unicode's segmentation (UAX 29 with dictionaries), and punctuation belongs to the word before it.
 *
 * @returns the words in order. They and the white space between them are all of the text
 */
export function wordSpans(text: string): WordSpan[] {
  const spans: WordSpan[] = [];
  for (const { 0: run, index } of text.matchAll(BETWEEN_SPACES)) {
    if (WITHOUT_SPACES.test(run)) spans.push(...segmented(run, index));
    else spans.push({ text: run, from: index, to: index + run.length });
  }
  return spans;
}

/** Divides text without white space. The first word takes the punctuation before it. */
function segmented(run: string, at: number): WordSpan[] {
  const spans: WordSpan[] = [];
  let hasWord = false;
  for (const { segment, index, isWordLike } of SEGMENTER.segment(run)) {
    const last = spans.at(-1);
    const to = at + index + segment.length;
    if (last && !(isWordLike && hasWord)) {
      last.text += segment;
      last.to = to;
    } else {
      spans.push({ text: segment, from: at + index, to });
    }
    hasWord ||= isWordLike === true;
  }
  return spans;
}
