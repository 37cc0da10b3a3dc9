import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { RecognizedSegment } from "../../domain/recognition.ts";
import { CTC_FEATURES, type CtcSettings } from "../../families/ctc/settings.ts";
import { FAMILIES } from "../../families/families.ts";
import { extractNativeFiles } from "../../native/native-files.ts";
import { engineOptions } from "../../testing/kits/test-config.ts";
import { quantile, readTimedRecordings, wordErrors } from "../../testing/makers/timed-recordings.ts";
import { RAW_CTC, separation, TIMED, TINY_CTC, tinyRecordings } from "../../testing/makers/tiny-ctc.ts";
import { createWorkerHost, type WorkerHost } from "../workers/worker-host.ts";
import { segmentsOf, type WrittenToken, writtenTokens } from "./ctc-text.ts";

/** The tiny model through a worker process, compared with sherpa-onnx and with what was said. */

const folder = mkdtempSync(join(tmpdir(), "shruti-ctc-"));
const hosts: WorkerHost[] = [];
let host: WorkerHost;

async function openHost(model: string, family: string = "nemo_ctc"): Promise<WorkerHost> {
  const nativeFiles = await extractNativeFiles(folder);
  const files = { model: join(model, "model.onnx"), tokens: join(model, "tokens.txt") };
  const opened = createWorkerHost({
    nativeFiles,
    backendDirs: [],
    engine: engineOptions(),
    log: () => {},
    opens: [family],
    load: { files, device: "cpu" },
  });
  hosts.push(opened);
  return opened;
}

beforeAll(async () => {
  host = await openHost(TINY_CTC);
});
afterAll(async () => {
  for (const each of hosts) await each.stop(true);
  rmSync(folder, { recursive: true });
});

async function recognize(
  pcm: Int16Array,
  more: Partial<CtcSettings> = {},
  on = host,
): Promise<RecognizedSegment[]> {
  const pcmPath = join(folder, `${Bun.hash(new Uint8Array(pcm.buffer))}.pcm`);
  writeFileSync(pcmPath, new Uint8Array(pcm.buffer));
  const slices = [{ sourceStartSample: 0, samples: pcm.length, targetStartSample: 0 }];
  const settings = { language: "en", features: "kaldi", ...more } as CtcSettings;
  const audio = { pcmPath, slices, totalSamples: pcm.length };
  const request = { type: "transcribe", audio, settings, threads: 1 } as const;
  const { signal } = new AbortController();
  const reply = await on.request(request, { signal, timeoutMs: 60_000, isAlone: false });
  if (reply.type !== "transcribed") throw new Error(reply.type);
  return reply.outcome.segments;
}

const textOf = (segments: readonly RecognizedSegment[]) => segments.map(({ text }) => text).join(" ");

const ENGINES: [family: string, kind: string, folder: string][] = [
  ["nemo_ctc", "nemoCtc", TINY_CTC],
  ["omnilingual_ctc", "omnilingual", RAW_CTC],
];
test.each(ENGINES)(
  "sherpa-onnx writes the same tokens at the same times: %s",
  async (family, kind, model) => {
    const child = Bun.spawn(
      [
        ...[
          process.execPath,
          join(import.meta.dir, "../../testing/programs/sherpa-reference.ts"),
          kind,
          model,
        ],
        ...tinyRecordings.map(({ path }) => path),
      ],
      { stdout: "pipe", stderr: "pipe" },
    );
    const [out, errors] = await Promise.all([child.stdout.text(), child.stderr.text()]);
    if ((await child.exited) !== 0) throw new Error(errors);
    const reference = JSON.parse(out) as { tokens: string[]; timestamps: number[] }[];
    expect(reference).toHaveLength(tinyRecordings.length);
    const ours = await openHost(model, family);
    for (const [index, { name, pcm }] of tinyRecordings.entries()) {
      const { tokens = [], timestamps = [] } = reference[index] ?? {};
      const segments = await recognize(pcm, {}, ours);
      // sherpa-onnx leaves the end of a sentence out of its list of tokens.
      const text = textOf(segments).replaceAll("</s>", "");
      expect(text, name).toBe(tokens.join("").replaceAll("▁", " ").trim());
      expect(segments[0]?.startMs, name).toBeCloseTo((timestamps[0] ?? 0) * 1_000, 0);
    }
  },
  60_000,
);

