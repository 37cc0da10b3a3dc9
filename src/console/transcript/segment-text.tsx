import { useComputed } from "@preact/signals";
import { useMemo } from "preact/hooks";
import { doubtOf, type Segment } from "./rows.ts";
import { type Match, matchesIn } from "./search.ts";
import type { TranscriptModel } from "./shown-transcript.ts";
import { type ShownWord, shownWords, wordAt } from "./timed-words.ts";

type TextProps = {
  model: TranscriptModel;
  segment: Segment;
  text: string;
  /** The row that the text belongs to. */
  index: number;
  isCorrected: boolean;
};

/** The text of a segment. Words with times are marked while they are heard, and each that is doubtful is shaded. */
export function SegmentText({ model, segment, text, index, isCorrected }: TextProps) {
  const words = useMemo(() => shownWords(segment, text), [segment, text]);
  const matches = matchesIn(text, model.query.value);
  if (words.length === 0) return <Marked text={text} from={0} to={text.length} matches={matches} />;
  return <Words {...{ model, text, words, matches, index, isCorrected }} />;
}

type WordsProps = Omit<TextProps, "segment"> & { words: readonly ShownWord[]; matches: readonly Match[] };

function Words({ model, text, words, matches, index, isCorrected }: WordsProps) {
  const spoken = useComputed(() => {
    const player = model.player.value;
    return player && model.heard.value === index ? wordAt(words, player.time.value) : -1;
  }).value;
  return (
    <>
      {words.map(({ from, to, start, confidence }, place) => {
        const doubt = isCorrected ? "none" : doubtOf({ confidence });
        const names = [`word doubt-${doubt}`, place === spoken && "spoken"];
        return (
          <>
            <Marked text={text} from={words[place - 1]?.to ?? 0} to={from} matches={matches} />
            <span key={from} class={names.filter(Boolean).join(" ")} data-start={start}>
              <Marked {...{ text, from, to, matches }} />
            </span>
          </>
        );
      })}
      <Marked text={text} from={words.at(-1)?.to ?? 0} to={text.length} matches={matches} />
    </>
  );
}

/** Returns where the word at an element begins, in seconds; undefined: it is no word with a time. */
export function startOfWord(target: EventTarget | null): number | undefined {
  const word = target instanceof Element ? target.closest<HTMLElement>("[data-start]") : null;
  return word ? Number(word.dataset.start) : undefined;
}

type MarkedProps = { text: string; from: number; to: number; matches: readonly Match[] };

/** A part of a text, with the matches of the search marked. */
function Marked({ text, from, to, matches }: MarkedProps) {
  const within = matches.filter(({ start, end }) => end > from && start < to);
  if (within.length === 0) return <>{text.slice(from, to)}</>;
  const at = ({ start, end }: Match) => ({ start: Math.max(from, start), end: Math.min(to, end) });
  const parts = within.map((match, index) => {
    const { start, end } = at(match);
    const before = within[index - 1];
    return (
      <>
        {text.slice(before ? at(before).end : from, start)}
        <mark>{text.slice(start, end)}</mark>
      </>
    );
  });
  const last = within.at(-1);
  return (
    <>
      {parts}
      {text.slice(last ? at(last).end : from, to)}
    </>
  );
}
