import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { checkCtcFiles } from "../../families/ctc/model-files.ts";
import { kenlmLayout } from "../../lib/kenlm-file.ts";
import { convertArpa } from "../../model-import/arpa.ts";
import { extractNativeFiles } from "../../native/native-files.ts";
import { CTC_INPUT, loadOnnx, type OnnxAddon, type OnnxBeam } from "../../native/onnx/onnx-addon.ts";
import { wordErrors } from "../../pipeline/wer.ts";
import { wordListArpa } from "../../testing/makers/arpa-maker.ts";
import { TINY_CTC, tinyRecordings } from "../../testing/makers/tiny-ctc.ts";
import { segmentsOf, writtenTokens } from "./ctc-text.ts";

/** Beam search with n-gram models on the tiny CTC model, in this process. */

const folder = mkdtempSync(join(tmpdir(), "shruti-ngram-"));
afterAll(() => rmSync(folder, { recursive: true }));

const info = checkCtcFiles(join(TINY_CTC, "model.onnx"), join(TINY_CTC, "tokens.txt"));
let addon: OnnxAddon;
let session: Awaited<ReturnType<OnnxAddon["open"]>>;
let files = 0;

beforeAll(async () => {
  addon = loadOnnx(await extractNativeFiles(folder)).addon;
  session = await addon.open(join(TINY_CTC, "model.onnx"), 1, false);
});

async function beamOf(arpa: string, weights: { weight?: number; bonus?: number } = {}): Promise<OnnxBeam> {
  const [source, path] = [join(folder, `${files}.arpa`), join(folder, `${files++}.klm`)];
  writeFileSync(source, arpa);
  await convertArpa(source, path);
  return beamOfFile(path, weights);
}

function beamOfFile(path: string, { weight = 0.5, bonus = 1.5 }): OnnxBeam {
  const texts = info.tokens.map((token) => new TextEncoder().encode(token));
  let end = 0;
  const ends = Int32Array.from(texts, ({ length }) => {
    end += length;
    return end;
  });
  const ngram = addon.openNgram(path, new Uint8Array(Buffer.concat(texts)), ends);
  return { ngram, weight, bonus, blank: info.blank };
}

async function heard(pcm: Int16Array, beam: OnnxBeam | null): Promise<string> {
  const sound = Float32Array.from(pcm, (sample) => sample / 32_768);
  const allowed = new Uint8Array(info.tokens.length).fill(1);
  const best = await addon.run(session, sound, CTC_INPUT.kaldi, info.bins, allowed, null, beam).promise;
  expect(best.ids).toHaveLength(best.probabilities.length);
  const times = { frameMs: 40, audioMs: pcm.length / 16, language: "hi" };
  const segments = segmentsOf(writtenTokens(best, info.blank), info.tokens, times);
  for (const { confidence } of segments) expect(confidence).toBeWithin(0, 1.000001);
  return segments.map(({ text }) => text).join(" ");
}

async function errorsOf(beam: OnnxBeam | null): Promise<number> {
  let errors = 0;
  for (const { text, pcm } of tinyRecordings) {
    const found = wordErrors(text, await heard(pcm, beam));
    errors += found ? found.substitutions + found.deletions + found.insertions : 0;
  }
  return errors;
}

const words = [...new Set(tinyRecordings.flatMap(({ text }) => text.split(" ")))];

