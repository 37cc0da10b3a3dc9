import { signal } from "@preact/signals";
import { forget, keep, keptUnder } from "../lib/kept.ts";

/** A corrected segment, as the browser keeps it. */
type Correction = { text: string; original: string; at: number };

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
    put(index, text === original ? undefined : { text, original, at: Date.now() });
    return { index, before };
  };

  return {
    all,
    async load() {
      const found = await keptUnder<Correction>("corrections", `${id}/`).catch(() => new Map());
      all.value = new Map([...found].map(([key, value]) => [Number(key.slice(id.length + 1)), value]));
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