test("tokens with letters of other scripts are not written by a model without a choice of language", async () => {
  const ours = await openHost(RAW_CTC, "omnilingual_ctc");
  const model = { languages: [], decoding: {} };
  const [{ pcm } = { pcm: new Int16Array() }] = tinyRecordings;
  expect(textOf(await recognize(pcm, {}, ours))).toMatch(/[a-z].*\p{Script=Devanagari}/u);
  for (const [language, foreign] of [
    ["hi", /[a-z]/],
    ["en", /\p{Script=Devanagari}/u],
    ["ta", /[a-z]|\p{Script=Devanagari}/u],
  ] as const) {
    const settings = FAMILIES.of("omnilingual_ctc").settingsFor(
      { language, mode: "native" },
      model,
    ) as CtcSettings;
    const text = textOf(await recognize(pcm, settings, ours)).replaceAll(/<[^>]*>/g, "");
    expect(text).not.toMatch(foreign);
  }
  const other = await openHost(RAW_CTC, "nemo_ctc");
  await expect(recognize(pcm, {}, other)).rejects.toThrow("is a model of the family omnilingual_ctc");
}, 60_000);

for (const features of CTC_FEATURES) {
  test(`most words are right, and confidence separates the others (features: ${features})`, async () => {
    const judged: { isRight: boolean; value: number }[] = [];
    for (const { text, pcm } of tinyRecordings) {
      const segments = await recognize(pcm, { features });
      for (const segment of segments) expect(segment.confidence).toBeWithin(0.2, 1.000001);
      const value = Math.min(...segments.map(({ confidence }) => confidence));
      judged.push({ isRight: textOf(segments) === text, value });
    }
    expect(judged.filter(({ isRight }) => isRight).length).toBeGreaterThanOrEqual(30);
    expect(separation(judged)).toBeGreaterThanOrEqual(0.8);
  }, 60_000);
}

test("a token span keeps all other tokens out, before the best one is chosen", async () => {
  const latin = /[a-z]/;
  const mixed = tinyRecordings.filter(({ text }) => latin.test(text) && /\p{Script=Devanagari}/u.test(text));
  expect(mixed.length).toBeGreaterThan(0);
  for (const { pcm } of mixed) {
    expect(textOf(await recognize(pcm))).toMatch(latin);
    // The Devanagari letters alone; those that begin words come first.
    const text = textOf(await recognize(pcm, { tokenSpan: { first: 56, last: 89 } }));
    expect(text).not.toMatch(latin);
    expect(text).not.toBe("");
  }
  const outside = recognize(tinyRecordings[0]?.pcm ?? new Int16Array(), {
    tokenSpan: { first: 80, last: 90 },
  });
  await expect(outside).rejects.toThrow("no token 90");
});

test("silence, noise and audio of a few samples give no text and no failure", async () => {
  const noise = Int16Array.from({ length: 48_000 }, (_, n) => ((n * 7_919) % 401) - 200);
  for (const pcm of [new Int16Array(1), new Int16Array(79), new Int16Array(1_600), new Int16Array(48_000)]) {
    expect(await recognize(pcm)).toEqual([]);
  }
  for (const { text } of await recognize(noise)) expect(text.length).toBeLessThan(10);
  expect(host.status().restarts).toBe(0);
});

test("many chunks side by side on one model give what each gives alone", async () => {
  const alone: string[] = [];
  for (const { pcm } of tinyRecordings) alone.push(textOf(await recognize(pcm)));
  const together = await Promise.all(tinyRecordings.map(({ pcm }) => recognize(pcm)));
  expect(together.map(textOf)).toEqual(alone);
});

test("words have the times at which they are spoken, and those of the segments", async () => {
  const errors: { startMs: number; endMs: number }[] = [];
  for (const { pcm, language, words } of readTimedRecordings(TIMED)) {
    const segments = await recognize(pcm, { language, words: true });
    const plain = await recognize(pcm, { language });
    expect(segments.map(({ text, confidence }) => [text, confidence])).toEqual(
      plain.map(({ text, confidence }) => [text, confidence]),
    );
    for (const segment of segments) {
      expect(segment.words?.map(({ text }) => text)).toEqual(segment.text.split(" "));
      expect(segment.startMs).toBe(segment.words?.[0]?.startMs ?? -1);
    }
    errors.push(
      ...wordErrors(
        words,
        segments.flatMap((segment) => segment.words ?? []),
      ),
    );
  }
  expect(errors.length).toBeGreaterThan(40);
  const starts = errors.map(({ startMs }) => Math.abs(startMs));
  const ends = errors.map(({ endMs }) => Math.abs(endMs));
  expect(quantile(starts, 0.5)).toBeLessThanOrEqual(30);
  expect(quantile(starts, 0.95)).toBeLessThanOrEqual(200);
  expect(quantile(ends, 0.5)).toBeLessThanOrEqual(30);
  expect(quantile(ends, 0.95)).toBeLessThanOrEqual(200);
});

