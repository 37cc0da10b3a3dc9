import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { AppError } from "../domain/errors.ts";
import type { RecognizedSegment } from "../domain/recognition.ts";
import type { Warning } from "../domain/result.ts";
import type { Mode } from "../domain/transcription.ts";
import { whisperFamily } from "../families/whisper/family.ts";
import { systemClock } from "../lib/clock.ts";
import { recognizeGuarded } from "../pipeline/guarded-recognition.ts";
import type { ResultBody } from "../pipeline/render.ts";
import { assembleResult } from "../pipeline/stitch.ts";
import { wordErrors } from "../pipeline/wer.ts";
import { type LocalRequest, openLocalTranscriber } from "../programs/local.ts";
import { testConfig } from "../testing/kits/test-config.ts";
import { utterancesIn, wordsIn } from "./samples.ts";
import {
  amplified,
  asChannels,
  joined,
  music,
  rumble,
  type Sound,
  sampleSound,
  silence,
  telephoned,
  tone,
  wavOf,
  whiteNoise,
} from "./sounds.ts";

/** Tests recordings with one fault each with the real decoder, speech detector and demonstration model. */

let folder: string;
let transcriber: Awaited<ReturnType<typeof openLocalTranscriber>>;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "shruti-speech-"));
  const config = testConfig({
    storage: { data_dir: join(folder, "data") },
    models: { default: "demo" },
  });
  const environment = { XDG_CACHE_HOME: folder };
  transcriber = await openLocalTranscriber({ config, clock: systemClock, environment });
}, 60_000);

afterAll(async () => {
  await transcriber.close();
  rmSync(folder, { recursive: true, force: true });
});

const PATIENCE_MS = 60_000;

async function transcribeFile(bytes: Uint8Array, request: Partial<LocalRequest> = {}): Promise<ResultBody> {
  const path = join(folder, "recording.wav");
  writeFileSync(path, bytes);
  const defaults = { language: "en", mode: "native", isDiarized: false, channelMode: "mix" } as const;
  const plan = transcriber.plan({ ...defaults, ...request });
  const result = await transcriber.transcribe(plan, path, () => {});
  return JSON.parse(transcriber.render(plan, result, "json")) as ResultBody;
}

const transcribe = (sound: Sound, request: Partial<LocalRequest> = {}) =>
  transcribeFile(wavOf(sound), request);

const clean = sampleSound("04-en");
const english = utterancesIn("04-en").map(({ text }) => text);

describe("warnings from the sound", () => {
  test(
    "clean recordings have none: mono, stereo and over a telephone",
    async () => {
      for (const [name, language] of [
        ["04-en", "en"],
        ["05-hi", "hi"],
      ] as const) {
        const { warnings, segments } = await transcribe(sampleSound(name), { language });
        expect({ name, warnings }).toEqual({ name, warnings: [] });
        expect(segments.length).toBeGreaterThan(0);
      }
      const stereo = sampleSound("10-en-stereo");
      expect((await transcribe(stereo, { channelMode: "separate" })).warnings).toEqual([]);
      expect((await transcribe(stereo)).warnings).toEqual([]);
    },
    PATIENCE_MS,
  );

  const faults: [fault: string, sound: Sound, warnings: Warning[]][] = [
    ["clipped", amplified(clean, 15), ["clipped_audio"]],
    ["low", amplified(clean, -32), ["low_volume"]],
    ["telephone", telephoned(clean), ["narrowband_audio"]],
    ["silent", silence(4), ["no_speech", "low_volume"]],
  ];
  test.each(faults)(
    "%s",
    async (_, sound, warnings) => {
      expect((await transcribe(sound)).warnings).toEqual(warnings);
    },
    PATIENCE_MS,
  );

  test(
    "a file that ends before its header says",
    async () => {
      const whole = wavOf(clean);
      const cut = await transcribeFile(whole.subarray(0, Math.floor(whole.length * 0.6)));
      expect(cut.warnings).toEqual(["truncated_audio"]);
      expect(cut.segments.length).toBeGreaterThan(0);
    },
    PATIENCE_MS,
  );

  test(
    "two channels with the same sound that are transcribed separately",
    async () => {
      const twice = asChannels(clean, clean);
      const apart = await transcribe(twice, { channelMode: "separate" });
      expect(apart.warnings).toEqual(["identical_channels"]);
      expect((await transcribe(twice)).warnings).toEqual([]);
      const copied = asChannels(clean, amplified(clean, -40));
      expect((await transcribe(copied, { channelMode: "separate" })).warnings).toEqual(["low_volume"]);
    },
    PATIENCE_MS,
  );
});

