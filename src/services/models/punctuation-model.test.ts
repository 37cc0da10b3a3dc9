import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { writePunctuationModel } from "../../testing/makers/punctuation-maker.ts";
import {
  deletePunctuation,
  installedPunctuation,
  placePunctuation,
  punctuationProblem,
  readPunctuationCard,
  verifyPunctuation,
} from "./punctuation-model.ts";

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "shruti-punctuation-"));
  writePunctuationModel(source());
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

const source = () => join(root, "source");
const models = () => join(root, "models");
const home = () => join(models(), "_punctuation");
const works = async () => undefined;

test("a model comes with its licence, and what has changed since is found", async () => {
  const card = await placePunctuation(models(), source(), works, { licence: "Apache-2.0", source: "made" });
  expect(card).toMatchObject({ licence: "Apache-2.0", source: "made", licenceFiles: ["LICENSE"] });
  const model = installedPunctuation(models());
  expect(model?.languages).toContain("hi");
  expect(readdirSync(join(home(), card.folder)).sort()).toEqual([
    "LICENSE",
    "config.yaml",
    "model.onnx",
    "sp.model",
  ]);
  expect(readFileSync(join(home(), card.folder, "LICENSE"), "utf8")).toContain("licence for tests");
  expect(await verifyPunctuation(models())).toEqual({ sha256: card.sha256.model, problems: [] });
  expect(punctuationProblem(models())).toBeUndefined();
  truncateSync(model?.modelPath ?? "", 100);
  expect(punctuationProblem(models())).toMatch(/100 bytes/);
  expect((await verifyPunctuation(models()))?.problems).toEqual([expect.stringContaining(card.sha256.model)]);
  rmSync(model?.modelPath ?? "");
  expect(punctuationProblem(models())).toMatch(/has no model.onnx/);
  const { problems = [] } = (await verifyPunctuation(models())) ?? {};
  expect(problems).toEqual([expect.stringContaining("model.onnx")]);
});

test("a new model takes the place of the old one, and also of one that a killed command has left", async () => {
  const first = await placePunctuation(models(), source(), works);
  mkdirSync(join(home(), "0123456789ab-01234567"));
  const second = await placePunctuation(models(), source(), works);
  expect(second.folder).not.toBe(first.folder);
  expect(readdirSync(home()).sort()).toEqual([second.folder, "card.json"].sort());
  expect(await deletePunctuation(models())).toBe(true);
  expect(readdirSync(home())).toEqual([]);
  expect(await deletePunctuation(models())).toBe(false);
  expect([installedPunctuation(models()), await verifyPunctuation(models())]).toEqual([undefined, undefined]);
});

describe("a refused model leaves the old one in place", () => {
  test.each<[string, () => void, Parameters<typeof placePunctuation>[2], string | undefined, RegExp]>([
    ["another SHA-256", () => {}, works, "0".repeat(64), /SHA-256 of the net is/],
    ["another layout", () => rmSync(join(source(), "config.yaml")), works, undefined, /no config.yaml/],
    ["a failed trial", () => {}, () => Promise.reject(new Error("it crashed")), undefined, /it crashed/],
  ])("because of %s", async (_, change, tryOut, sha256, reason) => {
    const { folder } = await placePunctuation(models(), source(), works);
    change();
    const placed = placePunctuation(models(), source(), tryOut, sha256 === undefined ? {} : { sha256 });
    await expect(placed).rejects.toThrow(reason);
    expect(readPunctuationCard(models())?.folder).toBe(folder);
    expect(readdirSync(home()).sort()).toEqual([folder, "card.json"].sort());
  });
});

test.each(["", "{", "{}", '{"folder":"../..","sha256":{}}'])(
  "a damaged card counts as no model, and is named: %s",
  async (text) => {
    await placePunctuation(models(), source(), works);
    expect(punctuationProblem(models())).toBeUndefined();
    writeFileSync(join(home(), "card.json"), text);
    expect(installedPunctuation(models())).toBeUndefined();
    expect(punctuationProblem(models())).toMatch(/card.json is damaged/);
    const verified = await verifyPunctuation(models());
    expect(verified).toEqual({ sha256: "", problems: [expect.stringMatching(/card.json is damaged/)] });
    await placePunctuation(models(), source(), works);
    expect(existsSync(installedPunctuation(models())?.modelPath ?? "")).toBe(true);
    expect(punctuationProblem(models())).toBeUndefined();
    writeFileSync(join(home(), "card.json"), text);
    expect(await deletePunctuation(models())).toBe(true);
    expect(readdirSync(home())).toEqual([]);
  },
);
