import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { scoreDiarization } from "../testing/kits/der.ts";
import {
  HIGH_VOICE,
  LOW_VOICE,
  type MadeConversation,
  type MadeVoice,
  makeConversation,
  ROUGH_VOICE,
} from "../testing/makers/voices.ts";
import { diarizeAcoustically } from "./diarize.ts";
import type { DiarizeJob } from "./job.ts";

let directory: string;
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), "shruti-diarize-"));
});
afterAll(() => rmSync(directory, { recursive: true, force: true }));

let files = 0;
function trackOf({ pcm, regions }: Pick<MadeConversation, "pcm" | "regions">) {
  const pcmPath = join(directory, `${files++}.pcm`);
  writeFileSync(pcmPath, new Uint8Array(pcm.buffer, pcm.byteOffset, pcm.byteLength));
  return { pcmPath, regions };
}

async function run(voices: readonly MadeVoice[], seconds: number, bounds: Omit<DiarizeJob, "tracks"> = {}) {
  const conversation = makeConversation(voices, seconds, 7);
  const signal = new AbortController().signal;
  const outcome = await diarizeAcoustically({ tracks: [trackOf(conversation)], ...bounds }, signal);
  const turns = (outcome.turns[0] ?? []).map((turn) => ({ ...turn, speaker: `heard ${turn.speaker}` }));
  const speakers = new Set(turns.map(({ speaker }) => speaker)).size;
  const der = scoreDiarization(conversation.turns, turns, { collarMs: 250 });
  return { ...outcome, speakers, der, turns };
}

describe("speakers are distinguished without weights", () => {
  test("two speakers, when the number is given", async () => {
    const { der, speakers } = await run([LOW_VOICE, HIGH_VOICE], 60, { minSpeakers: 2, maxSpeakers: 2 });
    expect(speakers).toBe(2);
    expect(der.errorRate).toBeLessThan(0.05);
  });

  test("one, two or three speakers, when the number is not given", async () => {
    for (const voices of [[LOW_VOICE], [LOW_VOICE, HIGH_VOICE], [LOW_VOICE, HIGH_VOICE, ROUGH_VOICE]]) {
      const { der, speakers, isCountUncertain } = await run(voices, 40 * voices.length);
      expect(speakers).toBe(voices.length);
      expect(der.errorRate).toBeLessThan(0.05);
      expect(isCountUncertain).toBe(false);
    }
  });

  test("one speaker when the number is one; bounds are kept", async () => {
    const one = await run([LOW_VOICE, HIGH_VOICE], 30, { minSpeakers: 1, maxSpeakers: 1 });
    expect(one.speakers).toBe(1);
    const three = await run([LOW_VOICE, HIGH_VOICE, ROUGH_VOICE], 60, { minSpeakers: 1, maxSpeakers: 2 });
    expect(three.speakers).toBe(2);
    const two = await run([LOW_VOICE], 60, { minSpeakers: 2, maxSpeakers: 3 });
    expect(two.speakers).toBeGreaterThanOrEqual(2);
  });

  test("more requested speakers than there is speech for make the number uncertain", async () => {
    const { speakers, isCountUncertain } = await run([LOW_VOICE], 3, { minSpeakers: 20, maxSpeakers: 20 });
    expect(speakers).toBeLessThan(20);
    expect(isCountUncertain).toBe(true);
  });

  test("two nearly equal voices make the number uncertain", async () => {
    const alike = { ...LOW_VOICE, tract: 0.97, pitchHz: LOW_VOICE.pitchHz * 1.03 };
    const { isCountUncertain } = await run([LOW_VOICE, alike], 120);
    expect(isCountUncertain).toBe(true);
  });

  test("turns are in order, do not overlap, and are within the detected speech", async () => {
    const { turns } = await run([LOW_VOICE, HIGH_VOICE], 30);
    for (const [index, { startMs, endMs }] of turns.entries()) {
      expect(endMs).toBeGreaterThan(startMs);
      expect(startMs).toBeGreaterThanOrEqual((turns[index - 1]?.endMs ?? 15) - 15);
    }
  });
});

describe("channels", () => {
  test("different channels have different speakers, however similar they sound", async () => {
    const tracks = [1, 2].map((seed) => trackOf(makeConversation([LOW_VOICE], 30, seed)));
    const { turns } = await diarizeAcoustically({ tracks }, new AbortController().signal);
    const [first, second] = turns.map((track) => [...new Set(track.map(({ speaker }) => speaker))]);
    expect(first).toHaveLength(1);
    expect(second).toHaveLength(1);
    expect(first).not.toEqual(second);
  });

  test("channels share a speaker when fewer speakers than channels are requested", async () => {
    const tracks = [1, 2].map((seed) => trackOf(makeConversation([LOW_VOICE], 20, seed)));
    const job = { tracks, minSpeakers: 1, maxSpeakers: 1 };
    const { turns } = await diarizeAcoustically(job, new AbortController().signal);
    expect(new Set(turns.flat().map(({ speaker }) => speaker)).size).toBe(1);
  });

  test("a given number counts the speakers of all channels", async () => {
    const tracks = [
      trackOf(makeConversation([LOW_VOICE], 40, 3)),
      trackOf(makeConversation([HIGH_VOICE, ROUGH_VOICE], 60, 4)),
    ];
    const job = { tracks, minSpeakers: 3, maxSpeakers: 3 };
    const { turns } = await diarizeAcoustically(job, new AbortController().signal);
    expect(turns.map((track) => new Set(track.map(({ speaker }) => speaker)).size)).toEqual([1, 2]);
  });

  test("an empty channel beside a full one, no speech at all, and speech that is too short", async () => {
    const full = trackOf(makeConversation([LOW_VOICE], 10, 5));
    const empty = trackOf({ pcm: new Int16Array(0), regions: [] });
    const signal = new AbortController().signal;
    const { turns } = await diarizeAcoustically({ tracks: [empty, full] }, signal);
    expect(turns[0]).toEqual([]);
    expect(turns[1]?.length).toBeGreaterThan(0);
    expect(await diarizeAcoustically({ tracks: [empty] }, signal)).toEqual({
      turns: [[]],
      isCountUncertain: false,
    });
    const short = trackOf({ pcm: new Int16Array(1_600), regions: [{ startSample: 0, endSample: 800 }] });
    expect((await diarizeAcoustically({ tracks: [short] }, signal)).turns).toEqual([
      [{ startMs: 0, endMs: 50, speaker: 0 }],
    ]);
  });
});

test("digital silence within detected speech does no harm", async () => {
  const track = trackOf({ pcm: new Int16Array(160_000), regions: [{ startSample: 0, endSample: 160_000 }] });
  const job = { tracks: [track], minSpeakers: 2, maxSpeakers: 2 };
  const { turns } = await diarizeAcoustically(job, new AbortController().signal);
  expect(turns.flat().length).toBeGreaterThan(0);
});

test("an abort ends the work at once", async () => {
  const track = trackOf(makeConversation([LOW_VOICE, HIGH_VOICE], 240, 6));
  const controller = new AbortController();
  const running = diarizeAcoustically({ tracks: [track] }, controller.signal);
  await Bun.sleep(100);
  const abortedAt = performance.now();
  controller.abort(new Error("enough"));
  await expect(running).rejects.toThrow("enough");
  await running.catch(() => undefined);
  expect(performance.now() - abortedAt).toBeLessThan(2_500);
});
