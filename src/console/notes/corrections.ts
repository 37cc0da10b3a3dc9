import { type Signal, signal } from "@preact/signals";
import { forget, keep, keptUnder } from "../lib/kept.ts";
import { askBeforeLeaving } from "../lib/leaving.ts";
import { type Acts, type Correction, NO_ACTS, reversed, withAct } from "./correction-acts.ts";

/** What one tab tells the others: segments that have another text now, and the acts that led there. */
type Told = { id: string; changes: readonly Change[]; acts: Acts };
type Change = { index: number; correction: Correction | undefined };
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
const actsKeyOf = (id: string) => `${id}/acts`;
/** The segment's index, behind the transcription's ID; `draft/` before it where a text is not saved yet. */
const KEY = /^(draft\/)?(\d+)$/;

/** Opens the corrections of a transcription. They live in this browser, and the server never sees them. */
export function createCorrections(id: string) {
  const all = signal<ReadonlyMap<number, Correction>>(new Map());
  /** Texts that are being typed and are not saved yet. Each is kept after every keystroke, until it is saved or given up. */
  const drafts = signal<ReadonlyMap<number, string>>(new Map());
  let acts = NO_ACTS;
  /** Keys of what has changed since the transcription was opened. What the browser kept before is older. */
  const touched = new Set<string>();
  let timesCleared = 0;

  /** False once the browser has refused to keep a text: it is lost when the page is closed. */
  const isKept = signal(true);
  const noteKept = (kept: boolean): boolean => {
    if (kept) askToStay();
    else isKept.value = false;
    return kept;
  };
  const keepText = (key: string, value: Correction | string): Promise<boolean> =>
    keep("corrections", key, value).then(noteKept, () => noteKept(false));
  /** Without it a reload finds the text again that was taken back. */
  const forgetText = (key: string): Promise<boolean> =>
    forget("corrections", key).then(
      () => true,
      () => noteKept(false),
    );

  const show = (changes: readonly Change[], by: Acts) => {
    const next = new Map(all.value);
    for (const { index, correction } of changes) {
      touched.add(keyOf(id, index));
      if (correction) next.set(index, correction);
      else next.delete(index);
    }
    all.value = next;
    acts = by;
    touched.add(actsKeyOf(id));
  };

  // What is corrected in another tab of this browser is corrected here, and can be taken back here.
  const tabs = typeof BroadcastChannel === "undefined" ? undefined : new BroadcastChannel(TABS);
  if (tabs)
    tabs.onmessage = ({ data }: MessageEvent<Told>) => {
      if (data.id === id) show(data.changes, data.acts);
    };

  /** Makes changes, and keeps them. Returns whether a reload finds all of them. */
  const put = async (changes: readonly Change[], by: Acts): Promise<boolean> => {
    show(changes, by);
    tabs?.postMessage({ id, changes, acts } satisfies Told);
    const kept = changes.map(({ index, correction }) =>
      correction ? keepText(keyOf(id, index), correction) : forgetText(keyOf(id, index)),
    );
    void keep("corrections", actsKeyOf(id), acts).catch(() => false);
    return (await Promise.all(kept)).every((one) => one);
  };
  const reverse = (way: "undo" | "redo"): number | undefined => {
    const found = reversed(acts, way, (index) => all.value.get(index));
    if (!found) return undefined;
    void put(
      found.become.map(({ index, before }) => ({ index, correction: before })),
      found.acts,
    );
    return found.become[0]?.index;
  };

  const setDraft = (index: number, text: string | undefined) => {
    if (drafts.value.get(index) === text) return;
    const next = new Map(drafts.value);
    if (text === undefined) next.delete(index);
    else next.set(index, text);
    drafts.value = next;
    const key = draftKeyOf(id, index);
    touched.add(key);
    if (text === undefined) void forget("corrections", key).catch(() => undefined);
    else void keepText(key, text);
  };

  const view: View = {
    ...{ id, drafts },
    clear() {
      all.value = new Map();
      drafts.value = new Map();
      acts = NO_ACTS;
      timesCleared += 1;
    },
  };
  views.add(view);

  return {
    ...{ all, drafts, setDraft, isKept },
    /** Shows what the browser keeps, beside what has been corrected meanwhile. */
    async load() {
      const before = timesCleared;
      const kept = await readKept(id, (key) => touched.has(key));
      if (before !== timesCleared) return;
      all.value = new Map([...kept.corrections, ...all.value]);
      drafts.value = new Map([...kept.drafts, ...drafts.value]);
      acts = kept.acts ?? acts;
    },
    /** Is called when the transcription is not shown any more. */
    close(): void {
      tabs?.close();
      views.delete(view);
    },
    /** Corrects several segments in one act; the original text removes a correction. Returns whether a reload finds all of it. */
    async set(changes: readonly { index: number; original: string; text: string }[]): Promise<boolean> {
      if (changes.length === 0) return true;
      const replaced = changes.map(({ index }) => ({ index, before: all.value.get(index) }));
      const corrected = changes.map(({ index, original, text }) => ({
        index,
        correction: text === original ? undefined : { text, at: Date.now() },
      }));
      return put(corrected, withAct(acts, replaced));
    },
    /** Takes the last act back. Returns the first segment of it; undefined when there is none. */
    undo: () => reverse("undo"),
    /** Makes the act again that was taken back last. Returns as `undo` does. */
    redo: () => reverse("redo"),
  };
}

/** Reads what the browser keeps of a transcription. @param isOlder whether the page has something newer under a key */
async function readKept(id: string, isOlder: (key: string) => boolean) {
  const kept = await keptUnder<Correction | string | Acts>("corrections", `${id}/`).catch(() => new Map());
  const corrections = new Map<number, Correction>();
  const drafts = new Map<number, string>();
  let acts: Acts | undefined;
  for (const [key, value] of kept) {
    if (isOlder(key)) continue;
    const [, isDraft, digits] = KEY.exec(key.slice(id.length + 1)) ?? [];
    if (key === actsKeyOf(id)) acts = value as Acts;
    else if (digits === undefined) continue;
    else if (isDraft !== undefined) drafts.set(Number(digits), String(value));
    else {
      const { text, at } = value as Correction;
      corrections.set(Number(digits), { text, at });
      // Earlier versions of the page kept the words of the server, too.
      if ("original" in value) void keep("corrections", key, { text, at }).catch(() => undefined);
    }
  }
  return { corrections, drafts, acts };
}