describe("a model is refused when it is loaded", () => {
  const bytes = readFileSync(join(TINY_CTC, "model.onnx"));
  /** Replaces the value of a metadata entry, of one character, or any other bytes by as many. */
  const changed = (from: string, to: string) => {
    const at = bytes.indexOf(from);
    expect(at).toBeGreaterThan(0);
    const copy = Buffer.from(bytes);
    copy.write(to, at);
    return copy;
  };
  const faults: [name: string, file: () => Uint8Array, reason: string][] = [
    [
      "wrong factor",
      () => changed("subsampling_factor\x12\x014", "subsampling_factor\x12\x018"),
      "should be about 4",
    ],
    [
      "factor too small",
      () => changed("subsampling_factor\x12\x014", "subsampling_factor\x12\x011"),
      "should be about 4",
    ],
    ["missing normalization", () => changed("normalize_type", "normalize_typo"), "normalize_type is missing"],
    ["unknown operation", () => changed("ReduceMean", "RedaceMean"), "Invalid model"],
  ];
  for (const [name, file, reason] of faults) {
    test(name, async () => {
      const model = join(folder, name);
      cpSync(join(TINY_CTC, "tokens.txt"), join(model, "tokens.txt"));
      writeFileSync(join(model, "model.onnx"), file());
      const refusing = await openHost(model);
      await expect(refusing.warm(new AbortController().signal)).rejects.toMatchObject({
        kind: "unusable_model",
      });
      await expect(refusing.warm(new AbortController().signal)).rejects.toThrow(reason);
    }, 30_000);
  }
});

describe("tokens become segments", () => {
  const TEXTS = ["▁yes", "▁no", "t", "<blk>"];
  const times = { frameMs: 40, audioMs: 4_000, language: "en" };
  const token = (id: number, first: number, probability = 1): WrittenToken => ({
    id,
    first,
    last: first,
    probability,
  });

  test("equal neighbours are one token, with its highest probability; a blank separates two", () => {
    const ids = Int32Array.from([3, 0, 0, 3, 0, 1, 2, 2, 3]);
    const probabilities = Float32Array.from([1, 0.5, 0.75, 1, 0.25, 1, 0.5, 0.25, 1]);
    expect(writtenTokens({ ids, probabilities, inputFrames: 36 }, 3)).toEqual([
      { id: 0, first: 1, last: 2, probability: 0.75 },
      { id: 0, first: 4, last: 4, probability: 0.25 },
      { id: 1, first: 5, last: 5, probability: 1 },
      { id: 2, first: 6, last: 7, probability: 0.5 },
    ]);
  });

  test("a pause of 0.6 s before a word begins a segment; within a word it does not", () => {
    const segments = segmentsOf([token(0, 2), token(1, 16), token(1, 31), token(2, 60, 0.5)], TEXTS, times);
    expect(segments).toEqual([
      { startMs: 80, endMs: 740, text: "yes no", language: "en", confidence: 1 },
      { startMs: 1_240, endMs: 2_500, text: "not", language: "en", confidence: 0.75 },
    ]);
  });

  test("segments end within the audio and before the next one", () => {
    const segments = segmentsOf([token(0, 0), token(1, 15), token(0, 98)], TEXTS, times);
    expect(segments.map(({ startMs, endMs }) => [startMs, endMs])).toEqual([
      [0, 100],
      [600, 700],
      [3_920, 4_000],
    ]);
    expect(segmentsOf([token(0, 200)], TEXTS, times)[0]).toMatchObject({ startMs: 3_999, endMs: 4_000 });
    expect(segmentsOf([], TEXTS, times)).toEqual([]);
  });

  test("words begin the delay before their first token, and not in the word before", () => {
    const words = { delayMs: 50 };
    const spelled = [token(0, 0), token(1, 2, 0.5), token(2, 6), token(1, 7), token(0, 30)];
    const [first, second] = segmentsOf(spelled, TEXTS, { ...times, words });
    expect(first).toMatchObject({ startMs: 0, endMs: 380, text: "yes not no" });
    expect(first?.words).toEqual([
      { text: "yes", startMs: 0, endMs: 30, confidence: 1 },
      { text: "not", startMs: 30, endMs: 260, confidence: 0.75 },
      { text: "no", startMs: 260, endMs: 320, confidence: 1 },
    ]);
    expect(second).toMatchObject({ startMs: 1_150, words: [{ text: "yes", startMs: 1_150, endMs: 1_240 }] });
  });

  test("a mark of a word may be a token of its own, or inside one", () => {
    const texts = ["▁", "a", "b▁c", "d"];
    const spelled = [token(0, 1), token(1, 2), token(2, 4), token(3, 5), token(0, 6), token(1, 7)];
    const [segment] = segmentsOf(spelled, texts, { ...times, words: { delayMs: 0 } });
    expect(segment?.text).toBe("ab cd a");
    expect(segment?.words?.map(({ text, startMs, endMs }) => [text, startMs, endMs])).toEqual([
      ["ab", 80, 180],
      ["cd", 180, 240],
      ["a", 280, 320],
    ]);
  });
});
