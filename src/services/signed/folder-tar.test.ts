import { describe, expect, test } from "bun:test";
import { Header } from "tar";
import { sha256Hex } from "../../lib/sha256.ts";
import { type FolderRules, readFolderTar } from "./folder-tar.ts";

const RULES: FolderRules = { kept: ["list"], maxKeptBytes: 100 };
type Entry = [path: string, content?: string, type?: "File" | "Directory" | "SymbolicLink" | "FIFO"];

/** Writes an archive as a stranger might. */
function archive(entries: readonly Entry[]): Buffer {
  const blocks = entries.flatMap(([path, content = "", type = "File"]) => {
    const head = Buffer.alloc(512);
    const linkpath = type === "SymbolicLink" ? "/etc/passwd" : "";
    new Header({ path, size: content.length, type, linkpath, mode: 0o644, mtime: new Date(0) }).encode(head);
    return [head, Buffer.from(content.padEnd(Math.ceil(content.length / 512) * 512, "\0"))];
  });
  return Buffer.concat([...blocks, Buffer.alloc(1024)]);
}

/** Reads an archive in pieces of 512 bytes. `seen` counts the pieces that were asked for. */
function read(
  entries: readonly Entry[],
  rules = RULES,
  judge = (kept: ReadonlyMap<string, unknown>) => kept.size > 0,
) {
  const bytes = archive(entries);
  const counts = { seen: 0, all: bytes.length / 512 };
  async function* pieces() {
    for (let at = 0; at < bytes.length; at += 512) {
      counts.seen += 1;
      yield bytes.subarray(at, at + 512);
    }
  }
  return { counts, outcome: readFolderTar(pieces(), rules, judge) };
}

test("named files are kept, and all others are hashed", async () => {
  const { outcome } = read([
    ["top/", "", "Directory"],
    ["top/list", "one"],
    ["top/a/b", "two"],
  ]);
  const { kept, hashes, bytes } = await outcome;
  expect([...kept].map(([name, content]) => [name, new TextDecoder().decode(content)])).toEqual([
    ["list", "one"],
  ]);
  expect([...hashes]).toEqual([["a/b", sha256Hex(Buffer.from("two"))]]);
  expect(bytes).toBe(6);
});

test("nothing is read behind kept files that are refused", async () => {
  const judge = (kept: ReadonlyMap<string, unknown>) => {
    if (kept.size > 0) throw new Error("refused");
    return false;
  };
  const { counts, outcome } = read(
    [
      ["top/list", "x"],
      ["top/large", "y".repeat(100_000)],
    ],
    RULES,
    judge,
  );
  await expect(outcome).rejects.toThrow("refused");
  expect(counts.all).toBeGreaterThan(100);
  expect(counts.seen).toBeLessThan(5);
});

describe("an archive is refused", () => {
  const cases: [what: string, entries: Entry[], problem: string, rules?: FolderRules][] = [
    ["with two folders", [["top/a"], ["other/b"]], 'outside of the folder "top"'],
    [
      "with another folder than it must have",
      [["top/a"]],
      'outside of the folder "it"',
      { ...RULES, folder: "it" },
    ],
    ["with a step up", [["top/../a"]], "outside of the folder"],
    ["with a path from the root", [["top/a"], ["/top/b"]], "outside of the folder"],
    ["with a file instead of a folder", [["top"]], "is not a folder"],
    ["with a link", [["top/a", "", "SymbolicLink"]], "is not a regular file"],
    ["with a pipe", [["top/a", "", "FIFO"]], "is not a regular file"],
    [
      "with a name twice",
      [
        ["top/a", "1"],
        ["top/a", "2"],
      ],
      "is in it twice",
    ],
    [
      "with a kept name twice",
      [
        ["top/list", "1"],
        ["top/list", "2"],
      ],
      "is in it twice",
    ],
    ["with a kept file that is too large", [["top/list", "x".repeat(101)]], "is too large"],
    ["with a control character in a name", [["top/a\u0007"]], "has an unusable name"],
    [
      "with too many files",
      Array.from({ length: 10_001 }, (_, at): Entry => [`top/${at}`]),
      "more than 10000",
    ],
  ];
  for (const [what, entries, problem, rules] of cases) {
    test(what, async () => {
      await expect(read(entries, rules).outcome).rejects.toThrow(problem);
    });
  }
});
