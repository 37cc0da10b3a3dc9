import { cpSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { readImportTable } from "../rules/import-table.ts";

/** Copies of this program in which some texts are others. They are other versions in tests of several versions at once. */

const SOURCE = join(import.meta.dirname, "../..");

/** By file, from `src/`: texts and what is in their place. */
export type Changes = Readonly<Record<string, readonly (readonly [from: RegExp, to: string])[]>>;

/** A worker of a fleet from before skills: it has none in its beats, and does not look for chunks that need one. */
export const WORKER_WITHOUT_SKILLS: Changes = {
  "fleet/worker/open-worker.ts": [
    [/\.\.\.allFlags\(\(skill\) => order\[skill\] \?\? false\),/, ""],
    [/order = given;/, "order = { drain: given.drain };"],
  ],
};

/** Returns a folder of the code and all that it may import, also through others. */
function reachedBy(place: string): Set<string> {
  const table = readImportTable(readFileSync(join(SOURCE, "README.md"), "utf8"));
  const reached = new Set([place]);
  for (const each of reached) {
    const { mayImport = [] } = table.find((row) => row.place === each) ?? {};
    for (const name of mayImport) reached.add(name.split("/")[0] ?? "");
  }
  return reached;
}

/**
 * Copies the code of a fleet, and changes it.
 *
 * @param root a folder that does not exist yet
 * @param more further files that are copied, from `src/`
 * @returns the folder in which the copy is what `src/` is here
 * @throws Error where a file does not have the text that is changed
 */
export function copyOfFleet(root: string, changes: Changes, more: readonly string[] = []): string {
  const copy = join(root, "src");
  const isCode = (path: string) => !/\.test\.ts$/.test(path);
  for (const part of [...reachedBy("fleet"), ...more]) {
    cpSync(join(SOURCE, part), join(copy, part), { recursive: true, filter: isCode });
  }
  symlinkSync(join(SOURCE, "../node_modules"), join(root, "node_modules"));
  for (const [file, texts] of Object.entries(changes)) {
    let text = readFileSync(join(copy, file), "utf8");
    for (const [from, to] of texts) {
      if (!from.test(text)) throw new Error(`${file} has no ${from}`);
      text = text.replace(from, to);
    }
    writeFileSync(join(copy, file), text);
  }
  return copy;
}
