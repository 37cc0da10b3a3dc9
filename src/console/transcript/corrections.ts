import { type Signal, signal } from "@preact/signals";
import { forget, keep, keptUnder } from "../lib/kept.ts";
import { askBeforeLeaving } from "../lib/leaving.ts";

/** A corrected segment, as the browser keeps it: without the words of the server. */
type Correction = { text: string; at: number };

/** What the views show of one transcription, so that it can be forgotten there as well. */
type Shown = { drafts: Signal<ReadonlyMap<number, string>>; clear: () => void };
const shown = new Map<string, Set<Shown>>();

askBeforeLeaving(() =>
  [...shown.values()].some((views) => [...views].some((one) => one.drafts.value.size > 0)),
);

/** Forgets the corrections in the views; what the browser keeps is another matter. @param id left out: of all */
export function forgetCorrections(id?: string): void {
  for (const [one, views] of shown)
    if (id === undefined || one === id) for (const { clear } of views) clear();
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
  /** Texts that are being typed and are not saved yet. Each is kept with every key, and stays until it is saved or given up. */
  const drafts = signal<ReadonlyMap<number, string>>(new Map());
  /** What each change replaced, oldest first: several segments where one act changed several. */
  const past: { index: number; before: Correction | undefined }[][] = [];

  const put = (index: number, correction: Correction | undefined) => {
    const next = new Map(all.value);
    if (correction) next.set(index, correction);
    else next.delete(index);
    all.value = next;
    const key = keyOf(id, index);
    const done = correction ? keep("corrections", key, correction) : forget("corrections", key);
    void done.catch(() => undefined);
  };

  /** Keeps a text, or removes the correction where it is the original one. */
  const setOne = (index: number, original: string, text: string) => {
    const before = all.value.get(index);
    put(index, text === original ? undefined : { text, at: Date.now() });
    return { index, before };
  };

  const setDraft = (index: number, text: string | undefined) => {
    if (drafts.value.get(index) === text) return;
    const next = new Map(drafts.value);
    if (text === undefined) next.delete(index);
    else next.set(index, text);
    drafts.value = next;
    const key = draftKeyOf(id, index);
    const done = text === undefined ? forget("corrections", key) : keep("corrections", key, text);
    void done.catch(() => undefined);
  };

  const view: Shown = {
    drafts,
    clear() {
      all.value = new Map();
      drafts.value = new Map();
      past.length = 0;
    },
  };
  const views = shown.get(id) ?? new Set();
  shown.set(id, views.add(view));

  return {
    ...{ all, drafts, setDraft },
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
      views.delete(view);
      if (views.size === 0) shown.delete(id);
    },
    /** Corrects several segments in one act. */
    set(changes: readonly { index: number; original: string; text: string }[]) {
      const done = changes.map(({ index, original, text }) => setOne(index, original, text));
      if (done.length > 0) past.push(done);
    },
    /** Takes the last act back. Returns the first segment of it; undefined when there is none. */
    undo(): number | undefined {
      const last = past.pop();
      for (const { index, before } of last ?? []) put(index, before);
      return last?.[0]?.index;
    },
  };
}
