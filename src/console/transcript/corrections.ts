import { type Signal, signal } from "@preact/signals";
import { forget, keep, keptUnder } from "../lib/kept.ts";
import { askBeforeLeaving } from "../lib/leaving.ts";

/** A corrected segment, as the browser keeps it: without the words of the server. */
type Correction = { text: string; at: number };

/** What an act has replaced in a segment; undefined: the server's own words. */
type Replaced = { index: number; before: Correction | undefined };

/** What one tab tells the others. */
type Told = { id: string; index: number; correction: Correction | undefined };
const TABS = "shruti-corrections";

let hasAsked = false;

/** Asks the browser once not to remove what it keeps when its disk gets full. */
function askToStay(): void {
  if (hasAsked) return;
  hasAsked = true;
  void globalThis.navigator?.storage?.persist?.().catch(() => false);
}

/** What one view shows of a transcription, so that it can be forgotten there as well. */
type View = { id: string; drafts: Signal<ReadonlyMap<number, string>>; clear: () => void };
const views = new Set<View>();

askBeforeLeaving(() => [...views].some(({ drafts }) => drafts.value.size > 0));

/** Forgets the corrections in the views; what the browser keeps is another matter. @param id left out: of all */
export function forgetCorrections(id?: string): void {
  for (const view of views) if (id === undefined || view.id === id) view.clear();
}

/** Corrections of one transcription by the segment's index. */
export type Corrections = ReturnType<typeof createCorrections>;

const numberOf = (index: number) => String(index).padStart(8, "0");
const keyOf = (id: string, index: number) => `${id}/${numberOf(index)}`;
const draftKeyOf = (id: string, index: number) => `${id}/draft/${numberOf(index)}`;
/** The segment's index, behind the transcription's ID; `draft/` before it where a text is not saved yet. */
const KEY = /^(draft\/)?(\d+)$/;

/** Opens the corrections of a transcription. They live in this browser, and the server never sees them. */
export function createCorrections(id: string) {
  const all = signal<ReadonlyMap<number, Correction>>(new Map());
  /** Texts that are being typed and are not saved yet. Each is kept after every keystroke, until it is saved or given up. */
  const drafts = signal<ReadonlyMap<number, string>>(new Map());
  /** What each change replaced, oldest first: several segments where one act changed several. */
  const past: Replaced[][] = [];
  /** The same of acts that were taken back, which can be made again until the next act. */
  const undone: Replaced[][] = [];

  /** False once the browser has refused to keep a text: it is lost when the page is closed. */
  const isKept = signal(true);
  const noteKept = (kept: boolean): boolean => {
    if (kept) askToStay();
    else isKept.value = false;
    return kept;
  };
  const keepText = (key: string, value: Correction | string): Promise<boolean> =>
    keep("corrections", key, value).then(noteKept, () => noteKept(false));

  const showOne = (index: number, correction: Correction | undefined) => {
    const next = new Map(all.value);
    if (correction) next.set(index, correction);
    else next.delete(index);
    all.value = next;
  };
  const put = (index: number, correction: Correction | undefined) => {
    showOne(index, correction);
    tabs?.postMessage({ id, index, correction } satisfies Told);
    const key = keyOf(id, index);
    if (correction) return keepText(key, correction);
    return forget("corrections", key).then(
      () => true,
      () => true,
    );
  };

  // What is corrected in another tab of this browser is corrected here.
  const tabs = typeof BroadcastChannel === "undefined" ? undefined : new BroadcastChannel(TABS);
  if (tabs)
    tabs.onmessage = ({ data }: MessageEvent<Told>) => {
      if (data.id === id) showOne(data.index, data.correction);
    };

  /** Exchanges the newest act of a list for its reverse in the other. Returns its first segment; undefined: the list is empty. */
  const reverse = (from: Replaced[][], to: Replaced[][]): number | undefined => {
    const last = from.pop();
    if (!last) return undefined;
    to.push(last.map(({ index }) => ({ index, before: all.value.get(index) })));
    for (const { index, before } of last) void put(index, before);
    return last[0]?.index;
  };

  const setDraft = (index: number, text: string | undefined) => {
    if (drafts.value.get(index) === text) return;
    const next = new Map(drafts.value);
    if (text === undefined) next.delete(index);
    else next.set(index, text);
    drafts.value = next;
    const key = draftKeyOf(id, index);
    if (text === undefined) void forget("corrections", key).catch(() => undefined);
    else void keepText(key, text);
  };

  const view: View = {
    ...{ id, drafts },
    clear() {
      all.value = new Map();
      drafts.value = new Map();
      past.length = 0;
      undone.length = 0;
    },
  };
  views.add(view);

  return {
    ...{ all, drafts, setDraft, isKept },
    async load() {
      const found = await keptUnder<Correction | string>("corrections", `${id}/`).catch(() => new Map());
      const loaded = new Map<number, Correction>();
      const typed = new Map<number, string>();
      for (const [key, value] of found) {
        const [, isDraft, digits] = KEY.exec(key.slice(id.length + 1)) ?? [];
        if (digits === undefined) continue;
        if (isDraft !== undefined) {
          typed.set(Number(digits), String(value));
          continue;
        }
        const { text, at } = value as Correction;
        loaded.set(Number(digits), { text, at });
        // Earlier versions of the page kept the words of the server, too.
        if ("original" in value) void keep("corrections", key, { text, at }).catch(() => undefined);
      }
      all.value = loaded;
      drafts.value = new Map([...typed, ...drafts.value]);
    },
    /** Is called when the transcription is not shown any more. */
    close(): void {
      tabs?.close();
      views.delete(view);
    },
    /** Corrects several segments in one act; the original text removes a correction. Returns whether a reload finds all of it. */
    async set(changes: readonly { index: number; original: string; text: string }[]): Promise<boolean> {
      if (changes.length === 0) return true;
      past.push(changes.map(({ index }) => ({ index, before: all.value.get(index) })));
      undone.length = 0;
      const kept = changes.map(({ index, original, text }) =>
        put(index, text === original ? undefined : { text, at: Date.now() }),
      );
      return (await Promise.all(kept)).every((one) => one);
    },
    /** Takes the last act back. Returns the first segment of it; undefined when there is none. */
    undo: () => reverse(past, undone),
    /** Makes the act again that was taken back last. Returns as `undo` does. */
    redo: () => reverse(undone, past),
  };
}
