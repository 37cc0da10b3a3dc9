import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pcmOf, utterancesIn, wavFile } from "../e2e/samples.ts";
import { sampleSound } from "../e2e/sounds.ts";
import { systemClock } from "../lib/clock.ts";
import { testConfig } from "../testing/kits/test-config.ts";
import { randomFrom } from "../testing/makers/voices.ts";
import { openLocalTranscriber } from "./local.ts";

const SAMPLE_RATE_HZ = 16_000;
const LEAST_SECONDS = 240;

let directory: string;
let transcriber: Awaited<ReturnType<typeof openLocalTranscriber>>;
beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), "shruti-local-"));
  const environment = { XDG_CACHE_HOME: directory };
  const config = testConfig({
    storage: { data_dir: join(directory, "data") },
    models: { default: "demo" },
    // The nets know people, and take these synthetic voices for one.
    engine: { diarization: "acoustic" },
  });
  transcriber = await openLocalTranscriber({ config, clock: systemClock, environment });
});
afterAll(async () => {
  await transcriber.close();
  rmSync(directory, { recursive: true, force: true });
});

function writeWav(name: string, pcm: Int16Array): string {
  const path = join(directory, name);
  const bytes = new Uint8Array(pcm.buffer, pcm.byteOffset, pcm.byteLength);
  writeFileSync(path, wavFile([bytes], { rateHz: SAMPLE_RATE_HZ, channels: 1 }));
  return path;
}

/** Cuts the single utterances out of samples, at 16 kHz. */
function utterancesOf(names: readonly string[]): Int16Array[] {
  return names.flatMap((name) => {
    const whole = new Int16Array(pcmOf(name).buffer);
    const at = (seconds: number) => Math.round(seconds * SAMPLE_RATE_HZ);
    return utterancesIn(name).map(({ start, end }) => whole.slice(at(start), at(end)));
  });
}

test("in a recording of some minutes every utterance keeps its start, after silences of up to half a minute", async () => {
  const random = randomFrom(11);
  const silence = (seconds: number) =>
    Int16Array.from({ length: Math.round(seconds * SAMPLE_RATE_HZ) }, () => Math.round(random() * 6 - 3));
  const parts: Int16Array[] = [];
  const startsMs: number[] = [];
  let samples = 0;
  const append = (pcm: Int16Array) => {
    parts.push(pcm);
    samples += pcm.length;
  };
  const utterances = utterancesOf(["04-en", "12-en-long"]);
  for (let n = 0; samples < LEAST_SECONDS * SAMPLE_RATE_HZ; n++) {
    append(silence(random() < 0.2 ? 30 * random() : 2 + 10 * random()));
    startsMs.push((samples * 1000) / SAMPLE_RATE_HZ);
    append(utterances[n % utterances.length] ?? silence(0));
  }
  append(silence(3));
  const whole = new Int16Array(samples);
  let filled = 0;
  for (const part of parts) {
    whole.set(part, filled);
    filled += part.length;
  }
  const plan = transcriber.plan({ language: "en", mode: "native", isDiarized: false, channelMode: "mix" });
  const result = await transcriber.transcribe(plan, writeWav("clock.wav", whole), () => undefined);
  const late = startsMs.map((startMs) => {
    const nearest = Math.min(...result.segments.map((segment) => Math.abs(segment.startMs - startMs)));
    return { startMs, nearest };
  });
  expect(late.filter(({ nearest }) => nearest > 200)).toEqual([]);
  for (const [index, { startMs, endMs }] of result.segments.entries()) {
    expect(startMs).toBeGreaterThanOrEqual(result.segments[index - 1]?.endMs ?? 0);
    expect(endMs).toBeGreaterThan(startMs);
    expect(endMs).toBeLessThanOrEqual(result.durationMs);
  }
}, 120_000);

test("two voices become two speakers by the acoustic method, with the real engine", async () => {
  // Both sides of the call, one after the other on one channel.
  const [near = new Int16Array(), far = new Int16Array()] = sampleSound("10-en-stereo").channels.map(
    (channel) => Int16Array.from(channel, (value) => Math.round(value * 32_767)),
  );
  const pause = new Int16Array(SAMPLE_RATE_HZ);
  const said = utterancesIn("10-en-stereo").map(({ channel, start, end }) =>
    (channel === 0 ? near : far).slice(start * SAMPLE_RATE_HZ, end * SAMPLE_RATE_HZ),
  );
  const parts = [...said, ...said].flatMap((utterance) => [utterance, pause]);
  const pcm = new Int16Array(parts.reduce((sum, { length }) => sum + length, 0));
  let filled = 0;
  for (const part of parts) {
    pcm.set(part, filled);
    filled += part.length;
  }
  const plan = transcriber.plan({ language: "en", mode: "native", isDiarized: true, channelMode: "mix" });
  const { segments } = await transcriber.transcribe(plan, writeWav("two.wav", pcm), () => undefined);
  expect(segments.length).toBeGreaterThan(2);
  expect(new Set(segments.map(({ speaker }) => speaker))).toEqual(new Set(["speaker_1", "speaker_2"]));
  expect(segments[0]?.speaker).toBe("speaker_1");
}, 60_000);
