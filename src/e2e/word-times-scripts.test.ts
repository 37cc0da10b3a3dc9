import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { eastAsianWidth } from "get-east-asian-width";
import OpenAI, { toFile } from "openai";
import type { TranscriptionResult } from "../http/wire/schemas.ts";
import { sha256Hex } from "../lib/sha256.ts";
import { parseSrt, parseVtt } from "../testing/answers/subtitle-parsers.ts";
import { demoWriting } from "../testing/makers/other-words.ts";
import { type Installation, install, type RunningServer } from "./kit.ts";
import { sampleBytes, utterancesIn } from "./samples.ts";

/**
 * Word times on the executable in writing without spaces between words, and in Arabic letters. The demonstration model hears English
 * words, and its vocabulary has others in their place.
 */

const SAMPLE = "04-en";
const ENGLISH = "the payment is on five october total twenty three lakh rupees six hundred forty eight".split(
  " ",
);
/** Words cross those of the model: 五十 is five and the beginning of October. */
const WRITING = {
  zh: { spaced: false, words: "这 付款 是 在 五 十月。 总额 二十 三 十万 卢比 六 百 四十 八".split(" ") },
  ja: {
    spaced: false,
    words: "この 支払い は に 五 十月、 合計 二十 三 ラーク ルピー 六 百 四十 八".split(" "),
  },
  th: { spaced: false, words: "การ ชำระเงิน คือ ใน ห้า ตุลาคม รวม ยี่สิบ สาม แสน รูปี หก ร้อย สี่สิบ แปด".split(" ") },
  ur: {
    spaced: true,
    words: "یہ ادائیگی ہے پر پانچ اکتوبر۔ کل\u200Cرقم بیس تین لاکھ روپے چھ سو چالیس آٹھ".split(" "),
  },
};
type Code = keyof typeof WRITING;
const CODES = Object.keys(WRITING) as Code[];
const LIMIT_MS = 120_000;
/** A word may begin so long before its speech, and end so long behind it. */
const TOLERANCE_SECONDS = 0.2;

/** Returns what the model writes for an English word. */
function writtenFor(code: Code, word: string): string {
  const { spaced, words } = WRITING[code];
  return `${spaced ? " " : ""}${words[ENGLISH.indexOf(word)] ?? words[0]}`;
}

/** What is said in the sample, as the model writes it. */
const said = utterancesIn(SAMPLE);
const textsOf = (code: Code) =>
  said.map(({ text }) =>
    text
      .split(" ")
      .map((word) => writtenFor(code, word))
      .join("")
      .trim(),
  );
const withoutSpaces = (text: string) => text.replaceAll(/\s/gu, "");

let installation: Installation;
let server: RunningServer;
beforeAll(async () => {
  installation = await install({
    environment: { SHRUTI_CAPABILITIES_WORD_TIMESTAMPS: "true", SHRUTI_OPENAI_ENABLED: "true" },
  });
  const models = join(installation.dataDir, "models");
  mkdirSync(models, { recursive: true });
  const demo = readFileSync(join(import.meta.dirname, "../../models/demo.toml"), "utf8");
  const [head = ""] = demo.split("[[languages]]");
  const decoding = demo.slice(demo.indexOf("[decoding]"));
  for (const code of CODES) {
    const weights = demoWriting((word) => writtenFor(code, word));
    const own = head
      .replace('id = "demo"', `id = "${code}"`)
      .replace(/sha256 = ".*"/, `sha256 = "${sha256Hex(weights)}"`);
    const language = `[[languages]]\ncode = "${code}"\nname = "${code}"\nmodes = ["native"]\ndecoder_language = "en"\n`;
    writeFileSync(join(models, `${code}.bin`), weights);
    writeFileSync(join(models, `${code}.toml`), `${own}${language}\n${decoding}`);
  }
  // The embedded models are gone where others are installed.
  await installation.output("models", "default", CODES[0] ?? "");
  server = await (await installation.serve()).ready();
}, LIMIT_MS);
afterAll(() => installation?.remove(), 60_000);

describe.each(CODES)("words in %s", (code) => {
  let result: TranscriptionResult;
  const words = () => result.segments.flatMap((segment) => segment.words ?? []);
  const shown = async (query: string) => {
    const response = await server.api().send(`/v1/transcriptions/${result.id}/result?${query}`);
    expect(response.status).toBe(200);
    return response.text();
  };

  beforeAll(async () => {
    const fields = { model: code, language: code, timestamps: "word" };
    result = await server.api().transcribe(sampleBytes(SAMPLE), fields);
  }, LIMIT_MS);

  test("are those of the text, within the speech, one behind the other", () => {
    expect(result.text).toBe(textsOf(code).join(" "));
    expect(result.warnings).not.toContain("word_times_missing");
    let last = 0;
    for (const segment of result.segments) {
      const own = segment.words ?? [];
      expect(withoutSpaces(own.map(({ text }) => text).join(""))).toBe(withoutSpaces(segment.text));
      expect(own.length).toBeGreaterThan(2);
      for (const { text, start, end, confidence } of own) {
        expect(text).toMatch(/^\S*\p{L}\S*$/u);
        expect(start).toBeGreaterThanOrEqual(last);
        expect(end).toBeGreaterThanOrEqual(start);
        expect(confidence).toBeWithin(0, 1.001);
        const isSpoken = said.some(
          (each) => start > each.start - TOLERANCE_SECONDS && end < each.end + TOLERANCE_SECONDS,
        );
        expect([text, isSpoken]).toEqual([text, true]);
        last = end;
      }
    }
  });

  test("have lines of CTM, times in WebVTT, and are those of OpenAI's layer", async () => {
    const columns = (await shown("format=ctm")).trimEnd().split("\n");
    expect(columns.map((line) => line.split(" ")[4])).toEqual(words().map(({ text }) => text));
    const cues = parseVtt(await shown("format=vtt&word_times=1"));
    expect(withoutSpaces(cues.flatMap(({ lines }) => lines).join(""))).toBe(withoutSpaces(result.text));
    const times = cues.flatMap(({ timestamps = [] }) => timestamps.map(({ ms }) => ms));
    expect(times.length).toBeGreaterThan(0);
    const starts = new Set(words().map(({ start }) => Math.round(1000 * start)));
    expect(times.filter((ms) => !starts.has(ms))).toEqual([]);
    const openai = new OpenAI({ apiKey: installation.key, baseURL: `${server.baseUrl}/openai/v1` });
    const answer = await openai.audio.transcriptions.create({
      ...{ file: await toFile(sampleBytes(SAMPLE), "sample.wav"), model: code, language: code },
      ...{ response_format: "verbose_json", timestamp_granularities: ["word"] },
    });
    const own = words().map(({ text: word, start, end }) => ({ word, start, end }));
    expect(answer.words).toMatchObject(own);
  });

  test("fill lines of subtitles, in which wide characters count as two", async () => {
    const most = 14;
    for (const cue of parseSrt(await shown(`format=srt&max_line_characters=${most}`))) {
      expect(cue.lines.length).toBeLessThanOrEqual(2);
      for (const line of cue.lines) {
        const widths = Array.from(new Intl.Segmenter().segment(line), ({ segment }) =>
          eastAsianWidth(segment.codePointAt(0) ?? 0),
        );
        expect(widths.reduce((sum, width) => sum + width, 0)).toBeLessThanOrEqual(most);
      }
    }
  });
});
