import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { checkTdtFile } from "../../families/tdt/model-file.ts";
import { extractNativeFiles } from "../../native/native-files.ts";
import type { NativeTdtTokens, TdtHandle } from "../../native/whisper/whisper-addon.ts";
import { engineOptions } from "../../testing/kits/test-config.ts";
import { makeNemoTensors, NEMO_MODELS } from "../../testing/makers/nemo-maker.ts";
import { writeTdtModel } from "../../testing/makers/tdt-model.ts";
import { tinyRecordings } from "../../testing/makers/tiny-ctc.ts";
import { recognizePlainly } from "../../testing/reference-tdt/reference.ts";
import { openGgml } from "../whisper/whisper.ts";
import { openTdtRecognizer } from "./tdt-recognizer.ts";
import { spelledTokens } from "./tdt-text.ts";

const folder = mkdtempSync(join(tmpdir(), "shruti-tdt-"));
let addon: ReturnType<typeof openGgml>["addon"];
beforeAll(async () => {
  const { dir } = await extractNativeFiles(folder);
  addon = openGgml(dir, [], [], true).addon;
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Recordings with clear differences: the smallest difference between two choices of the reference is printed where one fails. */
const sounds = tinyRecordings.slice(0, 2).map(({ name, pcm }) => ({
  name,
  samples: Float32Array.from(pcm, (value) => value / 32_768),
}));

const listed = ({ ids, starts, durations }: NativeTdtTokens) =>
  Array.from(ids, (id, n) => ({ id, frame: starts[n], duration: durations[n] }));

const loaded = new Map<string, Promise<TdtHandle>>();

function load(name: keyof typeof NEMO_MODELS): Promise<TdtHandle> {
  const path = join(folder, `${name}.gguf`);
  const handle = loaded.get(name) ?? writeTdtModel(name, path).then(() => addon.loadTdt(path));
  loaded.set(name, handle);
  return handle;
}

const NAMES = ["parakeet", "wide", "rnnt"] as const;

describe.each(NAMES.map((name) => ({ name })))("a generated model of the shape $name", ({ name }) => {
  const model = NEMO_MODELS[name];
  let handle: TdtHandle;
  beforeAll(async () => {
    handle = await load(name);
  });

  test("writes the reference's tokens, with their frames, durations and probabilities", async () => {
    const tensors = makeNemoTensors(model);
    for (const { samples } of sounds) {
      const expected = recognizePlainly(model, tensors, samples);
      const found = await addon.runTdt(handle, samples, { groups: 0, threads: 2, niceness: 0 }).promise;
      expect(found.frames).toBe(expected.frames);
      expect(expected.tokens.length).toBeGreaterThan(5);
      expect(listed(found)).toEqual(
        expected.tokens.map(({ id, frame, duration }) => ({ id, frame, duration })),
      );
      // Activations are rounded to 16 bits where weights have so many.
      for (const [n, { probability }] of expected.tokens.entries())
        expect(Math.abs((found.probabilities[n] ?? 0) - probability)).toBeLessThan(0.005);
    }
  }, 60_000);

  test("writes the same with other threads, and beside other chunks", async () => {
    const runs = [...sounds, ...sounds, ...sounds].map(
      ({ samples }, n) =>
        addon.runTdt(handle, samples, { groups: 0, threads: 1 + (n % 2), niceness: 0 }).promise,
    );
    const found = (await Promise.all(runs)).map(listed);
    for (const [n, tokens] of found.entries()) expect(tokens).toEqual(found[n % sounds.length] ?? []);
  }, 60_000);
});

test("chunks that are computed at the same time have the numbers that one has alone", async () => {
  // So wide that rows are multiplied in parts: what is computed twice at the same place has wrong numbers meanwhile.
  const wide = { ...NEMO_MODELS.parakeet, width: 1_280, inner: 1_280, layers: 1 };
  const path = join(folder, "wide-rows.gguf");
  await writeTdtModel(wide, path);
  const handle = await addon.loadTdt(path);
  const run = async () => {
    const samples = sounds[0]?.samples ?? new Float32Array();
    const found = await addon.runTdt(handle, samples, { groups: 0, threads: 1, niceness: 0 }).promise;
    return [...found.probabilities];
  };
  const alone = await run();
  expect(alone.length).toBeGreaterThan(5);
  for (let round = 0; round < 5; round++)
    expect(await Promise.all(Array.from({ length: 4 }, run))).toEqual(Array.from({ length: 4 }, () => alone));
}, 60_000);

describe("chunks that take part in one computation", () => {
  // Pieces of different lengths, so that the shorter ones are filled up.
  const pieces = Array.from({ length: 9 }, (_, n) =>
    (sounds[n % 2]?.samples ?? new Float32Array()).subarray(0, 8_000 + 2_400 * n),
  );
  const shared = { groups: 1, threads: 1, niceness: 0 };

  test.each(NAMES)(
    "have the tokens that they have alone, with the model of the shape %s",
    async (name) => {
      const handle = await load(name);
      const alone = [];
      for (const piece of pieces)
        alone.push(listed(await addon.runTdt(handle, piece, { ...shared, groups: 0 }).promise));
      expect(alone.flat().length).toBeGreaterThan(20);
      const together = await Promise.all(pieces.map((piece) => addon.runTdt(handle, piece, shared).promise));
      expect(together.map(listed)).toEqual(alone);
    },
    60_000,
  );

  test("continue when one of them is aborted, also the one that computes", async () => {
    const handle = await load("rnnt");
    const expected = listed(await addon.runTdt(handle, pieces[3] ?? new Float32Array(), shared).promise);
    for (let round = 0; round < pieces.length; round++) {
      const runs = pieces.map(() => addon.runTdt(handle, pieces[3] ?? new Float32Array(), shared));
      await Bun.sleep(round * 3);
      runs[round]?.abort();
      const found = await Promise.all(
        runs.map((run) =>
          run.promise.then(listed).catch((error: Error) => {
            if (error.name !== "AbortError") throw error;
            return "aborted";
          }),
        ),
      );
      for (const [n, tokens] of found.entries())
        if (n !== round || tokens !== "aborted") expect(tokens).toEqual(expected);
    }
  }, 60_000);
});

test("smaller weights give nearly the same probabilities", async () => {
  const path = join(folder, "small.gguf");
  await writeTdtModel("parakeet", path, "q8_0");
  expect(checkTdtFile(path).weights).toBe("q8_0");
  const [small, large] = await Promise.all([addon.loadTdt(path), load("parakeet")]);
  const [sound] = sounds;
  const run = (handle: TdtHandle) =>
    addon.runTdt(handle, sound?.samples ?? new Float32Array(), { groups: 0, threads: 1, niceness: 0 })
      .promise;
  const [found, expected] = await Promise.all([run(small), run(large)]);
  expect(Array.from(found.ids)).toEqual(Array.from(expected.ids));
  for (const [n, probability] of expected.probabilities.entries())
    expect(Math.abs((found.probabilities[n] ?? 0) - probability)).toBeLessThan(0.06);
}, 60_000);

test("audio that is empty, too short or no numbers is refused, and an abort rejects", async () => {
  const handle = await load("rnnt");
  const run = (samples: Float32Array) =>
    addon.runTdt(handle, samples, { groups: 0, threads: 1, niceness: 0 });
  expect(() => run(new Float32Array())).toThrow("empty");
  expect(() => run(new Float32Array(159))).toThrow("shorter than a frame");
  expect(() => run(new Float32Array(1_600).fill(Number.NaN))).toThrow("no number");
  expect(() =>
    addon.runTdt({} as TdtHandle, new Float32Array(160), { groups: 0, threads: 1, niceness: 0 }),
  ).toThrow();
  const long = run(new Float32Array(16_000 * 120));
  long.abort();
  expect(await long.promise.catch((error: Error) => error.name)).toBe("AbortError");
}, 60_000);

test("segments have words with the times of their tokens, where they are asked for", async () => {
  const path = join(folder, "sure.gguf");
  await writeTdtModel("sure", path);
  const native = await extractNativeFiles(folder);
  const code = { backendDirs: [], avoidedVariants: [], engine: engineOptions() };
  const loaded = await openTdtRecognizer(native, code).load({ weights: path }, "cpu");
  const samples = sounds[0]?.samples ?? new Float32Array();
  const { tokens } = recognizePlainly(NEMO_MODELS.sure, makeNemoTensors(NEMO_MODELS.sure), samples);
  const run = { threads: 1, signal: new AbortController().signal };
  const plain = await loaded.recognize(samples, { language: "en" }, run);
  const { segments } = await loaded.recognize(samples, { language: "en", words: true }, run);
  const text = tokens
    .map(({ id }) => NEMO_MODELS.sure.tokens[id])
    .join("")
    .replaceAll("▁", " ");
  expect(segments.map((segment) => segment.text).join(" ")).toBe(text.trim());
  expect(plain.segments.every(({ words }) => words === undefined)).toBe(true);
  const words = segments.flatMap((segment) => segment.words ?? []);
  expect(words.map((word) => word.text).join(" ")).toBe(text.trim());
  const firsts = tokens.filter(({ id }, n) => n === 0 || NEMO_MODELS.sure.tokens[id]?.startsWith("▁"));
  expect(words.map(({ startMs }) => startMs)).toEqual(firsts.map(({ frame }) => frame * 80));
  for (const [n, { startMs, endMs, confidence }] of words.entries()) {
    expect(endMs).toBeGreaterThan(startMs);
    expect(endMs).toBeLessThanOrEqual(words[n + 1]?.startMs ?? samples.length / 16);
    expect(confidence).toBeGreaterThan(0.9);
  }
  await expect(openTdtRecognizer(native, code).load({ weights: path }, "cuda")).rejects.toThrow(
    "on the processor",
  );
}, 60_000);

describe("tokens become words", () => {
  const texts = ["▁go", "od", ".", "<s>", "<|en|>", "<0xE0>", "<0xA4>", "<0x95>", "▁", "<0xFF>"];
  const token = (id: number, first: number, last = first) => ({ id, first, last, probability: 0.5 });
  const textOf = (ids: number[]) => {
    const { tokens, texts: all } = spelledTokens(
      ids.map((id, n) => token(id, n)),
      texts,
    );
    return tokens.map(({ id }) => all[id]).join("");
  };

  test("control tokens are no text, and bytes become characters", () => {
    expect(textOf([3, 4, 0, 1, 2])).toBe("▁good.");
    expect(textOf([8, 5, 6, 7, 1])).toBe("▁कod");
    expect(textOf([0, 9, 1])).toBe("▁good");
    expect(textOf([5, 6])).toBe("");
  });
  test("punctuation takes no time", () => {
    const { tokens } = spelledTokens([token(0, 0, 1), token(1, 2, 3), token(2, 9, 12)], texts);
    expect(tokens.at(-1)).toMatchObject({ id: 2, first: 3, last: 3 });
  });
});
