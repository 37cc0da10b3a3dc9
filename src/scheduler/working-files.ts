import { mkdirSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { pathOfId } from "../lib/ids.ts";

/** Manages the folders of decoded audio, one for each unfinished transcription. */
export type WorkingFiles = {
  /** Returns the folder of a transcription, which need not exist. */
  pathOf(transcriptionId: string): string;
  /** Removes a transcription's decoded audio. */
  remove(transcriptionId: string): void;
  /** Creates the parent folder, and removes all folders of other transcriptions than these. */
  keepOnly(transcriptionIds: ReadonlySet<string>): void;
};

export function createWorkingFiles(dataDir: string): WorkingFiles {
  const root = join(dataDir, "work");
  const pathOf = (id: string) => pathOfId(root, "transcription", id);
  return {
    pathOf,
    remove: (id) => rmSync(pathOf(id), { recursive: true, force: true }),
    keepOnly(ids) {
      mkdirSync(root, { recursive: true, mode: 0o700 });
      for (const name of readdirSync(root)) {
        if (!ids.has(name)) rmSync(join(root, name), { recursive: true, force: true });
      }
    },
  };
}