describe("no speech is recognized", () => {
  const sounds: [name: string, sound: Sound][] = [
    ["loud white noise", whiteNoise(10, -20)],
    ["faint white noise, which is amplified", whiteNoise(10, -50)],
    ["a fan", rumble(10, -20)],
    ["a tone", tone(8, 440, -10)],
    ["a hum", tone(8, 50, -12)],
    ["music", music(12, -15)],
    ["faint music, which is amplified", music(12, -42)],
  ];
  test.each(sounds)(
    "in %s",
    async (_, sound) => {
      const { segments, text, warnings } = await transcribe(sound);
      expect({ segments, text }).toEqual({ segments: [], text: "" });
      expect(warnings).toContain("no_speech");
    },
    PATIENCE_MS,
  );

  test(
    "in noise around speech",
    async () => {
      const result = await transcribe(joined(whiteNoise(6, -30), clean, rumble(6, -30)));
      const last = result.segments.at(-1);
      expect(result.segments[0]?.start).toBeGreaterThan(6);
      expect(last?.end).toBeLessThan(6 + 10);
      expect(result.warnings).toEqual([]);
    },
    PATIENCE_MS,
  );
});

/** Assembles recognized segments to a result. */
async function resultOf(
  answer: Partial<RecognizedSegment> & { text: string },
  request: { language: string; mode: Mode } = { language: "hi", mode: "native" },
  keepsDoubtful = false,
) {
  const segment = {
    startMs: 0,
    endMs: 10_000,
    confidence: 0.9,
    noSpeechProbability: 0.01,
    language: request.language,
    ...answer,
  };
  const task = {
    model: { languages: [], decoding: {} },
    family: whisperFamily,
    request: { ...request, channelMode: "mix" as const },
    durationMs: 12_000,
    keepsDoubtful,
  };
  const chunk = { channel: 0, regions: [{ startSample: 0, endSample: 160_000 }] };
  const { segments, warnings } = await recognizeGuarded(task, chunk, async () => ({
    segments: [{ ...segment }],
  }));
  return assembleResult({ ...task, segments, warnings, gaps: [], channels: 1 });
}

describe("warnings from the text", () => {
  const HINDI = "यह एक साधारण वाक्य है";

  test("plain text has none", async () => {
    const { warnings, text } = await resultOf({ text: HINDI });
    expect({ warnings, text }).toEqual({ warnings: [], text: HINDI });
  });

  test("a loop is cut", async () => {
    const { warnings, text } = await resultOf({ text: "हम जा रहे हैं ".repeat(15) });
    expect({ warnings, text }).toEqual({ warnings: ["repetition_removed"], text: "हम जा रहे हैं" });
  });

  test("text in another script is kept and marked", async () => {
    const { warnings, text } = await resultOf({ text: "yah ek vakya hai" });
    expect({ warnings, text }).toEqual({ warnings: ["script_mismatch"], text: "yah ek vakya hai" });
    expect((await resultOf({ text: "मेरा order" }, { language: "hi", mode: "codemix" })).warnings).toEqual([]);
  });

  test("invented words are marked, and dropped when the decoder reports that there was no speech", async () => {
    const closing = await resultOf({ text: "देखने के लिए धन्यवाद", confidence: 0.5 });
    expect(closing.warnings).toEqual(["suspected_hallucination"]);
    expect(closing.segments).toHaveLength(1);
    const denied = await resultOf({ text: HINDI, confidence: 0.3, noSpeechProbability: 0.9 });
    expect(denied.warnings).toEqual(["no_speech", "suspected_hallucination"]);
    expect(denied.segments).toEqual([]);
  });

  test("words of which the decoder is not sure are marked where they are kept", async () => {
    const marked = async (confidence: number) =>
      (await resultOf({ text: HINDI, confidence }, undefined, true)).warnings;
    expect(await marked(0.39)).toEqual(["low_confidence"]);
    expect(await marked(0.41)).toEqual([]);
  });
});