describe("beam search with an n-gram model", () => {
  test("makes fewer word errors with a list of the words, at little more time", async () => {
    const beam = await beamOf(wordListArpa(words));
    const cost = async (with_: OnnxBeam | null) => {
      const before = process.cpuUsage();
      const errors = await errorsOf(with_);
      const { user, system } = process.cpuUsage(before);
      return { errors, ms: (user + system) / 1000 };
    };
    await errorsOf(null);
    const [greedy, searched] = [await cost(null), await cost(beam)];
    expect(greedy.errors).toBeGreaterThanOrEqual(8);
    expect(searched.errors).toBeLessThanOrEqual(greedy.errors / 2);
    expect(searched.ms).toBeLessThan(1.5 * greedy.ms);
  }, 60_000);

  test("without weight it writes what the best tokens of frames give, but for close cases", async () => {
    const beam = await beamOf(wordListArpa(words), { weight: 0, bonus: 0 });
    let equal = 0;
    for (const { pcm } of tinyRecordings) if ((await heard(pcm, beam)) === (await heard(pcm, null))) equal++;
    expect(equal).toBeGreaterThanOrEqual(tinyRecordings.length - 4);
  }, 60_000);

  test("words after words decide where the sound does not", async () => {
    const [{ pcm, text } = { pcm: new Int16Array(), text: "" }] = tinyRecordings;
    const [first = "", second = ""] = text.split(" ");
    const others = [...new Set(text.split(" "))].filter((word) => word !== first && word !== second);
    // The second word is hardly ever said after the first one, so with a large weight it is not written there.
    const arpa = (pair: number) =>
      [
        ...[
          "\\data\\",
          `ngram 1=${others.length + 5}`,
          "ngram 2=2",
          "",
          "\\1-grams:",
          "-6\t<unk>",
          "-99\t<s>\t0",
        ],
        ...[
          `-1\t${first}\t0`,
          `-1\t${second}\t0`,
          ...others.map((word) => `-1\t${word}\t0`),
          "-1\t</s>\t0",
          "",
        ],
        ...["\\2-grams:", `${pair}\t${first} ${second}`, `-1\t<s> ${first}`, "", "\\end\\", ""],
      ].join("\n");
    const likely = await heard(pcm, await beamOf(arpa(-0.01)));
    const unlikely = await heard(pcm, await beamOf(arpa(-6), { weight: 8 }));
    expect(likely).toStartWith(`${first} ${second}`);
    expect(unlikely).not.toContain(`${first} ${second}`);
  }, 60_000);

  test("a damaged file with weights that are no numbers makes all words equally improbable", async () => {
    const [{ pcm } = { pcm: new Int16Array() }] = tinyRecordings;
    const path = join(folder, "damaged.klm");
    writeFileSync(join(folder, "damaged.arpa"), wordListArpa(words));
    await convertArpa(join(folder, "damaged.arpa"), path);
    const bytes = readFileSync(path);
    const { unigrams, tables } = kenlmLayout([words.length + 3, words.length + 1], 1.5);
    const heardWith = (value: number) => {
      for (let at = unigrams.at; at < (tables[0]?.at ?? 0); at += 4) bytes.writeFloatLE(value, at);
      for (let bucket = 0; bucket < (tables[0]?.buckets ?? 0); bucket++)
        bytes.writeFloatLE(value, (tables[0]?.at ?? 0) + 12 * bucket + 8);
      const damaged = join(folder, `damaged-${value}.klm`);
      writeFileSync(damaged, bytes);
      return heard(pcm, beamOfFile(damaged, {}));
    };
    const improbable = await heardWith(-50);
    expect(improbable).not.toBe("");
    expect(await heardWith(Number.NaN)).toBe(improbable);
    expect(await heardWith(Number.POSITIVE_INFINITY)).toBe(improbable);
  }, 60_000);

  test("silence and a few samples give no text", async () => {
    const beam = await beamOf(wordListArpa(words));
    for (const samples of [1_600, 48_000]) expect(await heard(new Int16Array(samples), beam)).toBe("");
  });
});

test("another file, and texts that do not fit, are refused", async () => {
  const path = join(folder, "none.klm");
  writeFileSync(path, "no model");
  const one = new Uint8Array([97]);
  expect(() => addon.openNgram(path, one, Int32Array.of(1))).toThrow("not a binary model of KenLM");
  expect(() => addon.openNgram(path, one, Int32Array.of(2))).toThrow("texts and where they end");
  const { ngram } = await beamOf(wordListArpa(words));
  const other = { ngram, weight: 1, bonus: 0, blank: 500 };
  const allowed = new Uint8Array(info.tokens.length).fill(1);
  const sound = new Float32Array(16_000);
  expect(() => addon.run(session, sound, CTC_INPUT.kaldi, info.bins, allowed, null, other)).toThrow(
    "run takes",
  );
});
