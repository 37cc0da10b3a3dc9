import { afterAll, beforeAll, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { systemClock } from "../lib/clock.ts";
import { type ApiClient, apiClient } from "../testing/answers/api-client.ts";
import { parseSrt, parseVtt } from "../testing/answers/subtitle-parsers.ts";
import { openTestApp, type TestApp } from "../testing/kits/open-test-app.ts";
import { runCaptured } from "../testing/kits/run-cli.ts";
import { scriptedAudio } from "../testing/kits/scripted-engine.ts";

/** Compares one result in each format, over HTTP and from the command line. */

let testApp: TestApp;
let api: ApiClient;
beforeAll(async () => {
  testApp = await openTestApp({ canTimeWords: true, config: { capabilities: { word_timestamps: true } } });
  api = apiClient(testApp.as(testApp.key));
  writeFileSync(
    join(testApp.directory, "shruti.toml"),
    `[storage]\ndata_dir = ${JSON.stringify(testApp.directory)}\n`,
  );
});
afterAll(() => testApp.close());

const TEXT =
  "Good morning & welcome. My order number is four two. नमस्ते, मेरा ऑर्डर नंबर चार दो है और मुझे उसकी जानकारी चाहिए।";

async function finishedWith(
  request: { diarization?: boolean; channel_mode?: "separate"; timestamps?: "none" | "word" },
  script: Partial<Parameters<typeof scriptedAudio>[0]> = {},
): Promise<string> {
  const audio = scriptedAudio({ seconds: 4, text: TEXT, ...script });
  const upload = await api.upload(audio);
  const { body } = await api.start({
    audio: { upload_id: upload.id },
    language: "hi",
    mode: "codemix",
    ...request,
  });
  expect((await api.finished(body.id)).state).toBe("completed");
  return body.id;
}

async function fetchAs(id: string, accept: string): Promise<string> {
  const response = await api.send(`/v1/transcriptions/${id}/result`, { headers: { accept } });
  expect(response.status).toBe(200);
  expect(response.headers.get("content-type")).toStartWith(accept);
  return response.text();
}

function showing(id: string, format: string, ...options: string[]) {
  const environment = { SHRUTI_CONFIG: join(testApp.directory, "shruti.toml") };
  const argv = ["transcriptions", "show", id, "--format", format, ...options];
  return runCaptured(argv, environment, systemClock);
}

async function show(id: string, format: string, ...options: string[]): Promise<string> {
  const { status, out } = await showing(id, format, ...options);
  expect(status).toBe(0);
  return out;
}

const FORMS = [
  ["srt", "application/x-subrip"],
  ["vtt", "text/vtt"],
  ["text", "text/plain"],
] as const;

test("with speakers, each format over HTTP equals the output of the command line", async () => {
  const id = await finishedWith({ diarization: true }, { speakers: [0, 1] });
  const [srt = "", vtt = "", text = ""] = await Promise.all(FORMS.map(([, accept]) => fetchAs(id, accept)));
  for (const [index, [format]] of FORMS.entries())
    expect(await show(id, format)).toBe([srt, vtt, text][index] ?? "");
  const cues = parseVtt(vtt);
  expect(new Set(cues.map(({ speaker }) => speaker))).toEqual(new Set(["speaker_1", "speaker_2"]));
  expect(parseSrt(srt).some(({ lines }) => lines[0]?.startsWith("speaker_2: "))).toBe(true);
  expect(text).toMatch(/^speaker_1: .+\nspeaker_2: .+\n$/u);
  const spoken = cues.flatMap(({ lines }) => lines).join(" ");
  expect(spoken).toContain("Good morning & welcome.");
  expect(cues.at(-1)?.endMs).toBe(4_000);
  const body = JSON.parse(await fetchAs(id, "application/json")) as { text: string };
  expect(JSON.parse(await show(id, "json"))).toEqual(body);
  expect(spoken).toBe(body.text);
});

test("with channels, both name the channel", async () => {
  const id = await finishedWith({ channel_mode: "separate" }, { channels: 2, text: "one two three" });
  for (const parse of [
    parseSrt(await fetchAs(id, "application/x-subrip")),
    parseVtt(await fetchAs(id, "text/vtt")),
  ]) {
    expect(parse.map(({ lines }) => lines.join(" "))).toEqual([
      "[channel 0] one two three",
      "[channel 1] one two three",
    ]);
  }
  expect(await fetchAs(id, "text/plain")).toBe("[channel 0] one two three\n[channel 1] one two three\n");
});

test("without timestamps JSON has no times, and subtitles have times nevertheless", async () => {
  const id = await finishedWith({ timestamps: "none" });
  const body = JSON.parse(await fetchAs(id, "application/json")) as { segments: object[] };
  expect(body.segments.length).toBeGreaterThan(0);
  for (const segment of body.segments) {
    expect(segment).not.toHaveProperty("start");
    expect(segment).not.toHaveProperty("end");
  }
  expect(parseVtt(await fetchAs(id, "text/vtt")).length).toBeGreaterThan(0);
  const timed = await finishedWith({});
  const { segments } = JSON.parse(await fetchAs(timed, "application/json")) as { segments: object[] };
  expect(segments[0]).toMatchObject({ start: 0, end: 4 });
});

test("for silence, the formats are empty and valid", async () => {
  const id = await finishedWith({}, { text: "" });
  expect(parseSrt(await fetchAs(id, "application/x-subrip"))).toEqual([]);
  expect(parseVtt(await fetchAs(id, "text/vtt"))).toEqual([]);
  expect(await fetchAs(id, "text/plain")).toBe("");
});

test("with word times, each format over HTTP equals the output of the command line", async () => {
  const id = await finishedWith({ timestamps: "word", diarization: true }, { speakers: [0, 1] });
  const limits = "max_line_characters=20&max_lines=1&max_cue_seconds=3";
  const options = ["--max-line-characters", "20", "--max-lines", "1", "--max-cue-seconds", "3"];
  for (const [query, format, ...given] of [
    ["format=ctm", "ctm"],
    ["format=vtt&word_times=1", "vtt", "--word-times"],
    [`format=srt&${limits}`, "srt", ...options],
    [`format=vtt&word_times=1&${limits}`, "vtt", "--word-times", ...options],
  ] as const) {
    const response = await api.send(`/v1/transcriptions/${id}/result?${query}`);
    expect(response.status).toBe(200);
    expect(await response.text()).toBe(await show(id, format, ...given));
  }
  const words = (await show(id, "ctm")).trimEnd().split("\n");
  expect(words.map((line) => line.split(" ")[4]).join(" ")).toBe(
    (JSON.parse(await show(id, "json")) as { text: string }).text,
  );
});

test("what needs word times is refused where the transcription has none", async () => {
  const id = await finishedWith({});
  for (const [format, ...options] of [["ctm"], ["vtt", "--word-times"]] as const) {
    const { status, out, err } = await showing(id, format, ...options);
    expect({ status, out }).toEqual({ status: 5, out: "" });
    expect(err).toContain("have no times");
  }
  expect((await showing(id, "text", "--max-lines", "1")).status).toBe(2);
});
