import { describe, expect, test } from "bun:test";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { citationProblems } from "./citations.ts";
import { ROOT, readDocument } from "./documents.ts";

const FOLDERS = ["src", "scripts", "docs", "models"];
const TEXT = /\.(ts|md|sh|py|c|cmake|toml)$/;

function filesIn(folder: string): string[] {
  return readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" })
    .filter((name) => TEXT.test(name))
    .map((name) => join(folder, name));
}

const files = ["README.md", "install.sh", ...FOLDERS.flatMap(filesIn)].filter(
  (path) => path !== "src/testing/rules/citations.test.ts",
);

describe("citations", () => {
  test("every citation names a document and a section that exist", () => {
    expect(files.flatMap((path) => citationProblems(path, readDocument(path)))).toEqual([]);
  });

  test("the code cites its documents", () => {
    const count = files
      .filter((path) => path.endsWith(".ts"))
      .reduce(
        (sum, path) =>
          sum + (readDocument(path).match(/\bdocs\/(?:\w+\.md section|decisions\/[\w-]+\.md)/g)?.length ?? 0),
        0,
      );
    expect(count).toBeGreaterThan(80);
  });

  test.each([
    ["an unknown section", "/** docs/interface.md section 99. */", "docs/interface.md has no section 99"],
    [
      "one of several",
      "// docs/interface.md sections 2.1 to 2.9 and 4",
      "docs/interface.md has no section 2.9",
    ],
    [
      "over two lines",
      "/**\n * See docs/interface.md\n * section 98.\n */",
      "docs/interface.md has no section 98",
    ],
    [
      "an unknown title",
      '// docs/decisions/transcriptions.md, "Nothing"',
      'docs/decisions/transcriptions.md has no section "Nothing"',
    ],
    ["an unknown document", "// docs/nothing.md section 1", "there is no docs/nothing.md"],
    ["an unknown page", "// docs/decisions/nothing.md", "there is no docs/decisions/nothing.md"],
    [
      "a number of a page",
      "// docs/decisions/money.md section 1",
      "docs/decisions/money.md has no section 1",
    ],
    ["no section", "// docs/interface.md says so", "docs/interface.md names no section"],
    ["another form", "// interface.md 4.1", "there is no interface.md"],
    ["notes that are elsewhere", "// engine-notes", "engine-notes is not in the repository"],
  ])("refuses %s", (_, text, problem) => {
    expect(citationProblems("src/example.ts", text)).toContain(`src/example.ts: ${problem}`);
  });

  test.each([
    ["a link to nothing", "[x](nothing.md)", "the link nothing.md leads nowhere"],
    ["a link to no heading", "[x](glossary.md#nothing)", "docs/glossary.md has no heading for #nothing"],
    ["a file that is not there", "See `src/nothing.ts`.", "there is no src/nothing.ts"],
    ["an own section that is not there", "as in section 77", "it has no section 77"],
  ])("refuses %s in a document", (_, text, problem) => {
    expect(citationProblems("docs/interface.md", text)).toContain(`docs/interface.md: ${problem}`);
  });

  test.each([
    "/** docs/interface.md sections 2.1 to 2.3 and 4.1 to 4.7, docs/decisions/uploads.md. */",
    '// docs/decisions/transcriptions.md, "Warnings"',
    "// RFC 9110 section 5.5",
    "// The table is in src/README.md.",
  ])("accepts %s", (text) => {
    expect(citationProblems("src/example.ts", text)).toEqual([]);
  });
});
