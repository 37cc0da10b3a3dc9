import { describe, expect, test } from "bun:test";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { FAMILIES } from "../../families/families.ts";
import { floatingExpectations } from "./floating-expectations.ts";
import { readImportTable } from "./import-table.ts";

/** Checks style as far as a program can: imports, dead files and exports, forgotten markers, long functions. */

const ROOT = resolve(import.meta.dir, "../../..");
const SRC = join(ROOT, "src");

const TABLE = readImportTable(readFileSync(join(SRC, "README.md"), "utf8"));

/** Files that are started by their paths, as programs. */
const ENTRIES = ["main.ts", "console/main.tsx"];

function sourceFiles(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((name) => /\.tsx?$/.test(name))
    .map((name) => join(folder, name));
}

const isTest = (path: string) => path.endsWith(".test.ts");
const inTesting = (path: string) =>
  relative(SRC, path).startsWith("testing/") || relative(SRC, path).startsWith("e2e/");

type Import = { from: string; to: string };

/** Lists the relative imports of a file, `import type` and dynamic imports included. */
function importsOf(path: string): Import[] {
  const source = readFileSync(path, "utf8");
  const found = source.matchAll(/(?:from\s+|import\s*\(\s*|import\s+)"(\.{1,2}\/[^"]+)"/g);
  return [...found].map(([, target]) => ({ from: path, to: resolve(dirname(path), target ?? "") }));
}

/** Lists all files that are loaded together with a file. Type imports and dynamic imports load nothing. */
function loadedBy(entry: string): string[] {
  const loaded = new Set([join(SRC, entry)]);
  for (const path of loaded) {
    const source = readFileSync(path, "utf8");
    for (const [, what = "", target = ""] of source.matchAll(
      /^(?:import|export)\s+([^;]*?from\s+)?"(\.{1,2}\/[^"]+\.tsx?)"/gm,
    )) {
      if (!what.startsWith("type ")) loaded.add(resolve(dirname(path), target));
    }
  }
  return [...loaded].map((path) => relative(SRC, path));
}

const files = sourceFiles(SRC);
const imports = files.flatMap(importsOf);

/** The place of the table that a file belongs to: its folder, or the file itself where it lies in src. */
const placeOf = (path: string): string => relative(SRC, path).split("/")[0] ?? "";

function isAllowed({ from, to }: Import): boolean {
  const target = relative(SRC, to);
  if (placeOf(to) === placeOf(from) || target.startsWith("..")) return true;
  const row = TABLE.find(({ place }) => place === placeOf(from));
  return row?.mayImport.some((each) => each === placeOf(to) || `${each}.ts` === target) ?? false;
}

