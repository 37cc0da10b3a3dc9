import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import type { SpeechRegion } from "../../domain/speech.ts";
import { samplePath, utterancesIn } from "../../e2e/samples.ts";
import { extractNativeFiles, type NativeFiles } from "../../native/native-files.ts";
import { LOW_VOICE, makeConversation } from "../../testing/makers/voices.ts";
import { decodeAudio } from "../audio/decode.ts";
import { DecodeError } from "../audio/decode-failure.ts";
import { finishedRegions, foundReporter, shapeRegions } from "./speech-shape.ts";
import { openVad, type SpeechOptions, trackRegions } from "./vad.ts";

const ROOT = join(import.meta.dirname, "../../..");
const SAMPLES = [join(ROOT, "models/samples"), join(ROOT, "../shared/demo-model/samples")].find((path) =>
  existsSync(join(path, "transcripts.tsv")),
);
const DATA = join(ROOT, "../shared/data");

let folder: string;
let nativeFiles: NativeFiles;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "shruti-vad-"));
  nativeFiles = await extractNativeFiles(folder);
});

afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Decodes a recording into one PCM file for each channel. */
async function decode(path: string): Promise<string[]> {
  const directory = mkdtempSync(join(folder, "pcm-"));
  const options = { maxDurationMs: 600_000, timeoutMs: 60_000 };
  const output = { directory, channels: "separate" } as const;
  return (await decodeAudio(nativeFiles, path, { output, ...options })).files;
}

function pcm(samples: Int16Array): string {
  const path = join(mkdtempSync(join(folder, "pcm-")), "made.pcm");
  writeFileSync(path, new Uint8Array(samples.buffer, samples.byteOffset, samples.byteLength));
  return path;
}

function samplesOf(path: string): Int16Array {
  return new Int16Array(new Uint8Array(readFileSync(path)).buffer);
}

function detect(path: string, options?: SpeechOptions): Promise<SpeechRegion[]> {
  return openVad(nativeFiles).detectSpeech(path, options);
}

const seconds = (samples: number) => samples / 16_000;

test.skipIf(SAMPLES === undefined)(
  "speech that is longer than the window is cut between words (needs models/samples)",
  async () => {
    const [path = ""] = await decode(samplePath("04-en"));
    const samples = samplesOf(path);
    const stretch = (start: number, end: number) => samples.subarray(start * 16_000, end * 16_000);
    // The end of one utterance and the beginning of the next, with a pause in between that is too short to end a region.
    const [, first, second] = utterancesIn("04-en");
    const [end = 0, start = 0] = [first?.end, second?.start];
    const said = [stretch(end - 0.91, end), new Int16Array(0.15 * 16_000), stretch(start, start + 0.74)];
    const glued = new Int16Array(said.reduce((sum, { length }) => sum + length, 0));
    let at = 0;
    for (const part of said) {
      glued.set(part, at);
      at += part.length;
    }
    const made = pcm(glued);
    expect(await detect(made)).toHaveLength(1);
    const [before, after, ...more] = await detect(made, {
      limits: { maxSamples: 1.3 * 16_000, gapSamples: 6_400 },
    });
    expect(more).toEqual([]);
    expect(seconds(before?.endSample ?? 0)).toBeGreaterThan(0.85);
    expect(seconds(before?.endSample ?? 0)).toBeLessThan(1.12);
    expect(after?.startSample).toBe(before?.endSample ?? 0);
  },
);

function whiteNoise(length: number, level: number): Int16Array {
  let state = 12345;
  return new Int16Array(16_000 * length).map(() => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fffffff;
    return ((state / 0x7fffffff) * 2 - 1) * level;
  });
}

describe("no speech is found in", () => {
  test("digital silence", async () => {
    expect(await detect(pcm(new Int16Array(16_000 * 20)))).toEqual([]);
  });

  test("white noise, loud and quiet", async () => {
    for (const level of [300, 15_000]) expect(await detect(pcm(whiteNoise(20, level)))).toEqual([]);
  });

  test("an empty file and a file shorter than a window", async () => {
    expect(await detect(pcm(new Int16Array(0)))).toEqual([]);
    expect(await detect(pcm(new Int16Array(100)))).toEqual([]);
  });

  test.skipIf(!existsSync(DATA))("recorded noise (needs ../shared/data)", async () => {
    const [path = ""] = await decode(join(DATA, "audio/noise2.wav"));
    expect(await detect(path)).toEqual([]);
  });
});

type Utterance = { file: string; channel: number; start: number; end: number; voice: string };

function utterances(folder: string): Utterance[] {
  const lines = readFileSync(join(folder, "transcripts.tsv"), "utf8").trim().split("\n").slice(1);
  return lines.map((line) => {
    const [file = "", , channel, start, end, voice = ""] = line.split("\t");
    return { file, channel: Number(channel), start: Number(start), end: Number(end), voice };
  });
}

