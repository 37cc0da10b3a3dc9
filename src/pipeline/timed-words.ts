import type { SpanMs, Word } from "../domain/result.ts";
import { wordSpans } from "../lib/word-spans.ts";
import { type AlignedGroup, alignWords } from "./word-alignment.ts";

/**
 * Words with times, and how they follow their text when it is rewritten. Everywhere in the pipeline the words of a segment
 * are those that `wordSpans` finds in its text. `undefined` instead of words: they have no times.
 */

const SPACES = /\s+/gu;

/**
 * Makes the words of a text from the ones that a recognizer found, which may be parts of words, or several.
 *
 * @param found in order; without white space, they and the text are the same characters
 * @returns undefined where they are not, or the text has no words
 */
export function wordsOfText(found: readonly Word[] | undefined, text: string): Word[] | undefined {
  if (!found || found.map((word) => word.text).join("") !== text.replace(SPACES, "")) return undefined;
  const spans = wordSpans(text);
  if (spans.length === 0) return undefined;
  const words: Word[] = [];
  let next = 0;
  /** Characters of the word `found[next]` that earlier words of the text have. */
  let used = 0;
  for (const { text: wanted } of spans) {
    const parts: Word[] = [];
    for (let left = wanted.length; left > 0; ) {
      const from = found[next] as Word;
      const { length } = from.text;
      const take = Math.min(left, length - used);
      const part = from.text.slice(used, used + take);
      if (take > 0) parts.push({ ...partOf(from, used / length, (used + take) / length), text: part });
      left -= take;
      used += take;
      if (used >= length) {
        next += 1;
        used = 0;
      }
    }
    words.push(joined(parts, wanted));
  }
  return words;
}

/** Returns the part of a word's time between two shares of it. */
function partOf(word: Word, from: number, to: number): Word {
  const length = word.endMs - word.startMs;
  return { ...word, startMs: word.startMs + from * length, endMs: word.startMs + to * length };
}

/**
 * Gives the words of a rewritten text their times. A word that is unchanged, or of which only letters have changed, keeps its
 * time. Where one became several, they divide its time in proportion to their letters; where several became one, it has the time
 * of all. A word without a word that it comes from shares the time of its neighbour.
 *
 * @param words of the text before, in order
 * @param text after
 * @param kept which of several equal words is meant where some are gone
 * @returns undefined where the texts are too long and too different to be compared
 */
export function carryWords(
  words: readonly Word[],
  text: string,
  kept: "first" | "last" = "last",
): Word[] | undefined {
  const after = wordSpans(text).map((span) => span.text);
  const groups = alignWords(
    words.map((word) => word.text),
    after,
    kept,
  );
  return groups && regroupWords(words, after, groups);
}

/**
 * Gives the words of a rewritten text their times where it is known which words come from which.
 *
 * @param texts the words after
 * @param groups in order; all words before and after are in one each
 */
export function regroupWords(
  words: readonly Word[],
  texts: readonly string[],
  groups: readonly AlignedGroup[],
): Word[] {
  return groups.flatMap((group) => rewritten(words, texts, group));
}

/** Carries words through several changes of their text, one after the other. */
export function carryThrough(
  words: readonly Word[] | undefined,
  texts: readonly string[],
): readonly Word[] | undefined {
  let carried = words;
  for (const text of texts) carried &&= carryWords(carried, text);
  return carried;
}

/** Replaces the words of a segment. Without any, it has none. */
export function withWords<S extends { words?: Word[] }>(segment: S, words: readonly Word[] | undefined): S {
  const { words: _, ...rest } = segment;
  return (words && words.length > 0 ? { ...rest, words: [...words] } : rest) as S;
}

/** Gives the words after a change the time of those before it. */
function rewritten(words: readonly Word[], texts: readonly string[], group: AlignedGroup): Word[] {
  const after = texts.slice(group.afterFrom, group.afterTo);
  const whole = joined(words.slice(group.beforeFrom, group.beforeTo), "");
  if (after.length === 1) return [{ ...whole, text: after[0] as string }];
  const weights = after.map(lettersOrOne);
  const sum = weights.reduce((total, weight) => total + weight, 0);
  let before = 0;
  return after.map((text, index) => {
    const from = before / sum;
    before += weights[index] as number;
    return { ...partOf(whole, from, before / sum), text };
  });
}

const LETTER = /[\p{L}\p{N}]/gu;

function lettersOrOne(text: string): number {
  return text.match(LETTER)?.length || 1;
}

/** Joins words to one. Punctuation that is a word of its own has no part in its time, because it is not heard. */
function joined(words: readonly Word[], text: string): Word {
  if (words.length === 1) return { ...(words[0] as Word), text };
  const spoken = words.filter((word) => word.text.search(LETTER) >= 0);
  const heard = spoken.length > 0 ? spoken : words;
  const letters = heard.map((word) => lettersOrOne(word.text));
  const sum = letters.reduce((total, each) => total + each, 0);
  return {
    text,
    startMs: heard[0]?.startMs ?? 0,
    endMs: heard.at(-1)?.endMs ?? 0,
    confidence: heard.reduce((total, word, at) => total + word.confidence * (letters[at] as number), 0) / sum,
  };
}

/** A part of a text, whose words belong to one owner. */
export type OwnedPart<Owner> = { text: string; words: Word[]; owner: Owner };

/**
 * Divides a text where the next word belongs to another owner.
 *
 * @param words those of the text
 * @returns the parts in order; the white space between two of them is left out
 */
export function divideAtWords<Owner>(
  text: string,
  words: readonly Word[],
  ownerOf: (word: Word) => Owner,
): OwnedPart<Owner>[] {
  const spans = wordSpans(text);
  const parts: (OwnedPart<Owner> & { from: number })[] = [];
  for (const [index, word] of words.entries()) {
    const span = spans[index];
    const last = parts.at(-1);
    const owner = ownerOf(word);
    if (!span) continue;
    if (last?.owner === owner) {
      last.words.push(word);
      last.text = text.slice(last.from, span.to);
    } else {
      parts.push({ text: span.text, words: [word], owner, from: span.from });
    }
  }
  return parts.map(({ from: _, ...part }) => {
    // What stood beside a script without spaces may be one word where that script is in another part.
    const own = parts.length > 1 ? wordsOfText(part.words, part.text) : undefined;
    return own ? { ...part, words: own } : part;
  });
}

/**
 * Moves words into a segment: whole milliseconds that rise, do not overlap, and are within it.
 *
 * @param words in order
 * @param span whole milliseconds
 * @returns undefined where the segment is too short for so many words
 */
export function fitWords(words: readonly Word[] | undefined, { startMs, endMs }: SpanMs): Word[] | undefined {
  if (!words || words.length === 0 || endMs - startMs < words.length) return undefined;
  const fitted: Word[] = [];
  let atMs = startMs;
  for (const word of words) {
    const start = Math.max(atMs, Math.round(word.startMs));
    atMs = Math.max(start + 1, Math.round(word.endMs));
    fitted.push({ ...word, startMs: start, endMs: atMs });
  }
  let latestMs = endMs;
  for (const word of fitted.reverse()) {
    word.endMs = Math.min(word.endMs, latestMs);
    word.startMs = Math.min(word.startMs, word.endMs - 1);
    latestMs = word.startMs;
  }
  return fitted.reverse();
}