describe("tidy", () => {
  test("every file of src has a row of the import table, and each row imports only what stands above it", () => {
    const places = TABLE.map(({ place }) => place);
    const product = files.filter((path) => !inTesting(path) && !path.endsWith(".d.ts")).map(placeOf);
    expect([...new Set(product)].sort()).toEqual([...places].sort());
    const upwards = TABLE.flatMap(({ place, mayImport }, index) =>
      mayImport
        .filter((each) => !places.slice(0, index).includes(each.split("/")[0] ?? ""))
        .map((each) => `${place} → ${each}`),
    );
    expect(upwards).toEqual([]);
  });

  test("every import is in the import table, and all that the table allows is used", () => {
    const used = new Set(
      imports
        .filter(({ from }) => !isTest(from) && !inTesting(from))
        .flatMap(({ from, to }) =>
          [placeOf(to), relative(SRC, to).slice(0, -3)].map((each) => `${placeOf(from)} → ${each}`),
        ),
    );
    const unused = TABLE.flatMap(({ place, mayImport }) => mayImport.map((each) => `${place} → ${each}`));
    expect(unused.filter((each) => !used.has(each))).toEqual([]);
    const refused = imports
      .filter(({ from }) => !isTest(from) && !inTesting(from))
      .filter((edge) => !isAllowed(edge))
      .map(({ from, to }) => `${relative(SRC, from)} → ${relative(SRC, to)}`);
    expect(refused).toEqual([]);
  });

  test("inside a folder of src, no folders and files import each other in a circle", () => {
    const circles = [...new Set(files.filter((path) => !inTesting(path)).map(placeOf))].flatMap((place) => {
      // A folder in a folder counts as one, whatever lies deeper; a file beside it counts by itself.
      const nodeOf = (path: string) => relative(join(SRC, place), path).split("/")[0] ?? "";
      const inside = imports
        .filter(({ from, to }) => placeOf(from) === place && placeOf(to) === place && !isTest(from))
        .map(({ from, to }) => [nodeOf(from), nodeOf(to)] as const);
      return circlesOf(inside).map((circle) => `${place}: ${circle.join(", ")}`);
    });
    expect(circles).toEqual([]);
    expect(circlesOf([...pairs("a b c d b"), ...pairs("d e")])).toEqual([["b", "c", "d"]]);
  });

  test("the console loads nothing of the program but what renders a result, and words with times", () => {
    const loaded = loadedBy("console/main.tsx");
    expect(loaded.filter((path) => !path.startsWith("console/")).sort()).toEqual([
      "domain/subtitles.ts",
      ...[
        "lib/in-slices.ts",
        "lib/subtitle-text.ts",
        "lib/text-pieces.ts",
        "lib/time.ts",
        "lib/word-spans.ts",
      ],
      ...["pipeline/ctm.ts", "pipeline/cues.ts", "pipeline/divide-text.ts", "pipeline/joined-text.ts"],
      ...["pipeline/render.ts", "pipeline/sentence-ends.ts", "pipeline/subtitle-lines.ts"],
      ...["pipeline/subtitle-words.ts", "pipeline/subtitles.ts", "pipeline/timed-words.ts"],
      ...["pipeline/word-alignment.ts"],
    ]);
    expect(loaded).toContain("console/session.ts");
  });

  test("a command that transcribes files loads nothing of the server", () => {
    const loaded = loadedBy("programs/local.ts");
    expect(loaded).toContain("recognition/recognize.ts");
    expect(loaded.filter((path) => /^(http|server)\//.test(path))).toEqual([]);
    expect(loadedBy("server/app.ts")).toContain("http/server.ts");
    // The command line itself loads little: each command imports its modules when it runs. The JSON of rows is a leaf.
    expect(loadedBy("cli/program.ts").filter((path) => /^(http|scheduler|recognition)\//.test(path))).toEqual(
      ["http/console/views.ts"],
    );
  });

  test("only a server with a fleet loads the fleet's code", () => {
    for (const entry of ["server/app.ts", "cli/program.ts", "programs/local.ts"]) {
      expect(loadedBy(entry).filter((path) => path.startsWith("fleet/"))).toEqual([]);
    }
    expect(loadedBy("fleet/control/open-fleet.ts")).toContain("fleet/link.ts");
  });

  test("only the two halves of the whisper family know its settings", () => {
    const knowing = imports
      .filter(({ from, to }) => !isTest(from) && relative(SRC, to) === "families/whisper/settings.ts")
      .map(({ from }) => relative(SRC, from));
    expect(knowing.sort()).toEqual([
      "engine/whisper/whisper-model.ts",
      "engine/whisper/whisper-recognizer.ts",
      "families/whisper/family.ts",
    ]);
  });

  test("only a family knows its own name", () => {
    const names = FAMILIES.list.flatMap(({ name, engine }) => [name, engine]);
    const literal = new RegExp(`(["'\`])(?:${names.join("|")})\\1`);
    const knowing = files
      .filter((path) => !isTest(path) && !inTesting(path))
      .filter((path) => literal.test(readFileSync(path, "utf8")))
      .map((path) => relative(SRC, path))
      .filter((path) => !/^(families|engine)\/(whisper|ctc|tdt)\//.test(path));
    expect(knowing.sort()).toEqual([
      // The type of checkpoints of transformers, and the folder of a build.
      "model-import/whisper-config.ts",
      "native/build/whisper.ts",
    ]);
    const registering = imports
      .filter(({ from }) => !isTest(from) && !inTesting(from))
      .filter(({ to }) => /^families\/\w+\/family\.ts$/.test(relative(SRC, to)))
      .map(({ from }) => relative(SRC, from));
    expect([...new Set(registering)]).toEqual(["families/families.ts"]);
  });

  test("only services and the checkpoint move a transcription to another state", () => {
    const moving = files
      .filter((path) => !isTest(path) && !inTesting(path))
      .filter((path) => /\bmoveTranscription\(/.test(readFileSync(path, "utf8")))
      .map((path) => relative(SRC, path))
      .filter((path) => !path.startsWith("services/"));
    expect(moving.sort()).toEqual(["scheduler/row-checkpoint.ts", "store/transcriptions.ts"]);
  });

  test("no product file imports tests or their tools", () => {
    const refused = imports
      .filter(({ from }) => !isTest(from) && !inTesting(from))
      .filter(({ to }) => isTest(to) || inTesting(to))
      .map(({ from, to }) => `${relative(SRC, from)} → ${relative(SRC, to)}`);
    expect(refused).toEqual([]);
  });

  test("every import names a file that exists, and only the loaders load native code", () => {
    expect(
      imports
        .filter(({ to }) => !existsSync(to) && !to.includes("${"))
        .map(({ from, to }) => `${from} → ${to}`),
    ).toEqual([]);
    const loaders = files
      .filter((path) => !isTest(path) && !inTesting(path))
      .filter((path) => /process\.dlopen\(|\bdlopen\(nativeFiles\./.test(readFileSync(path, "utf8")))
      .map((path) => relative(SRC, path));
    expect(loaders.sort()).toEqual([
      "native/onnx/onnx-addon.ts",
      "native/silero/silero.ts",
      "native/whisper/whisper-addon.ts",
    ]);
  });

  test("every file is used", () => {
    const used = new Set(imports.map(({ to }) => to));
    for (const script of sourceFiles(join(ROOT, "scripts")))
      for (const { to } of importsOf(script)) used.add(to);
    const everything = files.map((path) => readFileSync(path, "utf8")).join("\n");
    const dead = files
      .filter((path) => !isTest(path) && !path.endsWith(".d.ts") && !used.has(path))
      .map((path) => relative(SRC, path))
      .filter((path) => !ENTRIES.includes(path))
      // Tests name the programs that they start.
      .filter((path) => !everything.includes(`/${path.split("/").at(-1)}`));
    expect(dead).toEqual([]);
  });

  test("no file has a forgotten marker, a path of this machine, or a test that is skipped or runs alone", () => {
    const marker = new RegExp(
      ["TO" + "DO", "FIX" + "ME", "XX" + "X", "\\btest\\.only\\b", "\\bdescribe\\.only\\b"].join("|"),
    );
    const place = new RegExp(["/wo" + "rk/", "/ro" + "ot/"].join("|"));
    const found = [...files, ...sourceFiles(join(ROOT, "scripts"))].flatMap((path) =>
      readFileSync(path, "utf8")
        .split("\n")
        .map((line, index) => ({ line, at: `${relative(ROOT, path)}:${index + 1}` }))
        .filter(({ line }) => marker.test(line) || place.test(line))
        .map(({ at, line }) => `${at} ${line.trim()}`),
    );
    expect(found).toEqual([]);
  });

  test("only lib/abort.ts listens to signals that abort", () => {
    const found = files
      .filter((path) => !isTest(path) && !inTesting(path))
      .filter((path) => /addEventListener\("abort"/.test(readFileSync(path, "utf8")))
      .map((path) => relative(SRC, path));
    expect(found.sort()).toEqual(["lib/abort.ts"]);
  });

  test("transactions are synchronous functions", () => {
    const found = files.filter(
      (path) => !isTest(path) && /transaction\([^)]*async/i.test(readFileSync(path, "utf8")),
    );
    expect(found.map((path) => relative(SRC, path))).toEqual([]);
  });

  test("no function of the product is longer than 70 lines, and no factory longer than 120", () => {
    const isFactory = (name: string) => /^(create|open|define|start)[A-Z]/.test(name);
    const long = files
      .filter((path) => !isTest(path) && !inTesting(path))
      .flatMap(functionsOf)
      .filter(({ name, lines }) => lines > (isFactory(name) ? MAX_FACTORY_LINES : MAX_LINES));
    expect(long.map(({ path, name, lines }) => `${path} ${name}: ${lines} lines`)).toEqual([]);
  });

  test("every exported name is used by the product, its scripts or its own file", () => {
    const product = files.filter((path) => !isTest(path) && !inTesting(path) && !path.endsWith(".d.ts"));
    const users = [...product, ...sourceFiles(join(ROOT, "scripts"))];
    const wordsOf = new Map(users.map((path) => [path, countWords(readFileSync(path, "utf8"))]));
    const unused = product.flatMap((path) =>
      exportedNames(readFileSync(path, "utf8"))
        .filter((name) => wordsOf.get(path)?.get(name) === 1 && !UNUSED_EXPORTS.includes(name))
        .filter((name) => !users.some((user) => user !== path && wordsOf.get(user)?.has(name)))
        .map((name) => `${relative(SRC, path)} ${name}`),
    );
    expect(unused).toEqual([]);
  });

  test("every assertion on a promise is awaited", () => {
    const found = [...files, ...sourceFiles(join(ROOT, "scripts"))].flatMap((path) =>
      floatingExpectations(readFileSync(path, "utf8")).map((line) => `${relative(ROOT, path)}:${line}`),
    );
    expect(found).toEqual([]);
  });
});

const MAX_LINES = 70;
const MAX_FACTORY_LINES = 120;

/** Exports that only tests need. */
const UNUSED_EXPORTS: readonly string[] = [
  // A test of the executable reads its parts with it.
  "elfFilesIn",
  // The documents are compared with it.
  "MANIFEST_KEYS",
  // Tests read the output of `shruti transcribe` with it.
  "ResultBody",
];

type FunctionLength = { path: string; name: string; lines: number };

/** Returns the top-level functions with their first and last lines. The formatter puts both at the margin. */
function functionsOf(path: string): FunctionLength[] {
  const lines = readFileSync(path, "utf8").split("\n");
  const found: FunctionLength[] = [];
  for (const [index, line] of lines.entries()) {
    const name = /^(?:export )?(?:async )?function\*? (\w+)/.exec(line)?.[1];
    if (name === undefined) continue;
    found.push({ path: relative(SRC, path), name, lines: lines.slice(index).indexOf("}") + 1 });
  }
  return found;
}

const pairs = (words: string) =>
  words
    .split(" ")
    .flatMap((word, index, all) => (index === 0 ? [] : [[all[index - 1] ?? "", word] as const]));

/** Groups of names that reach each other, in alphabetical order. @param arrows from one name to another */
function circlesOf(arrows: readonly (readonly [from: string, to: string])[]): string[][] {
  const next = Map.groupBy(arrows, ([from]) => from);
  const reached = (start: string): Set<string> => {
    const found = new Set<string>();
    const open = [start];
    for (const name of open) {
      for (const [, to] of next.get(name) ?? []) {
        if (found.has(to)) continue;
        found.add(to);
        open.push(to);
      }
    }
    return found;
  };
  const from = new Map([...next.keys()].sort().map((name) => [name, reached(name)] as const));
  const circles = [...from.keys()].map((name) =>
    [...from.keys()].filter((other) => from.get(name)?.has(other) && from.get(other)?.has(name)),
  );
  const long = circles.filter((circle) => circle.length > 1).map((circle) => circle.join("\n"));
  return [...new Set(long)].map((circle) => circle.split("\n"));
}

function exportedNames(source: string): string[] {
  const found = source.matchAll(/^export (?:async )?(?:const|function\*?|type|class|let) (\w+)/gm);
  return [...found].map(([, name = ""]) => name);
}

function countWords(source: string): Map<string, number> {
  const counts = new Map<string, number>();
  for (const [word] of source.matchAll(/\w+/g)) counts.set(word, (counts.get(word) ?? 0) + 1);
  return counts;
}
