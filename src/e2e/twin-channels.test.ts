import { afterAll, beforeAll, expect, test } from "bun:test";
import { apiClient } from "../testing/answers/api-client.ts";
import { openTestApp, type TestApp } from "../testing/kits/open-test-app.ts";
import { scriptedAudio } from "../testing/kits/scripted-engine.ts";

/** Recordings whose channels have the same sound. */

let testApp: TestApp;
beforeAll(async () => {
  testApp = await openTestApp();
});
afterAll(() => testApp.close());

test("two channels with the same sound are recognized once, written for both, and charged as requested", async () => {
  const api = apiClient(testApp.as(testApp.key));
  const upload = await api.upload(
    scriptedAudio({ seconds: 4, channels: 2, isDoubled: true, text: "one two" }),
  );
  const start = async (channel_mode: "mix" | "separate") => {
    const before = testApp.engine.chunks();
    const { body } = await api.start({ audio: { upload_id: upload.id }, language: "en", channel_mode });
    const { progress } = await api.finished(body.id);
    return { progress, chunks: testApp.engine.chunks() - before, result: await api.result(body.id) };
  };
  const apart = await start("separate");
  expect(apart.chunks).toBe(1);
  expect(apart.progress).toBe(1);
  expect(apart.result.warnings).toEqual(["identical_channels"]);
  expect(apart.result.text).toBe("[channel 0] one two\n[channel 1] one two");
  expect(apart.result.segments.map(({ channel, start, end }) => ({ channel, start, end }))).toEqual([
    { channel: 0, start: 0, end: 4 },
    { channel: 1, start: 0, end: 4 },
  ]);
  const mixed = await start("mix");
  expect(mixed.result.text).toBe("one two");
  const { data } = await api.usage();
  expect(data.map(({ billed_seconds }) => billed_seconds)).toEqual([4, 8]);
});

test("two channels with the same sound have speakers as well", async () => {
  const api = apiClient(testApp.as(testApp.key));
  const script = { seconds: 4, channels: 2, isDoubled: true, text: "one two three four", speakers: [0, 1] };
  const upload = await api.upload(scriptedAudio(script));
  const { body } = await api.start({
    audio: { upload_id: upload.id },
    language: "en",
    channel_mode: "separate",
    diarization: true,
  });
  await api.finished(body.id);
  const { segments } = await api.result(body.id);
  const of = (wanted: number) => segments.filter(({ channel }) => channel === wanted).map(({ text }) => text);
  expect(of(0)).toEqual(["one two", "three four"]);
  expect(of(1)).toEqual(of(0));
});