describe("channels", () => {
  const near = joined(clean, sampleSound("01-en"));
  const far = sampleSound("12-en-long");

  test(
    "a channel that is 45 dB quieter is recognized as well as a loud one",
    async () => {
      const channelMode = "separate";
      const even = await transcribe(asChannels(near, far), { channelMode });
      const uneven = await transcribe(asChannels(near, amplified(far, -45)), { channelMode });
      const wordsOf = ({ segments }: ResultBody, channel: number) =>
        segments
          .filter((segment) => segment.channel === channel)
          .map(({ text }) => text)
          .join(" ");
      expect(wordsOf(uneven, 0)).toBe(wordsOf(even, 0));
      const wrong = (result: ResultBody) => wordErrors(wordsIn("12-en-long"), wordsOf(result, 1))?.rate ?? 1;
      // With 16 bits, such a quiet sound has fewer steps.
      expect(wrong(uneven)).toBeLessThan(wrong(even) + 0.05);
      expect(uneven.warnings).toEqual(["low_volume"]);
      const starts = uneven.segments.map(({ start }) => start ?? 0);
      expect(starts).toEqual(starts.toSorted((a, b) => a - b));
      expect(new Set(uneven.segments.map(({ channel }) => channel))).toEqual(new Set([0, 1]));
      expect(uneven.text.split("\n")[0]).toStartWith("[channel 0] ");
    },
    PATIENCE_MS,
  );

  test(
    "a call in turns, mixed into one channel, gives the words of both sides",
    async () => {
      const turn = silence((clean.channels[0]?.length ?? 0) / clean.rateHz - 1);
      const first = joined(clean, turn);
      const second = joined(turn, sampleSound("01-en"));
      const { text } = await transcribe(asChannels(first, second));
      expect(text).toContain(english[1] ?? "");
      expect(text).toEndWith(wordsIn("01-en"));
    },
    PATIENCE_MS,
  );
});

describe("modes", () => {
  const mixed = sampleSound("03-mixed");

  test(
    "codemix writes English words in Latin letters, native writes none",
    async () => {
      const codemix = await transcribe(mixed, { language: "hi", mode: "codemix" });
      expect(codemix.text).toBe(wordsIn("03-mixed", "codemix"));
      const native = await transcribe(mixed, { language: "hi" });
      expect(native.text).toMatch(/^[\p{Script=Devanagari}\s]+$/u);
      expect(native.text).toStartWith(wordsIn("03-mixed").split(" ").slice(0, 3).join(" "));
      for (const { warnings } of [codemix, native]) expect(warnings).toEqual([]);
    },
    PATIENCE_MS,
  );

  test(
    "loan words: native spells them in Devanagari, codemix in Latin letters, verbatim as the decoder wrote them",
    async () => {
      const loans = sampleSound("07-hi");
      const inMode = async (mode: Mode) => (await transcribe(loans, { language: "hi", mode })).text;
      expect(wordsIn("07-hi", "codemix")).toMatch(/[a-z]/);
      for (const mode of ["native", "codemix", "verbatim"] as const) {
        expect(await inMode(mode)).toBe(wordsIn("07-hi", mode));
      }
    },
    PATIENCE_MS,
  );

  test("a mode that the manifest does not list is refused", () => {
    const refusal = (language: string, mode: Mode) => {
      try {
        transcriber.plan({ language, mode, isDiarized: false, channelMode: "mix" });
        return "none";
      } catch (error) {
        return error instanceof AppError ? error.code : error;
      }
    };
    expect(refusal("hi", "codemix")).toBe("none");
    expect(refusal("en", "codemix")).toBe("unsupported_mode");
    expect(refusal("ta", "native")).toBe("unsupported_language");
    expect(refusal("auto", "native")).toBe("capability_unavailable");
  });
});

test(
  "speech without a pause is cut between words",
  async () => {
    const { rateHz, channels } = sampleSound("12-en-long");
    const [values = new Float32Array()] = channels;
    const stretches = utterancesIn("12-en-long").map(
      ({ start, end }): Sound => ({ rateHz, channels: [values.slice(start * rateHz, end * rateHz)] }),
    );
    const { segments, text } = await transcribe(joined(...stretches));
    expect(segments.length).toBeGreaterThan(3);
    const heard = new Set(text.split(" "));
    const said = [...new Set(wordsIn("12-en-long").split(" "))];
    const missed = said.filter((word) => !heard.has(word));
    expect({ missed, areFew: missed.length <= said.length / 5 }).toEqual({ missed, areFew: true });
  },
  PATIENCE_MS,
);

test(
  "known speech gets a high confidence, and unknown speech is left out or gets a far lower one",
  async () => {
    const known = await transcribe(clean);
    const { rateHz, channels } = clean;
    const unknown = await transcribe({ rateHz, channels: channels.map((values) => values.toReversed()) });
    const mean = ({ segments }: ResultBody) =>
      segments.reduce((sum, { confidence }) => sum + confidence, 0) / Math.max(1, segments.length);
    expect(mean(known)).toBeGreaterThan(0.85);
    expect(mean(unknown)).toBeLessThan(0.7);
  },
  PATIENCE_MS,
);