describe.skipIf(SAMPLES === undefined)("labelled recordings (needs models/samples)", () => {
  test("every utterance is found completely, and most of the silence is left out", async () => {
    const all = utterances(SAMPLES ?? "");
    let regionSeconds = 0;
    let recordedSeconds = 0;
    for (const file of new Set(all.map((utterance) => utterance.file))) {
      for (const [channel, path] of (await decode(join(SAMPLES ?? "", file))).entries()) {
        const regions = await detect(path);
        recordedSeconds += seconds(samplesOf(path).length);
        for (const region of regions) regionSeconds += seconds(region.endSample - region.startSample);
        for (const utterance of all) {
          if (utterance.file !== file || utterance.channel !== channel) continue;
          // This voice hums for up to 1.3 s after its last word, and the labels include that.
          const hum = utterance.voice === "fest-marathi_NSK_diphone" ? 1.3 : 0;
          const lost = uncovered(regions, utterance.start, utterance.end - hum);
          expect({ ...utterance, lost: lost > 0.02 ? lost : 0 }).toEqual({ ...utterance, lost: 0 });
        }
      }
    }
    // Utterances are 60 % of the recordings. The rest here is padding.
    expect(regionSeconds / recordedSeconds).toBeLessThan(0.75);
  }, 30_000);

  test("a quiet recording with the constant offset of a bad sound card has the same speech", async () => {
    const [path = ""] = await decode(samplePath("04-en"));
    const quiet = samplesOf(path).map((sample) => Math.round(sample / 4));
    const expected = await detect(pcm(quiet));
    expect(expected.length).toBeGreaterThan(1);
    for (const offset of [100, 500, -8000]) {
      const found = await detect(pcm(quiet.map((sample) => sample + offset)));
      const distances = found.flatMap((region, index) => [
        Math.abs(region.startSample - (expected[index]?.startSample ?? 0)),
        Math.abs(region.endSample - (expected[index]?.endSample ?? 0)),
      ]);
      // The mean of a block is that of its speech as well, so single windows may differ.
      expect({ offset, regions: found.length, isNear: Math.max(...distances) <= 0.1 * 16_000 }).toEqual({
        offset,
        regions: expected.length,
        isNear: true,
      });
    }
  });

  test("the result does not depend on the position in the file, nor on another call at the same time", async () => {
    const [path = ""] = await decode(samplePath("04-en"));
    const speech = samplesOf(path);
    const shift = 512 * 1000;
    const late = new Int16Array(shift + speech.length);
    late.set(speech, shift);
    const vad = openVad(nativeFiles);
    const [alone, shifted] = await Promise.all([vad.detectSpeech(path), vad.detectSpeech(pcm(late))]);
    expect(alone.length).toBeGreaterThan(0);
    expect(shifted.length).toBe(alone.length);
    for (const [index, region] of alone.entries()) {
      const moved = shifted[index];
      // The network has a state, so the edges may differ by one window.
      expect(Math.abs((moved?.startSample ?? 0) - shift - region.startSample)).toBeLessThanOrEqual(1024);
      expect(Math.abs((moved?.endSample ?? 0) - shift - region.endSample)).toBeLessThanOrEqual(1024);
    }
    expect(await vad.detectSpeech(path)).toEqual(alone);
  });

  test("an abort ends the detection with the next block", async () => {
    const [path = ""] = await decode(samplePath("12-en-long"));
    const controller = new AbortController();
    let found = 0;
    const work = detect(path, {
      signal: controller.signal,
      onFound: () => {
        found++;
        controller.abort();
      },
    });
    const error = await work.catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(DecodeError);
    expect((error as DecodeError).reason).toBe("aborted");
    expect(found).toBe(1);
  });
});

function uncovered(regions: SpeechRegion[], start: number, end: number): number {
  let covered = 0;
  for (const region of regions) {
    const from = Math.max(start, seconds(region.startSample));
    covered += Math.max(0, Math.min(end, seconds(region.endSample)) - from);
  }
  return Math.max(0, end - start - covered);
}

test("speech after a minute of loud noise is found from its beginning", async () => {
  const [speechPath = ""] = await decode(join(ROOT, "models/trial/jfk.wav"));
  const speech = samplesOf(speechPath);
  const noise = whiteNoise(60, 8_000);
  const whole = new Int16Array(noise.length + speech.length);
  whole.set(noise);
  whole.set(speech, noise.length);
  const first = (regions: SpeechRegion[]) => regions[0]?.startSample ?? 0;
  const alone = await detect(speechPath);
  const found = await detect(pcm(whole));
  expect(Math.abs(first(found) - noise.length - first(alone))).toBeLessThan(8_000);
});

test.skipIf(!existsSync(DATA))(
  "in a minute of real speech, silences of over a second are left out (needs ../shared/data)",
  async () => {
    const [path = ""] = await decode(join(DATA, "audio/silero_test.wav"));
    const regions = await detect(path);
    expect(regions.length).toBeGreaterThan(5);
    // Between these times the recording is silent, as its level shows.
    for (const [start, end] of [
      [7.7, 8.7],
      [47.7, 48.4],
    ] as const) {
      expect(uncovered(regions, start, end)).toBeCloseTo(end - start, 5);
    }
    expect(uncovered(regions, 20.5, 28.5)).toBe(0);
  },
);

