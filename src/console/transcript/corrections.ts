import { signal } from "@preact/signals";
import { forget, keep, keptUnder } from "../lib/kept.ts";

/** A corrected segment, as the browser keeps it: without the words of the server. */
type Correction = { text: string; at: number };

/** Corrections of the transcriptions that are shown, so that they can be forgotten there as well. */
const shown = new Map<string, Set<() => void>>();

/** Forgets the corrections in the views; what the browser keeps is another matter. @param id left out: of all */
export function forgetCorrections(id?: string): void {
  for (const [one, clears] of shown) if (id === undefined || one === id) for (const clear of clears) clear();
}

/** Corrections of one transcription by the segment's index. */
export type Corrections = ReturnType<typeof createCorrections>;

const keyOf = (id: string, index: number) => `${id}/${String(index).padStart(8, "0")}`;

/** Opens the corrections of a transcription. They live in this browser, and the server never sees them. */
export function createCorrections(id: string) {
  const all = signal<ReadonlyMap<number, Correction>>(new Map());
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

  const clear = () => {
    all.value = new Map();
    past.length = 0;
  };
  const clears = shown.get(id) ?? new Set();
  shown.set(id, clears.add(clear));

  return {
    all,
    async load() {
      const found = await keptUnder<Correction>("corrections", `${id}/`).catch(() => new Map());
      const loaded = new Map<number, Correction>();
      for (const [key, value] of found) {
        const index = Number(key.slice(id.length + 1));
        const { text, at } = value;
        loaded.set(index, { text, at });
        // Earlier versions of the page kept the words of the server, too.
        if ("original" in value) void keep("corrections", key, { text, at }).catch(() => undefined);
      }
      all.value = loaded;
    },
    /** Is called when the transcription is not shown any more. */
    close(): void {
      clears.delete(clear);
      if (clears.size === 0) shown.delete(id);
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
