/** Acts of correcting, so that they can be taken back and made again. Everything here is a value that can be kept. */

/** A corrected segment: without the words of the server. */
export type Correction = { text: string; at: number };

/** What an act has replaced in a segment; undefined: the server's own words. */
export type Replaced = { index: number; before: Correction | undefined };

/** Acts with what each replaced, the newest last: several segments where one act changed several. */
export type Acts = {
  past: readonly (readonly Replaced[])[];
  /** Acts that were taken back, which can be made again until the next act. */
  undone: readonly (readonly Replaced[])[];
};

export const NO_ACTS: Acts = { past: [], undone: [] };

/** Older acts are forgotten when all together have replaced more segments than this. */
const MOST_REPLACED = 2000;

/** Adds an act. What was taken back before cannot be made again after it. */
export function withAct({ past }: Acts, replaced: readonly Replaced[]): Acts {
  const all = [...past, replaced];
  let count = replaced.length;
  let from = all.length - 1;
  while (from > 0 && count + (all[from - 1]?.length ?? 0) <= MOST_REPLACED) {
    from -= 1;
    count += all[from]?.length ?? 0;
  }
  return { past: all.slice(from), undone: [] };
}

/**
 * Takes the newest act back, or makes the one again that was taken back last.
 *
 * @param now returns the present correction of a segment
 * @returns the acts then, and what the segments become; undefined when there is no such act
 */
export function reversed(
  { past, undone }: Acts,
  way: "undo" | "redo",
  now: (index: number) => Correction | undefined,
): { acts: Acts; become: readonly Replaced[] } | undefined {
  const become = (way === "undo" ? past : undone).at(-1);
  if (!become) return undefined;
  const reverse = become.map(({ index }) => ({ index, before: now(index) }));
  const acts =
    way === "undo"
      ? { past: past.slice(0, -1), undone: [...undone, reverse] }
      : { past: [...past, reverse], undone: undone.slice(0, -1) };
  return { acts, become };
}
