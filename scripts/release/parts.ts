import { existsSync, mkdirSync, renameSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import type { PartList } from "../../src/executable/parts.ts";
import { buildFacts, productLicence } from "./build-facts.ts";
import { bunParts } from "./bun-parts.ts";
import { textKey } from "./licence-texts.ts";
import { demoModel, nativeParts, speakerNets, whisperBase, whisperVocabularies } from "./native-parts.ts";
import { npmParts, type PartWithTexts } from "./npm-parts.ts";

export type PartsOptions = {
  /** The file to write; src/executable/parts.ts embeds it. */
  path: string;
  /** Folder of the native files. */
  native: string;
  /** Such as `linux-x64`. */
  platform: string;
  /** Modules that the program starts with. */
  entries: string[];
  /** Flags of the bundler that decide what it takes. */
  flags: string[];
};

/**
 * Writes the list of all parts of an executable with their licence texts, before it is bundled.
 *
 * @throws Error for a part without licence text
 */
export async function writeParts({
  path,
  native,
  platform,
  entries,
  flags,
}: PartsOptions): Promise<PartList> {
  // The program imports the list, so the bundler needs a file when it lists the packages.
  mkdirSync(dirname(path), { recursive: true });
  if (!existsSync(path)) writeFileSync(path, "");
  const build = buildFacts(native, platform);
  const found = [
    ...nativeParts(native, build),
    demoModel(),
    ...whisperBase(),
    ...speakerNets(),
    whisperVocabularies(),
    ...bunParts(),
    ...(await npmParts(entries, flags)),
  ];
  const parts = assemble(build, found);
  const unfinished = `${path}.unfinished`;
  // install.sh looks for this text in the executable, because the libraries that need glibc are compressed.
  const needs = build.glibc === null ? {} : { needs: `GLIBC_${build.glibc}` };
  writeFileSync(unfinished, `${JSON.stringify({ ...parts, ...needs }, null, 1)}\n`);
  renameSync(unfinished, path);
  return parts;
}

/** Puts equal texts together, and sorts, so that the result does not depend on the order of finding. */
export function assemble(build: PartList["build"], found: PartWithTexts[]): PartList {
  const texts = new Map<string, string>();
  const key = ({ kind, name, version }: PartWithTexts | PartList["parts"][number]) =>
    `${kind} ${name} ${version}`;
  // A package may be installed in several places. What the program itself takes goes before what a bundle may contain.
  const ordered = found.toSorted((a, b) => Number(a.within === undefined) - Number(b.within === undefined));
  const parts = [...new Map(ordered.map((part) => [key(part), part])).values()].map((part) => {
    const present = part.texts.filter((text) => text.trim() !== "");
    if (present.length === 0) throw new Error(`${part.name} ${part.version} has no licence text`);
    for (const text of present) texts.set(textKey(text), text);
    return { ...part, texts: present.map(textKey) };
  });
  return {
    build,
    licence: productLicence(),
    parts: parts.sort((a, b) => (key(a) < key(b) ? -1 : 1)),
    texts: Object.fromEntries([...texts].sort(([a], [b]) => (a < b ? -1 : 1))),
  };
}
