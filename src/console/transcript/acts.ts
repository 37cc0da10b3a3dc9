import { batch } from "@preact/signals";
import { announce } from "../parts/announce.tsx";
import { words } from "../words/words.ts";
import { replaceIn } from "./search.ts";
import type { TranscriptModel } from "./shown-transcript.ts";

/** Steps back and on by this many seconds. */
const STEP_SECONDS = 3;

/** Plays a row from its start, or from a time in it, and gives it the focus. */
export function playRow({ rows, player, focused }: TranscriptModel, index: number, from?: number): void {
  const row = rows.value[index];
  if (!row) return;
  focused.value = index;
  const start = from ?? row.start;
  if (start !== undefined) player.value?.playFrom(start);
}

/** Goes to a row without playing it. */
export function goToRow({ rows, player, focused }: TranscriptModel, index: number): void {
  const row = rows.value[index];
  if (!row) return;
  focused.value = index;
  if (row.start !== undefined) player.value?.seek(row.start);
}

/** Goes to the next place that a person should listen to, after the last to the first. */
export function nextPlace(model: TranscriptModel, direction: 1 | -1 = 1): void {
  const { places, focused } = model;
  const all = places.value;
  const found =
    direction === 1
      ? (all.find((index) => index > focused.value) ?? all[0])
      : (all.findLast((index) => index < focused.value) ?? all.at(-1));
  if (found === undefined) return;
  // What follows the sound would leave the place at once.
  goToRow(model, found);
}

/** Opens a row's text for typing, and puts the keyboard there. */
export function edit({ focused, editing, called }: TranscriptModel, row: number, segment: number): void {
  batch(() => {
    focused.value = row;
    editing.value = segment;
    called.value++;
  });
}

/** Keeps the text of a segment as its correction. */
export function correct({ corrections, segments }: TranscriptModel, index: number, text: string): void {
  const segment = segments.value[index];
  if (!segment) return;
  const kept = corrections.set([{ index, original: segment.text, text: text.trim().normalize("NFC") }]);
  const t = words.value.transcript;
  void kept.then((isKept) => announce(isKept ? t.saved : t.notKept));
}

/** Replaces every match of the search in one act. */
export function replaceMatches(model: TranscriptModel, by: string): void {
  const { matches, rows, textOf, corrections, query } = model;
  const changed = [...new Set(matches.value.map(({ row }) => row))];
  const changes = changed.flatMap((index) => {
    const row = rows.value[index];
    if (row?.kind !== "segment") return [];
    const { segment } = row;
    return [
      {
        index: segment.index,
        original: segment.text,
        text: replaceIn(textOf(segment.index), query.value, by),
      },
    ];
  });
  void corrections.set(changes);
  announce(words.value.transcript.replaced(changes.length));
}

export function undo(model: TranscriptModel): void {
  const t = words.value.transcript;
  show(model, model.corrections.undo(), t.undone, t.nothingToUndo);
}

export function redo(model: TranscriptModel): void {
  const t = words.value.transcript;
  show(model, model.corrections.redo(), t.redone, t.nothingToRedo);
}

/** Says what has happened, and goes to the segment where it did. */
function show(
  { rows, focused }: TranscriptModel,
  index: number | undefined,
  done: string,
  none: string,
): void {
  announce(index === undefined ? none : done);
  const row = rows.value.findIndex((one) => one.kind === "segment" && one.segment.index === index);
  if (row >= 0) focused.value = row;
}

/** Whether what is typed there is text: then a key is a letter, and not an act. */
export const isField = (target: EventTarget | null) =>
  target instanceof HTMLElement &&
  target.closest("input, textarea, select, dialog, [contenteditable]") !== null;

/** Keys of the transcript (`words.keys.list`). Returns whether the key meant something. */
export function onKey(model: TranscriptModel, event: KeyboardEvent, openSearch: () => void): boolean {
  if (isField(event.target)) return false;
  const { player, focused, rows } = model;
  if (event.ctrlKey || event.metaKey) {
    const key = event.key.toLowerCase();
    const isRedo = key === "y" || (key === "z" && event.shiftKey);
    if (isRedo) redo(model);
    else if (key === "z") undo(model);
    return isRedo || key === "z";
  }
  if (event.altKey) return false;
  const isButton = event.target instanceof HTMLElement && event.target.closest("button, a, summary") !== null;
  const sound = player.value;
  const acts: Record<string, (() => void) | undefined> = {
    " ": isButton ? undefined : () => sound?.toggle(),
    k: () => sound?.toggle(),
    j: () => sound?.step(-STEP_SECONDS),
    l: () => sound?.step(STEP_SECONDS),
    ArrowLeft: () => sound?.step(-STEP_SECONDS),
    ArrowRight: () => sound?.step(STEP_SECONDS),
    ArrowUp: () => playRow(model, Math.max(0, focused.value - 1)),
    ArrowDown: () => playRow(model, Math.min(rows.value.length - 1, focused.value + 1)),
    "[": () => sound?.faster(-1),
    "]": () => sound?.faster(1),
    n: () => nextPlace(model, 1),
    e: () => {
      const row = rows.value[focused.value];
      if (row?.kind === "segment") edit(model, focused.value, row.segment.index);
    },
    "/": openSearch,
  };
  const act = acts[event.key.length === 1 ? event.key.toLowerCase() : event.key];
  act?.();
  return act !== undefined;
}
