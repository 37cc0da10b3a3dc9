import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import {
  chmodSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Spec, Validation } from "@cyclonedx/cyclonedx-library";
import parseExpression from "spdx-expression-parse";
import { loadConfig } from "../../src/config/load.ts";
import type { PartList } from "../../src/executable/parts.ts";
import { sha256Hex } from "../../src/lib/sha256.ts";
import { buildFacts } from "../../src/testing/kits/release-facts.ts";
import { bunParts } from "./bun-parts.ts";
import { renderExampleConfig } from "./bundle.ts";
import { demoModel, nativeParts } from "./native-parts.ts";
import { npmPart, npmParts, packageFolder } from "./npm-parts.ts";
import { assemble } from "./parts.ts";
import { renderSbom } from "./sbom.ts";
import { packFolder } from "./tarball.ts";

/** The pieces of a release; src/e2e/release-bundle.test.ts makes a whole one. */

const ROOT = join(import.meta.dirname, "../..");
const folder = mkdtempSync(join(tmpdir(), "shruti-release-"));
afterAll(() => rmSync(folder, { recursive: true }));

const BUILD = buildFacts();

describe("parts", () => {
  let list: PartList;

  beforeAll(async () => {
    const entries = [join(ROOT, "src/main.ts"), join(ROOT, "src/store/file-hash-worker.ts")];
    const native = nativeParts(join(ROOT, "build/native"), BUILD);
    list = assemble(BUILD, [...native, demoModel(), ...(await npmParts(entries, []))]);
  }, 60_000);

  test("every part has a version, an SPDX licence, a source and a licence text", () => {
    for (const { name, version, licence, source, texts } of list.parts) {
      expect({ name, version: version !== "", source: source !== "" }).toEqual({
        name,
        version: true,
        source: true,
      });
      expect(() => parseExpression(licence)).not.toThrow();
      expect({
        name,
        texts: texts.map((key) => (list.texts[key] ?? "").length > 100 || name === "Shruti demonstration"),
      }).toEqual({
        name,
        texts: texts.map(() => true),
      });
      expect(texts.length).toBeGreaterThan(0);
    }
  });

  test("they are what the bundler takes, and what is known to be linked into the native files", () => {
    const names = list.parts.map(({ name }) => name);
    expect(names).toContain("elysia");
    expect(names).toContain("FFmpeg");
    expect(names).toContain("whisper.cpp");
    expect(names).toContain("ONNX Runtime");
    // Tools of the build and of tests are not inside.
    expect(names).not.toContain("typescript");
    expect(names).not.toContain("ajv-formats-draft2019");
    const own = list.parts.filter(({ kind, within }) => kind === "npm" && within === undefined);
    expect(own.every(({ sha512 }) => /^[0-9a-f]{128}$/.test(sha512 ?? ""))).toBe(true);
  });

  test("no part is under the GPL without GCC's exception, and nothing of eSpeak NG is inside", () => {
    const isGpl = (licence: string) =>
      /(?<!L)GPL-/.test(licence.replaceAll(/GPL-[\w.-]+ WITH GCC-exception-3\.1/g, ""));
    expect(isGpl("MIT AND GPL-3.0-or-later")).toBe(true);
    expect(list.parts.filter(({ licence }) => isGpl(licence)).map(({ name }) => name)).toEqual([]);
    const native = join(ROOT, "build/native");
    const speaking = readdirSync(native).filter((name) =>
      /espeak[-_ ]ng|phonemize_eSpeak/i.test(readFileSync(join(native, name), "latin1")),
    );
    expect(speaking).toEqual([]);
  });

  test("the list does not depend on the order of finding", () => {
    const found = list.parts.map((part) => ({
      ...part,
      texts: part.texts.map((key) => list.texts[key] ?? ""),
    }));
    expect(JSON.stringify(assemble(BUILD, found.reverse()))).toBe(JSON.stringify(list));
  });

  test("the bill of materials is valid CycloneDX 1.6, and the same each time", async () => {
    const sbom = renderSbom(list, sha256Hex("executable"));
    expect(renderSbom(list, sha256Hex("executable"))).toBe(sbom);
    expect(renderSbom(list, sha256Hex("another"))).not.toBe(sbom);
    expect(await new Validation.JsonStrictValidator(Spec.Version.v1dot6).validate(sbom)).toBeNull();
    const bom = JSON.parse(sbom);
    expect(bom).toMatchObject({ bomFormat: "CycloneDX", specVersion: "1.6" });
    expect(bom.components).toHaveLength(list.parts.length);
    expect(bom.components.find(({ name }: { name: string }) => name === "FFmpeg")).toMatchObject({
      version: "9.0",
      purl: expect.stringMatching(/^pkg:generic\/ffmpeg@9\.0/),
      cpe: "cpe:2.3:a:ffmpeg:ffmpeg:9.0:*:*:*:*:*:*:*",
      licenses: [{ expression: "LGPL-2.1-or-later" }],
      hashes: [{ alg: "SHA-256", content: expect.stringMatching(/^[0-9a-f]{64}$/) }],
    });
  });

  test("every part but weights of ours has a package URL, and SQLite a name that scanners of vulnerabilities know", () => {
    const { texts, ...others } = list;
    const parts = [...list.parts, ...bunParts().map((part) => ({ ...part, texts: [] }))];
    const { components } = JSON.parse(renderSbom({ ...others, texts, parts }, sha256Hex("executable"))) as {
      components: { name: string; purl?: string; cpe?: string; version?: string }[];
    };
    const without = components.filter(({ purl }) => purl === undefined).map(({ name }) => name);
    expect(without).toEqual(without.filter((name) => /llamafile|demonstration/.test(name)));
    const sqlite = components.find(({ name }) => name === "SQLite");
    expect(sqlite).toMatchObject({
      purl: `pkg:github/sqlite/sqlite@${process.versions.sqlite}`,
      cpe: `cpe:2.3:a:sqlite:sqlite:${process.versions.sqlite}:*:*:*:*:*:*:*`,
    });
    // The version is that of Bun's commit.
    expect(components.find(({ name }) => name === "libwebp")?.purl).toBe("pkg:github/webmproject/libwebp");
  });

  test("a validator would find a mistake", async () => {
    const broken = renderSbom(list, sha256Hex("executable")).replace(
      '"bomFormat": "CycloneDX"',
      '"bomFormat": "Other"',
    );
    expect(await new Validation.JsonStrictValidator(Spec.Version.v1dot6).validate(broken)).not.toBeNull();
  });
});

