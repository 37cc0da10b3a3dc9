import { afterAll, describe, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import type { PunctuationModel } from "../domain/model.ts";
import { EngineError, type PunctuateJob, type PunctuateOutcome } from "../engine/protocol.ts";
import type { LooseSegment } from "../pipeline/stitch.ts";
import { openRecognitionKit } from "../testing/kits/recognition-kit.ts";
import { createMemoryCheckpoint } from "./checkpoint.ts";
import { punctuate, punctuateText } from "./punctuation-run.ts";

const kit = openRecognitionKit();
afterAll(() => rmSync(kit.folder, { recursive: true, force: true }));

const HASHES = { model: "a".repeat(64), tokenizer: "b".repeat(64), config: "c".repeat(64) };
const MODEL: PunctuationModel = {
  ...{ modelPath: "/m", tokenizerPath: "/t", configPath: "/c", languages: ["hi", "en"], expected: HASHES },
};
const CTC = "nemo_ctc";

const segment = (text: string, more: Partial<LooseSegment> = {}): LooseSegment => ({
  ...{ text, language: "hi", confidence: 1, startMs: 0, endMs: 1_000 },
  ...more,
});

/** Adds punctuation to segments with an engine that writes a full stop behind the last word of each job. */
async function run(
  segments: LooseSegment[],
  more: {
    family?: string;
    model?: PunctuationModel | undefined;
    /** The model that is installed once the engine was asked. */
    modelThen?: PunctuationModel | undefined;
    engine?: (job: PunctuateJob) => Promise<PunctuateOutcome>;
  } = {},
) {
  const jobs: string[] = [];
  const { family = CTC, engine } = more;
  let model = "model" in more ? more.model : MODEL;
  const tools = kit.toolsWith(createMemoryCheckpoint(), {
    punctuation: () => model,
    engine: {
      ...kit.engine,
      async punctuate(job: PunctuateJob) {
        jobs.push(job.words.join(" "));
        if ("modelThen" in more) model = more.modelThen;
        if (engine) return engine(job);
        return { marks: job.words.map((_, index) => (index === job.words.length - 1 ? { after: "." } : {})) };
      },
    },
  });
  const outcome = await punctuate(tools, family, segments, new AbortController().signal);
  return { ...outcome, texts: outcome.segments.map(({ text }) => text), jobs };
}

describe("the words of one speaker are one text", () => {
  test("of several segments", async () => {
    const { texts, jobs, punctuation, warnings } = await run([segment("यह  घर"), segment("बड़ा है")]);
    expect([texts, jobs]).toEqual([["यह  घर", "बड़ा है।"], ["यह घर बड़ा है"]]);
    expect([punctuation, warnings]).toEqual([HASHES, []]);
  });

  test("and another speaker, channel or language begins another", async () => {
    const { jobs } = await run([
      segment("एक", { speaker: "speaker_1" }),
      segment("दो", { speaker: "speaker_1" }),
      segment("तीन", { speaker: "speaker_2" }),
      segment("चार", { channel: 1 }),
      segment("पाँच", { speaker: "speaker_2" }),
      segment("six", { language: "en", channel: 1 }),
    ]);
    expect(jobs).toEqual(["एक दो", "तीन पाँच", "चार", "six"]);
  });

  test("and words keep their times", async () => {
    const words = [
      { text: "यह", startMs: 0, endMs: 400, confidence: 0.9 },
      { text: "है", startMs: 500, endMs: 900, confidence: 0.8 },
    ];
    const { segments } = await run([segment("यह है", { words })]);
    expect(segments[0]?.words).toEqual([words[0], { ...words[1], text: "है।" }] as never);
  });

  test("and a long one is asked for in parts that know the words around them", async () => {
    const many = Array.from({ length: 4_500 }, (_, index) => `w${index}`);
    const { jobs, texts } = await run([segment(many.join(" "))], {
      engine: async ({ words }) => ({
        marks: words.map((word) => (word.endsWith("999") ? { after: "," } : {})),
      }),
    });
    expect(jobs.map((job) => job.split(" ").length)).toEqual([2_024, 2_048, 524]);
    expect(texts[0]).toBe(many.map((word) => (word.endsWith("999") ? `${word},` : word)).join(" "));
  });
});

describe("nothing is asked", () => {
  test.each<[string, Parameters<typeof run>]>([
    ["without a model", [[segment("यह है")], { model: undefined }]],
    ["of a family that writes punctuation", [[segment("यह है")], { family: "whisper" }]],
    ["where the recognizer has written some", [[segment("यह है।"), segment("वह है")]]],
    ["in languages that the model does not know", [[segment("இது", { language: "ta" })]]],
    ["where there is no text", [[]]],
  ])("%s", async (_name, [segments, more]) => {
    const { jobs, texts, warnings, punctuation } = await run(segments, more);
    expect([jobs, warnings, punctuation]).toEqual([[], [], undefined]);
    expect(texts).toEqual(segments.map(({ text }) => text));
  });
});

describe("one text", () => {
  /** Adds a full stop behind the last word that the engine is asked for. */
  async function textOf(text: string) {
    const jobs: string[] = [];
    const tools = kit.toolsWith(createMemoryCheckpoint(), {
      engine: {
        ...kit.engine,
        async punctuate({ words }: PunctuateJob) {
          jobs.push(words.join(" "));
          return { marks: words.map((_, index) => (index === words.length - 1 ? { after: "." } : {})) };
        },
      },
    });
    const marked = await punctuateText(tools, MODEL, { text, language: "hi" }, new AbortController().signal);
    return { marked, jobs };
  }

  test.each([
    ["keeps its white space", "  यह \t घर  ", "  यह \t घर।  ", ["यह घर"]],
    ["without words stays", " \t ", " \t ", []],
    ["with a mark stays", "यह है, वह", "यह है, वह", []],
  ])("%s", async (_name, text, marked, jobs) => {
    expect(await textOf(text)).toEqual({ marked, jobs });
  });
});

test("a model that cannot be used leaves the text as it was, with a warning", async () => {
  for (const kind of ["failed", "unusable_model", "crashed", "hung"] as const) {
    const broken = run([segment("यह है")], {
      engine: async () => {
        throw new EngineError(kind, "the net is cut off");
      },
    });
    expect(await broken).toMatchObject({ texts: ["यह है"], warnings: ["punctuation_missing"] });
  }
}, 60_000);

test("a new model counts at once, and a text without a removed model has no warning", async () => {
  const engine = async ({ model, words }: PunctuateJob) => {
    if (model.modelPath === MODEL.modelPath) throw new EngineError("unusable_model", "there is no such file");
    return { marks: words.map(() => ({ after: "." })) };
  };
  const removed = await run([segment("यह है")], { engine, modelThen: undefined });
  expect(removed).toMatchObject({ texts: ["यह है"], warnings: [] });
  const modelThen = { ...MODEL, modelPath: "/models/_punctuation/other/model.onnx" };
  const replaced = await run([segment("यह है")], { engine, modelThen });
  expect(replaced).toMatchObject({ texts: ["यह। है।"], warnings: [] });
});

test("an answer for fewer words than were asked for, or with words in it, changes none", async () => {
  const { texts } = await run([segment("यह घर है")], {
    engine: async () => ({ marks: [{ after: " और" }, { after: "।", capitals: [0, 5] }] }),
  });
  expect(texts).toEqual(["यह घर। है"]);
});
