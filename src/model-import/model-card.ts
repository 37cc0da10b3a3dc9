import { existsSync } from "node:fs";
import { join } from "node:path";
import { readRegularFile } from "../lib/regular-file.ts";

/** What the front matter of a folder's README.md says. It is a hint: authors copy it from one model to the next. */
export type CardHint = { licence?: string; languages: string[] };

const MAX_BYTES = 1024 * 1024;

/** Reads the hint of a folder; nothing where there is none. */
export function readCardHint(folder: string): CardHint {
  const path = join(folder, "README.md");
  if (!existsSync(path)) return { languages: [] };
  let text: string;
  try {
    text = readRegularFile(path, MAX_BYTES);
  } catch {
    return { languages: [] };
  }
  const front = /^---\r?\n([\s\S]*?)\r?\n---/.exec(text)?.[1] ?? "";
  const licence = /^license:\s*["']?([A-Za-z0-9][\w.+ -]{0,60}?)["']?\s*$/m.exec(front)?.[1];
  const listed = /^language:[ \t]*(?:\[([^\]]*)\]|([^\n]*))((?:\r?\n\s*- .*)*)/m.exec(front);
  const words =
    (listed ?? [])
      .slice(1)
      .join(" ")
      .match(/\b[a-z]{2,3}\b/g) ?? [];
  return { ...(licence === undefined ? {} : { licence }), languages: [...new Set(words)] };
}