/** Makes a package as npm unpacks it. */
function packageOf(name: string, files: Record<string, string>): string {
  const path = join(folder, "node_modules", name);
  mkdirSync(path, { recursive: true });
  for (const [file, text] of Object.entries(files)) writeFileSync(join(path, file), text);
  return path;
}

describe("a package", () => {
  test("without licence text is refused, and with its notice accepted", () => {
    const path = packageOf("bare", {
      "package.json": '{"name": "bare", "version": "1.0.0", "license": "MIT"}',
    });
    expect(() => npmPart(path)).toThrow("bare 1.0.0 (MIT) has no licence text");
    const { texts } = npmPart(path, { bare: "Copyright (c) 2026 Somebody" });
    expect(texts.join()).toContain("Copyright (c) 2026 Somebody\n");
    expect(texts.join()).toContain("Permission is hereby granted");
    expect(texts.join()).not.toContain("<");
  });

  test("without licence is refused", () => {
    const path = packageOf("none", {
      "package.json": '{"name": "none", "version": "1.0.0"}',
      LICENSE: "text",
    });
    expect(() => npmPart(path)).toThrow("none 1.0.0 has no licence");
  });

  test("contributes its licence and notice files alone", () => {
    const path = packageOf("@scope/full", {
      "package.json":
        '{"name": "@scope/full", "version": "2.0.0", "license": "MIT", "repository": "github:scope/full"}',
      "LICENSE-MIT.txt": "the licence",
      NOTICE: "the notice",
      "license.js": "export {}",
      "README.md": "license",
    });
    expect(npmPart(path)).toMatchObject({
      source: "https://github.com/scope/full",
      purl: "pkg:npm/%40scope/full@2.0.0",
      texts: ["the licence\n", "the notice\n"],
    });
  });

  test.each([
    ["node_modules/a/index.js", "node_modules/a"],
    ["node_modules/@a/b/dist/index.js", "node_modules/@a/b"],
    ["node_modules/a/node_modules/@b/c/index.js", "node_modules/a/node_modules/@b/c"],
    ["src/main.ts", undefined],
  ])("%s belongs to %s", (path, expected) => {
    expect(packageFolder(path)).toBe(expected);
  });
});

test("a native file that belongs to no known part is refused", () => {
  const native = join(folder, "native");
  cpSync(join(ROOT, "build/native"), native, { recursive: true });
  writeFileSync(join(native, "libunknown.so"), "");
  expect(() => nativeParts(native, BUILD)).toThrow("no part is known for these native files: libunknown.so");
});

test("a folder packed twice gives the same bytes, whatever its place, times and owner's umask", async () => {
  const archives: Buffer[] = [];
  for (const [place, mode] of [
    ["one", 0o644],
    ["two", 0o600],
  ] as const) {
    const top = join(folder, place, "top");
    const names = place === "one" ? ["b", "a", "docs/c"] : ["docs/c", "a", "b"];
    mkdirSync(join(top, "docs"), { recursive: true });
    for (const name of names) {
      writeFileSync(join(top, name), `contents of ${name}`, { mode: name === "a" ? mode | 0o111 : mode });
      utimesSync(join(top, name), place.length, names.indexOf(name));
    }
    chmodSync(join(top, "docs"), place === "one" ? 0o755 : 0o700);
    const archive = join(folder, `${place}.tar.gz`);
    await packFolder(top, archive, new Date("2026-11-22T06:00:00Z"));
    archives.push(readFileSync(archive));
  }
  expect(archives[0]?.equals(archives[1] ?? Buffer.alloc(0))).toBe(true);
});

test("the example config changes nothing, and every setting in it can be used", () => {
  const text = renderExampleConfig();
  const path = join(folder, "example.toml");
  writeFileSync(path, text);
  const defaults = loadConfig(undefined, { SHRUTI_STORAGE_DATA_DIR: join(folder, "shruti-data") });
  expect(loadConfig(path, {})).toEqual(defaults);
  const uncommented = join(folder, "uncommented.toml");
  writeFileSync(uncommented, text.replaceAll(/^#(\w+ = )/gm, "$1"));
  expect(loadConfig(uncommented, {})).toEqual(defaults);
  expect(text.match(/^#\w+ = /gm)?.length).toBeGreaterThan(40);
});

test("a release does not replace a folder with other files in it", () => {
  const output = join(folder, "home");
  mkdirSync(output);
  writeFileSync(join(output, "letters"), "kept");
  const run = Bun.spawnSync(["bun", join(ROOT, "scripts/release.ts"), "--host", "--output", output]);
  expect(run.exitCode).toBe(2);
  expect(run.stderr.toString()).toContain(`${output} holds other files`);
  expect(readFileSync(join(output, "letters"), "utf8")).toBe("kept");
});
