import { copyFileSync, existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { dirname, join, normalize, relative } from "node:path";
import { filesBelow } from "./tarball.ts";

const ROOT = join(import.meta.dirname, "../..");
/** Documents of the repository that have another place in a release. Links to them follow. */
const MOVED: Readonly<Record<string, string>> = {
  "README.md": page("OVERVIEW"),
  "scripts/release/first-page.md": page("README"),
  "src/pipeline/README.md": page("docs/transcripts"),
};
/** Sections of the repository's page whose commands need the repository. The first page takes their place. */
const OF_THE_REPOSITORY = ["From source: two commands", "A first transcript"];
const FURTHER = [...Object.keys(MOVED), "models/README.md"];

/** A link or picture: its text, the path and the part within the page. */
const LINK = /(!?)\[((?:[^\][]|\[[^\]]*\])*)\]\(([^()\s#]*)(#[^()\s]*)?\)/g;

/**
 * Writes the documents of a release: its own first page, the repository's, and those below `docs/`. A link to what a release does
 * not contain, such as source code, becomes its text.
 *
 * @param folder of the release. What the documents link to is there already, except other documents
 * @param isLeftOut names files below `docs/`, as paths from the repository's root, that the release leaves out
 */
export function layOutDocuments(folder: string, isLeftOut: (path: string) => boolean): void {
  const below = filesBelow(join(ROOT, "docs")).map((name) => join("docs", name));
  const files = [...FURTHER, ...below].filter(
    (path) => statSync(join(ROOT, path)).isFile() && !isLeftOut(path),
  );
  for (const path of files) {
    const target = join(folder, MOVED[path] ?? path);
    mkdirSync(dirname(target), { recursive: true });
    if (!path.endsWith(".md")) copyFileSync(join(ROOT, path), target);
  }
  const pages = files.filter((path) => path.endsWith(".md"));
  const isThere = (path: string) =>
    pages.some((page) => (MOVED[page] ?? page) === path) || existsSync(join(folder, path));
  for (const path of pages) {
    const text = readFileSync(join(ROOT, path), "utf8");
    const read = path === "README.md" ? withoutSections(text, OF_THE_REPOSITORY) : text;
    writeFileSync(join(folder, MOVED[path] ?? path), adaptLinks(read, path, isThere));
  }
}

/**
 * Changes the links of a page to where their targets are in a release.
 *
 * @param path of the page in the repository
 * @param isThere reports whether a release has a path
 */
function adaptLinks(text: string, path: string, isThere: (path: string) => boolean): string {
  const place = dirname(MOVED[path] ?? path);
  return text.replaceAll(LINK, (link, picture: string, words: string, to: string, within = "") => {
    if (to === "" || /^[a-z]+:/.test(to)) return link;
    const target = normalize(join(dirname(path), to));
    const moved = MOVED[target.replace(/\/$/, "")] ?? target;
    if (!isThere(moved)) return picture === "" ? words : "";
    const way = relative(place, moved) || ".";
    return `${picture}[${words === to ? way : words}](${way}${within})`;
  });
}

/** Names a page of a release. Written out, its name would look like that of a page of the repository. */
function page(name: string): string {
  return `${name}.md`;
}

/** Leaves sections out of a page: from their heading of the second level to the next one. */
function withoutSections(text: string, titles: readonly string[]): string {
  return text
    .split(/^(?=## )/m)
    .filter((section) => !titles.some((title) => section.startsWith(`## ${title}\n`)))
    .join("");
}
