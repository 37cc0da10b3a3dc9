import { afterAll, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Config } from "../../config/schema.ts";
import type { InstalledModel } from "../../domain/model.ts";
import { FAMILIES } from "../../families/families.ts";
import { testConfig } from "../../testing/kits/test-config.ts";
import { createDraftAttachment, describeDraftUse, draftUse } from "./draft-model.ts";

const folder = mkdtempSync(join(tmpdir(), "shruti-draft-model-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

type Shape = { vocab?: number; width: number; layers: number };

/** A Whisper model of which only the head is there. */
function whisper(id: string, { vocab = 51865, width, layers }: Shape, codes = ["en", "hi"]): InstalledModel {
  const heads = width / 64;
  const weights = join(folder, `${id}.bin`);
  const sizes = [vocab, 1500, width, heads, layers, 448, width, heads, layers, 80, 1];
  writeFileSync(weights, new Uint8Array(Uint32Array.from([0x67676d6c, ...sizes]).buffer));
  return {
    ...{ id, name: id, version: "1", family: "whisper", sha256: id, licence: "MIT", source: "here" },
    languages: codes.map((code) => ({ code, name: code, modes: ["native" as const] })),
    ...{ decoding: {}, files: { weights }, bytes: width, embedded: false },
  };
}

const tiny = whisper("tiny", { width: 384, layers: 4 }, ["en"]);
const medium = whisper("medium", { width: 1024, layers: 24 });
const large = whisper("large-v3", { vocab: 51866, width: 1280, layers: 32 });
const english = whisper("base.en", { vocab: 51864, width: 512, layers: 6 });
const conformer: InstalledModel = { ...medium, id: "indic", family: "indic_ctc" };
const broken: InstalledModel = { ...medium, id: "broken", files: { weights: join(folder, "none") } };

const depsOf = (draft_model: string, engine: Partial<Config["engine"]> = {}) => ({
  config: testConfig({ engine: { draft_model, ...engine } }),
  families: FAMILIES,
});

function useOf(
  id: string,
  models: InstalledModel[],
  { engine = {}, routes = {} }: { engine?: Partial<Config["engine"]>; routes?: Record<string, string> } = {},
) {
  return draftUse(depsOf(id, engine), models, models, () => routes);
}

test("without the setting nothing drafts, and the models are the same objects", () => {
  const models = [tiny, medium];
  expect(useOf("", models)).toBeUndefined();
  expect(createDraftAttachment(depsOf(""))(models, models)).toBe(models);
});

test("models for which it can draft name it, with the codes of its languages, and are the same objects again", () => {
  const models = [tiny, medium, large];
  const attach = createDraftAttachment(depsOf("tiny"));
  const attached = attach(models, models);
  expect(attached.map(({ draft }) => draft?.id)).toEqual([undefined, "tiny", undefined]);
  expect(attached[1]?.draft).toEqual({
    ...{ id: "tiny", sha256: "tiny", files: tiny.files, bytes: 384, languageCodes: ["en", "en"] },
  });
  expect(attach(models, models)).toBe(attached);
});

describe("what keeps a draft model from being of use is a sentence", () => {
  const cases: [string, string, InstalledModel[], Parameters<typeof useOf>[2], string[]][] = [
    ["nothing", "tiny", [tiny, medium], {}, []],
    [
      "an unknown id",
      "tinny",
      [tiny, medium],
      {},
      ["there is no model tinny to draft; there are tiny, medium"],
    ],
    [
      "no other model",
      "tiny",
      [tiny],
      {},
      ["the model tiny drafts for none: it is the only model, and none drafts for itself"],
    ],
    [
      "other tokens, also those of English models",
      "tiny",
      [tiny, large, english],
      {},
      [
        "the model tiny drafts for none of the others: large-v3: it has 51865 tokens, and not 51866; base.en: it has 51865 tokens, and not 51864",
      ],
    ],
    [
      "another family",
      "tiny",
      [tiny, conformer],
      {},
      ["the model tiny drafts for none of the others: indic: it is of the family indic_ctc, and not whisper"],
    ],
    [
      "a family without drafts",
      "indic",
      [conformer, { ...conformer, id: "other" }],
      {},
      [
        "the model indic drafts for none of the others: other: models of the family IndicConformer have no drafts",
      ],
    ],
    [
      "a larger file",
      "medium",
      [tiny, medium],
      {},
      ["the model medium drafts for none of the others: tiny: its file is not smaller"],
    ],
    [
      "a file that cannot be read",
      "tiny",
      [tiny, broken],
      {},
      ["the model tiny drafts for none of the others: broken: its file cannot be read"],
    ],
    [
      "exact code",
      "tiny",
      [tiny, medium],
      { engine: { precision: "exact" } },
      ["the model tiny does not draft: engine.precision is exact"],
    ],
    [
      "steps of each chunk",
      "tiny",
      [tiny, medium],
      { engine: { shared_steps: "never" } },
      ["the model tiny does not draft: engine.shared_steps is never"],
    ],
    [
      "a routed language that it does not know",
      "tiny",
      [tiny, medium],
      { routes: { hi: "medium", en: "medium" } },
      ["the model tiny does not know hi, so medium recognizes it without a draft"],
    ],
  ];
  for (const [name, id, models, options, problems] of cases)
    test(name, () => expect(useOf(id, models, options)?.problems).toEqual(problems));
});

test("the models for which it drafts are listed, with the reasons of the others", () => {
  const use = useOf("tiny", [tiny, medium, large]);
  expect(use && describeDraftUse(use)).toBe(
    "tiny drafts for medium; not for large-v3 (it has 51865 tokens, and not 51866)",
  );
});
