/**
 * Makes an ARPA file that knows some words and nothing of their order: all are equally probable at each place.
 *
 * @param words without repetition
 */
export function wordListArpa(words: readonly string[]): string {
  const each = -Math.log10(words.length + 1);
  const all = ["</s>", ...words];
  return [
    ...["\\data\\", `ngram 1=${all.length + 2}`, `ngram 2=${all.length}`, ""],
    ...["\\1-grams:", "-6\t<unk>", "-99\t<s>\t0", ...all.map((word) => `${each.toFixed(6)}\t${word}\t0`), ""],
    ...["\\2-grams:", ...all.map((word) => `${each.toFixed(6)}\t<s> ${word}`), "", "\\end\\", ""],
  ].join("\n");
}