describe("shapeRegions", () => {
  const region = (startMs: number, endMs: number) => ({ startSample: startMs * 16, endSample: endMs * 16 });
  const options = { minSpeechMs: 100, minSilenceMs: 300, paddingMs: 200 };

  test("joins regions across a short silence, and adds padding", () => {
    expect(shapeRegions([region(1000, 2000), region(2200, 3000)], 16 * 5000, options)).toEqual([
      region(800, 3200),
    ]);
  });

  test("joins regions before it drops short ones: clicks in a row count as speech", () => {
    const clicks = [region(1000, 1060), region(1100, 1160), region(1200, 1260)];
    expect(shapeRegions(clicks, 16 * 5000, options)).toEqual([region(800, 1460)]);
    expect(shapeRegions([region(1000, 1060)], 16 * 5000, options)).toEqual([]);
  });

  test("padding stays within the recording and within half of a silence", () => {
    const raw = [region(50, 1000), region(1310, 2000)];
    expect(shapeRegions(raw, 16 * 2100, options)).toEqual([region(0, 1155), region(1155, 2100)]);
  });

  test("cuts a last window that extends beyond the end", () => {
    expect(shapeRegions([region(1000, 2016)], 16 * 2010, options)).toEqual([region(800, 2010)]);
  });
});

describe("regions that are reported before the end", () => {
  const WINDOW_SAMPLES = 512;

  test("are the beginning of the returned regions, whatever the detector finds", () => {
    // Speech and silence in windows of 32 ms: clicks, breaths, sentences, long speeches.
    const stretch = fc.oneof(
      fc.integer({ min: 1, max: 4 }),
      fc.integer({ min: 5, max: 40 }),
      fc.integer({ min: 41, max: 500 }),
    );
    fc.assert(
      fc.property(
        fc.array(stretch, { maxLength: 40 }),
        fc.array(fc.integer({ min: 0, max: 240 }), { minLength: 1, maxLength: 900 }),
        fc.integer({ min: 1, max: 60 }),
        fc.constantFrom(600, 5_000),
        (stretches, levels, blockWindows, maxMs) => {
          const answers = stretches.flatMap((windows, n) => Array<boolean>(windows).fill(n % 2 === 1));
          const total = answers.length * WINDOW_SAMPLES;
          const values = answers.map((_, n) => levels[n % levels.length] ?? 0);
          const envelope = { frameSamples: WINDOW_SAMPLES, values };
          const reported: SpeechRegion[] = [];
          const limits = { maxSamples: maxMs * 16, gapSamples: 6_400 };
          const options = { limits };
          const tracked = trackRegions(0.5);
          const tell = foundReporter(tracked.regions, envelope, options, (found) => reported.push(...found));
          for (const [n, isSpeech] of answers.entries()) {
            tracked.take(isSpeech ? 0.9 : 0.1);
            if ((n + 1) % blockWindows === 0) tell((n + 1) * WINDOW_SAMPLES);
          }
          const all = finishedRegions(tracked.regions, total, envelope, options);
          expect(reported).toEqual(all.slice(0, reported.length));
        },
      ),
      { numRuns: 500 },
    );
  });

  test("take work in proportion to the recording's length", () => {
    const smallest = Math.min;
    let steps = 0;
    Math.min = (...values) => {
      steps++;
      return smallest(...values);
    };
    try {
      const tracked = trackRegions(0.5);
      // Counts the reads of regions.
      const counted = new Proxy(tracked.regions, {
        get(regions, name) {
          steps++;
          return Reflect.get(regions, name);
        },
      });
      const envelope = { frameSamples: WINDOW_SAMPLES, values: new Uint8Array(20_000).fill(100) };
      let found = 0;
      const limits = { maxSamples: 480_000, gapSamples: 6_400 };
      const tell = foundReporter(counted, envelope, { limits }, (regions) => {
        found += regions.length;
      });
      for (let window = 1; window <= 20_000; window++) {
        tracked.take(window % 20 < 8 ? 0.9 : 0.1);
        if (window % 20 === 0) tell(window * WINDOW_SAMPLES);
      }
      expect(found).toBeGreaterThan(900);
      // Each of the 1,000 calls must not look at all of the 1,000 regions: that would be a million steps.
      expect(steps).toBeLessThan(40_000);
    } finally {
      Math.min = smallest;
    }
  });

  test("arrive while the file is still being read", async () => {
    const speech = new Int16Array(45 * 16_000);
    const { pcm: said } = makeConversation([LOW_VOICE], 3, 5);
    for (let at = 0; at + said.length < speech.length; at += said.length + 16_000) speech.set(said, at);
    const reported: SpeechRegion[] = [];
    let reportedBeforeLast = 0;
    const regions = await detect(pcm(speech), {
      onFound: (found) => {
        reportedBeforeLast = reported.length;
        reported.push(...found);
      },
    });
    expect(reportedBeforeLast).toBeGreaterThan(3);
    expect(reported).toEqual(regions.slice(0, reported.length));
  });
});
