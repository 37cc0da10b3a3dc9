import { afterAll, beforeEach, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { sha256Hex } from "../../lib/sha256.ts";
import { sha256OfFile } from "../../store/file-hash.ts";
import type { LoadedRecognizer, Recognizer } from "../recognizer.ts";
import { diarizeHashed, loadVerified } from "./verified-load.ts";

const folder = mkdtempSync(join(tmpdir(), "shruti-verified-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const [weights, tokens] = [join(folder, "w.bin"), join(folder, "tokens.txt")] as const;
beforeEach(() => {
  writeFileSync(weights, "weights");
  writeFileSync(tokens, "tokens");
});

const LOADED: LoadedRecognizer = { device: "cpu", recognize: async () => ({ segments: [] }) };
const described = [
  { role: "model", path: weights, sha256: sha256Hex("weights") },
  { role: "tokens", path: tokens, sha256: sha256Hex("tokens") },
];
const CASES: [name: string, meanwhile: () => void, expected: string | LoadedRecognizer][] = [
  ["as the manifest says", () => {}, LOADED],
  [
    "whose bytes are others",
    () => writeFileSync(tokens, "Tokens"),
    `is not the file of its manifest: its SHA-256 is ${sha256Hex("Tokens")}`,
  ],
  // The recognizer has read it before it was the right one.
  [
    "that become the right ones meanwhile",
    () => {
      rmSync(tokens);
      writeFileSync(tokens, "tokens");
    },
    "changed while it was loaded",
  ],
  ["that are removed meanwhile", () => rmSync(tokens), "tokens.txt"],
];
test.each(CASES)("files %s", async (_name, meanwhile, expected) => {
  const recognizer = {
    load: async () => {
      meanwhile();
      return LOADED;
    },
  } as unknown as Recognizer;
  // The hash is that of the file after the recognizer has read it.
  const hashLater = async (path: string) => {
    await Bun.sleep(5);
    return sha256OfFile(path);
  };
  const request = { type: "load", files: {}, described, device: "cpu" } as const;
  const loading = loadVerified(recognizer, { ...request, described: [...described] }, hashLater);
  const outcome = await loading.catch((error: Error) => error.message);
  if (typeof expected === "string") expect(outcome).toContain(expected);
  else expect(outcome).toBe(expected);
});

test.each([
  ["as its manifest says", sha256Hex("weights"), undefined],
  ["with other bytes", sha256Hex("others"), "is not the file of its manifest"],
])("a draft model %s: %#", async (_name, sha256, failure) => {
  const drafts: (string | undefined)[] = [];
  const recognizer = {
    load: async (_files: unknown, _device: unknown, used?: { id: string }) => {
      drafts.push(used?.id);
      return LOADED;
    },
  } as unknown as Recognizer;
  const draft = { id: "small", sha256, files: { weights }, bytes: 7, languageCodes: ["en"] };
  const loaded = await loadVerified(
    recognizer,
    { type: "load", files: {}, device: "cpu", draft },
    sha256OfFile,
  );
  expect(drafts).toEqual([failure === undefined ? "small" : undefined]);
  if (failure === undefined) expect(loaded.draftFailure).toBeUndefined();
  else expect(loaded.draftFailure).toContain(failure);
});

test("what the recognizer says of missing files comes first, and without hashes nothing is hashed", async () => {
  const recognizer = {
    load: async () => {
      throw new Error("there are no weights");
    },
  } as unknown as Recognizer;
  rmSync(weights);
  for (const files of [described, []]) {
    const request = { type: "load", files: {}, described: files, device: "cpu" } as const;
    await expect(loadVerified(recognizer, request, sha256OfFile)).rejects.toThrow("there are no weights");
  }
});

test("the weights that distinguish speakers are hashed before, and must be those that are known", async () => {
  const speakers = { segmentationPath: weights, embeddingPath: tokens };
  const outcome = { turns: [], isCountUncertain: false };
  const hashes = { segmentation: sha256Hex("weights"), speaker: sha256Hex("tokens") };
  expect(await diarizeHashed(speakers, sha256OfFile, async () => outcome)).toEqual({
    ...outcome,
    weightHashes: hashes,
  });
  const change = async () => {
    writeFileSync(tokens, "Tokens");
    return outcome;
  };
  await expect(diarizeHashed(speakers, sha256OfFile, change)).rejects.toThrow("changed while it was loaded");
  const expected = { segmentation: hashes.segmentation };
  let hasBegun = false;
  const begin = async () => {
    hasBegun = true;
    return outcome;
  };
  // The tokens have changed above, and nothing is known of them.
  await diarizeHashed({ ...speakers, expected }, sha256OfFile, begin);
  expect(hasBegun).toBe(true);
  hasBegun = false;
  const unlike = diarizeHashed({ ...speakers, expected: hashes }, sha256OfFile, begin);
  await expect(unlike).rejects.toThrow(`the SHA-256 of ${tokens} is ${sha256Hex("Tokens")}`);
  expect(hasBegun).toBe(false);
  const fail = () => Promise.reject(new Error("no speech"));
  await expect(diarizeHashed(speakers, sha256OfFile, fail)).rejects.toThrow("no speech");
});
