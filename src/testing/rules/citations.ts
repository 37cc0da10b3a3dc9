import { existsSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { ROOT, readDocument, sectionsOf } from "./documents.ts";

const NUMBER = String.raw`\d+(?:\.\d+)*`;
const LIST = `${NUMBER}(?:(?:, | and | to )${NUMBER})*`;
/**
 * Matches `docs/interface.md section 5`, several sections (`docs/interface.md sections 2.1 to 2.3 and 4.1`), a title
 * (`docs/decisions/transcriptions.md, "Warnings"`) and a whole page (`docs/decisions/money.md`).
 */
const CITATION = new RegExp(
  String.raw`\bdocs/([\w-]+(?:/[\w-]+)*)\.md(?: sections? (${LIST}))?(?:, "([^"]+)")?`,
  "g",
);
const OWN_CITATION = new RegExp(String.raw`(?<!\.md |RFC \d+ )\bsections? (${LIST})`, "g");
const MARKDOWN_FILE = /(?<![\w/.-])((?:\.{1,2}\/)*[\w-]+(?:\/[\w-]+)*\.md)\b/g;
const LINK = /\]\(([^)\s]+)\)/g;
/** Matches a file or folder that a document names by its path from the repository's folder. */
const NAMED_PATH = /`((?:src|scripts|models|patches)\/[\w./-]*)`/g;
/** Notes that were never part of the repository. */
const FOREIGN_NOTES = /\b\w+-notes\b/g;

/**
 * Checks the citations of a file: cited documents and sections exist, and so do the targets of Markdown links.
 *
 * @param path path of the file from the repository's folder
 * @returns one line for each problem
 */
export function citationProblems(path: string, text: string): string[] {
  const plain = joined(text);
  const isMarkdown = path.endsWith(".md");
  // The tests of the documents name whole documents.
  const mayNameWhole = isMarkdown || path.startsWith("src/testing/");
  return [
    ...[...plain.matchAll(CITATION)].flatMap((found) => problemsOfCitation(found, mayNameWhole)),
    ...(isMarkdown
      ? []
      : [...plain.matchAll(FOREIGN_NOTES)].map(([name]) => `${name} is not in the repository`)),
    ...[...plain.matchAll(MARKDOWN_FILE)].flatMap(([, name = ""]) =>
      existsSync(join(ROOT, name)) ||
      ((isMarkdown || name.startsWith("../")) && existsSync(join(ROOT, dirname(path), name)))
        ? []
        : [`there is no ${name}`],
    ),
    ...(isMarkdown ? [...text.matchAll(LINK)].flatMap(([, to = ""]) => problemsOfLink(path, to)) : []),
    ...(isMarkdown
      ? [...plain.matchAll(NAMED_PATH)].flatMap(([, name = ""]) => problemsOfPath(path, name))
      : []),
    ...(path.startsWith("docs/") ? problemsOfOwn(path, plain) : []),
  ].map((problem) => `${path}: ${problem}`);
}

/** Joins each comment of several lines to one line. */
function joined(text: string): string {
  return text.replaceAll(/\n[ \t]*(?:\*(?!\/)|\/\/|#)?[ \t]*/g, " ");
}

/** Lists the cited sections: `2.1 to 2.3 and 4` gives 2.1, 2.3 and 4, because both ends of a range must exist. */
function numbersIn(list: string): string[] {
  return list.split(/, | and | to /);
}

function problemsOfCitation(
  [cited, document, list, title]: RegExpExecArray,
  mayNameWhole: boolean,
): string[] {
  const path = `docs/${document}.md`;
  if (!existsSync(join(ROOT, path))) return [`there is no ${path}`];
  const sections = sectionsOf(readDocument(path));
  // A page about one subject has no numbers, and may be cited whole.
  const isNumbered = sections.some(({ number }) => number !== "");
  if (list === undefined && isNumbered && !mayNameWhole) return [`${cited} names no section`];
  const isMissing = (number: string) => sections.every((section) => section.number !== number);
  return [
    ...numbersIn(list ?? "")
      .filter((number) => number !== "" && isMissing(number))
      .map((number) => `${path} has no section ${number}`),
    ...(title === undefined ||
    sections.some((section) => section.title.replaceAll("`", "") === title.replaceAll("`", ""))
      ? []
      : [`${path} has no section "${title}"`]),
  ];
}

/** Returns the numbers of a document's sections. */
function problemsOfOwn(path: string, plain: string): string[] {
  const numbers = new Set(sectionsOf(readDocument(path)).map(({ number }) => number));
  return [...plain.matchAll(OWN_CITATION)]
    .flatMap(([, list = ""]) => numbersIn(list))
    .filter((number) => !numbers.has(number))
    .map((number) => `it has no section ${number}`);
}

function problemsOfPath(path: string, name: string): string[] {
  const isThere = existsSync(join(ROOT, name)) || existsSync(join(ROOT, dirname(path), name));
  return isThere ? [] : [`there is no ${name}`];
}

function problemsOfLink(path: string, to: string): string[] {
  if (/^[a-z]+:/.test(to)) return [];
  const [file = "", anchor] = to.split("#");
  const target = file === "" ? path : relative(ROOT, join(ROOT, dirname(path), file));
  if (!existsSync(join(ROOT, target))) return [`the link ${to} leads nowhere`];
  if (anchor === undefined) return [];
  const anchors = sectionsOf(readDocument(target)).map(({ number, title }) =>
    `${number} ${title}`
      .trim()
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N} -]/gu, "")
      .replaceAll(" ", "-"),
  );
  return anchors.includes(anchor) ? [] : [`${target} has no heading for #${anchor}`];
}
