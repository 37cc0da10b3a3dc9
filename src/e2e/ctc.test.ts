import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { ModelList, TranscriptionResult } from "../http/wire/schemas.ts";
import { wordErrors } from "../pipeline/wer.ts";
import type { ApiClient } from "../testing/answers/api-client.ts";
import { bandNormModel, ctcModel } from "../testing/makers/onnx-makers.ts";
import {
  quantile,
  readTimedRecordings,
  wordErrors as timeErrors,
} from "../testing/makers/timed-recordings.ts";
import {
  separation,
  TIMED,
  TINY_CTC,
  type TinyRecording,
  tinyRecordings,
} from "../testing/makers/tiny-ctc.ts";
import {
  type Installation,
  install,
  type RunningServer,
  reached,
  type Status,
  setInConfig,
  until,
  uploaded,
} from "./kit.ts";
import { descendantsOf, footprintOf } from "./processes.ts";
import { refusal } from "./refusal.ts";
import { asChannels, joined, type Sound, wavOf, whiteNoise } from "./sounds.ts";

/** Tests a CTC model on the executable: the tiny one, beside the second one that serves English. */

let installation: Installation;
let server: RunningServer;
let api: ApiClient;
let source: string;

beforeAll(async () => {
  installation = await install();
  expect(readFileSync(installation.configPath, "utf8")).toMatch(/^#? ?word_timestamps = false$/m);
  setInConfig(installation, "word_timestamps", true);
  source = join(installation.folder, "tiny");
  cpSync(TINY_CTC, source, { recursive: true });
  const options = ["--features", "kaldi", "--licence", "ours"];
  await installation.output("models", "add", source, "--language", "hi", "--language", "en", ...options);
  await installation.output(
    "models",
    "add",
    source,
    "--id",
    "second",
    "--language",
    "en",
    "--language",
    "mr",
  );
  server = await (await installation.serve()).ready();
  api = server.api();
}, 300_000);

afterAll(async () => {
  if (server) expect(await server.stop()).toBe(0);
  await installation?.remove();
});

const soundOf = ({ pcm }: Pick<TinyRecording, "pcm">): Sound => ({
  rateHz: 16_000,
  channels: [Float32Array.from(pcm, (sample) => sample / 32_768)],
});
const PAUSE_SECONDS = 1.5;
const pause = whiteNoise(PAUSE_SECONDS, -75);
/** The recordings have this much silence before and after speech. */
const MARGIN_SECONDS = 0.1;

/** Joins recordings with pauses, and says when each of them is spoken. */
function conversation(recordings: readonly TinyRecording[]) {
  let at = 0;
  const said = recordings.map(({ text, pcm }) => {
    const seconds = pcm.length / 16_000;
    const start = at + PAUSE_SECONDS + MARGIN_SECONDS;
    at += PAUSE_SECONDS + seconds;
    return { text, start, end: at - MARGIN_SECONDS };
  });
  const parts = recordings.flatMap((recording) => [pause, soundOf(recording)]);
  return { sound: joined(...parts, pause), said, seconds: at + PAUSE_SECONDS };
}

type Wanted = {
  language: string;
  model?: string;
  mode?: "codemix" | "verbatim";
  channel_mode?: "separate";
  timestamps?: "word";
  diarization?: boolean;
};

async function transcribed(sound: Sound, wanted: Wanted): Promise<TranscriptionResult> {
  const uploadId = await uploaded(api, wavOf(sound));
  const { status, body } = await api.start({ audio: { upload_id: uploadId }, ...wanted });
  expect(status).toBe(202);
  expect(await reached(api, body.id)).toMatchObject({ state: "completed" });
  return api.result(body.id);
}

const isEnglish = ({ text }: { text: string }) => /^[a-z ]+$/.test(text);
const english = tinyRecordings.filter(isEnglish);

describe("a CTC model", () => {
  test("is listed with what it can do; what it cannot is announced, and refused", async () => {
    const { body } = await api.call<ModelList>("GET", "/v1/models");
    const [tiny, second] = [
      body.data.find(({ id }) => id === "tiny"),
      body.data.find(({ id }) => id === "second"),
    ];
    expect(tiny).toMatchObject({ default: true, default_languages: ["hi", "en"], modes: ["native"] });
    expect(tiny?.capabilities).toMatchObject({ "mode.native": "available", "mode.codemix": "coming_soon" });
    expect(second).toMatchObject({ default: false, default_languages: ["mr"] });
    const { id: uploadId } = await api.upload(wavOf(soundOf(tinyRecordings[0] as TinyRecording)));
    await until("the upload is verified", async () => {
      const upload = await api.call<{ state: string }>("GET", `/v1/uploads/${uploadId}`);
      return upload.body.state === "complete";
    });
    const audio = { upload_id: uploadId };
    for (const [request, code] of [
      [{ language: "hi", mode: "codemix" }, "422 unsupported_mode mode"],
      [{ language: "hi", mode: "verbatim" }, "422 unsupported_mode mode"],
      [{ language: "ta" }, "422 unsupported_language language"],
      [{ language: "mr", model: "tiny" }, "422 unsupported_language language"],
    ] as const) {
      expect(await refusal(api.start({ audio, ...request })), JSON.stringify(request)).toBe(code);
    }
  }, 60_000);

  test("hears words, at their times, and its confidence separates right from wrong", async () => {
    const judged: { isRight: boolean; value: number }[] = [];
    let errors = 0;
    let words = 0;
    let lateness: number[] = [];
    for (const [language, recordings] of [
      ["en", english],
      ["hi", tinyRecordings.filter((recording) => !isEnglish(recording))],
    ] as const) {
      const { sound, said } = conversation(recordings);
      const result = await transcribed(sound, { language });
      expect(result).toMatchObject({ model: "tiny", languages: [language] });
      // Some Hindi recordings have English words, which this model writes in Latin letters.
      expect(result.warnings.includes("script_mismatch")).toBe(language === "hi");
      const segments = result.segments.map((segment) => ({
        ...segment,
        start: segment.start ?? 0,
        end: segment.end ?? 0,
      }));
      for (const { text, start, end } of said) {
        const inside = segments.filter((segment) => segment.start < end && segment.end > start);
        const heard = inside.map((segment) => segment.text).join(" ");
        const edits = wordErrors(text, heard);
        const wrong = edits ? edits.substitutions + edits.deletions + edits.insertions : Number.NaN;
        errors += wrong;
        words += text.split(" ").length;
        judged.push({ isRight: wrong === 0, value: Math.min(...inside.map(({ confidence }) => confidence)) });
        const [first] = inside;
        const last = inside.at(-1);
        if (first && last) lateness = [...lateness, Math.abs(first.start - start), Math.abs(last.end - end)];
      }
    }
    expect(errors / words).toBeLessThanOrEqual(0.15);
    expect(separation(judged)).toBeGreaterThanOrEqual(0.8);
    expect(lateness).toHaveLength(2 * tinyRecordings.length);
    expect(Math.max(...lateness)).toBeLessThanOrEqual(0.15);
  }, 120_000);

  test("writes the reference's tokens for recordings that fit into a chunk, whatever pauses they have", async () => {
    const folder = join(installation.folder, "pauses");
    mkdirSync(folder);
    const paths = tinyRecordings.map((recording) => {
      const sound = soundOf(recording);
      const path = join(folder, recording.name);
      writeFileSync(path, wavOf(joined(whiteNoise(1, -75), sound, pause, sound, whiteNoise(0.5, -75))));
      return path;
    });
    const program = join(import.meta.dir, "../testing/programs/sherpa-reference.ts");
    const reference = Bun.spawnSync([process.execPath, program, "nemoCtc", TINY_CTC, ...paths]);
    const read = JSON.parse(reference.stdout.toString()) as { tokens: string[] }[];
    const options = ["--model", "tiny", "--language", "hi", "--format", "jsonl"];
    const out = await installation.output("transcribe", ...options, ...paths);
    const texts = out
      .trim()
      .split("\n")
      .map((line) => (JSON.parse(line) as { text: string }).text);
    const expected = read.map(({ tokens }) => tokens.join("").replaceAll("▁", " ").trim());
    expect(texts).toEqual(expected);
  }, 120_000);

  test("times the words of a recording of many chunks, on the recording's clock", async () => {
    const timed = readTimedRecordings(TIMED);
    const twice = [...timed, ...timed];
    let atMs = PAUSE_SECONDS * 1000;
    const said = twice.flatMap(({ pcm, words }) => {
      const startMs = atMs;
      atMs += pcm.length / 16 + PAUSE_SECONDS * 1000;
      const moved = (ms: number) => startMs + ms;
      return words.map((word) => ({ ...word, startMs: moved(word.startMs), endMs: moved(word.endMs) }));
    });
    const sound = joined(pause, ...twice.flatMap((recording) => [soundOf(recording), pause]));
    const { segments, warnings } = await transcribed(sound, { language: "hi", timestamps: "word" });
    expect(warnings).not.toContain("word_times_missing");
    const heard = segments.flatMap((segment) => {
      expect(segment.words?.map(({ text }) => text).join(" ")).toBe(segment.text);
      return (segment.words ?? []).map(({ start, end, ...word }) => ({
        ...{ ...word, startMs: 1000 * start, endMs: 1000 * end },
      }));
    });
    const errors = timeErrors(said, heard);
    expect(errors.length).toBeGreaterThan(0.85 * said.length);
    const starts = errors.map(({ startMs }) => Math.abs(startMs));
    expect(quantile(starts, 0.5)).toBeLessThanOrEqual(35);
    expect(quantile(starts, 0.95)).toBeLessThanOrEqual(200);
  }, 120_000);

  test("keeps channels and speakers apart, and gives silence and noise no words", async () => {
    const calls = [english.slice(0, 4), english.slice(4, 8)].map(conversation);
    const [left, right] = calls;
    if (!left || !right) throw new Error("there are not enough recordings");
    const stereo = await transcribed(asChannels(left.sound, right.sound), {
      language: "en",
      channel_mode: "separate",
    });
    for (const [channel, { said }] of calls.entries()) {
      const heard = stereo.segments.filter((segment) => segment.channel === channel).map(({ text }) => text);
      const all = said.map(({ text }) => text).join(" ");
      const { rate = 1 } = wordErrors(all, heard.join(" ")) ?? {};
      expect(rate).toBeLessThanOrEqual(0.25);
    }
    const diarized = await transcribed(left.sound, { language: "en", diarization: true });
    for (const { speaker } of diarized.segments) expect(speaker).toMatch(/^speaker_\d+$/);
    const nothing = await transcribed(whiteNoise(20, -50), { language: "en" });
    expect(nothing).toMatchObject({ text: "", segments: [], status: "completed" });
  }, 120_000);

  test("serves its languages beside another model, and results name the one that was used", async () => {
    const [recording] = english;
    if (!recording) throw new Error("there is no recording");
    const used = async (language: string) => (await transcribed(soundOf(recording), { language })).model;
    expect([await used("hi"), await used("en"), await used("mr")]).toEqual(["tiny", "tiny", "second"]);
    const version = (await installation.json<{ version: string }>("models", "show", "second")).version;
    await installation.output("models", "route", "en=second");
    await until("the server knows the choice", async () => (await used("en")) === "second");
    expect((await transcribed(soundOf(recording), { language: "en" })).version).toBe(version);
    expect((await transcribed(soundOf(recording), { language: "en", model: "tiny" })).model).toBe("tiny");
    await installation.output("models", "route", "en=");
    await until("the server knows that it was removed", async () => (await used("en")) === "tiny");
    const { code, err } = await installation.command("models", "route", "ta=second");
    expect(code).toBe(2);
    expect(err).toContain(
      "does not support the language Tamil (ta). Models that support it and could be installed:",
    );
  }, 120_000);
});

test("a model that takes samples is installed and writes only letters of the language's script", async () => {
  const raw = join(source, "raw");
  await installation.output("models", "add", raw, "--language", "en", "--language", "hi");
  const { family, engine } = await installation.json<{ family: string; engine: string }>(
    "models",
    "show",
    "raw",
  );
  expect({ family, engine }).toEqual({ family: "omnilingual_ctc", engine: "onnx-ctc" });
  const manifest = join(installation.dataDir, "models", "raw.toml");
  // It was never trained, so it is less sure of all text than the floor of its family.
  writeFileSync(
    manifest,
    readFileSync(manifest, "utf8").replace("[decoding]", "[decoding]\nunknown_below = 0"),
  );
  const [recording] = tinyRecordings;
  if (!recording) throw new Error("there is no recording");
  const english = await transcribed(soundOf(recording), { language: "en", model: "raw" });
  expect(english.text).toMatch(/^[a-z ]+$/);
  const hindi = await transcribed(soundOf(recording), { language: "hi", model: "raw" });
  expect(hindi.text).toMatch(/^[\p{Script=Devanagari} ]+$/u);
  await installation.output("models", "remove", "raw");
}, 60_000);

/** Two minutes of speech many times over: the model itself is much faster than everything around it. */
function longRecording(times: number): Uint8Array<ArrayBuffer> {
  const { sound } = conversation(tinyRecordings);
  return wavOf(joined(...Array.from({ length: times }, () => sound)));
}

describe("long work with a CTC model", () => {
  const gauge = async (name: string): Promise<number> => {
    const text = await (await fetch(`${server.baseUrl}/metrics`)).text();
    return Number(new RegExp(`^${name}(?:\\{\\})? (\\S+)$`, "m").exec(text)?.[1]);
  };

  test("is cancelled within two seconds, without an end of the process", async () => {
    const before = (await api.usage()).credit;
    const uploadId = await uploaded(api, longRecording(30));
    const { body } = await api.start({ audio: { upload_id: uploadId }, language: "hi" });
    await until("the engine is at work", async () => (await gauge("shruti_engine_places_busy")) > 0);
    const askedAt = performance.now();
    expect((await api.cancel(body.id)).state).toBe("cancelled");
    await until("the engine is still", async () => (await gauge("shruti_engine_places_busy")) === 0, 2_000);
    expect(performance.now() - askedAt).toBeLessThan(2_000);
    expect((await api.usage()).credit).toEqual(before);
    const { server: status } = await installation.json<Status>("status");
    expect(status?.models.find(({ id }) => id === "tiny")).toMatchObject({ restarts: 0 });
  }, 120_000);

  test("continues after kill -9 with the same text, in bounded memory, and is charged once", async () => {
    const bytes = longRecording(12);
    const uploadId = await uploaded(api, bytes);
    const request = { audio: { upload_id: uploadId }, language: "hi" };
    const balance = async () => (await api.usage()).credit.balance_paise;
    const before = await balance();
    const first = (await api.start(request)).body;
    expect(await reached(api, first.id, undefined, 120_000)).toMatchObject({ state: "completed" });
    const workers = descendantsOf(server.pid).map((pid) => footprintOf(pid).residentMiB);
    expect(Math.max(...workers)).toBeLessThan(400);
    const afterFirst = await balance();

    const second = (await api.start(request)).body;
    await until("some chunks are done", async () => ((await api.get(second.id)).progress ?? 0) > 0.1);
    await server.kill();
    server = await (await installation.serve()).ready();
    api = server.api();
    expect(await reached(api, second.id, undefined, 120_000)).toMatchObject({ state: "completed" });
    const [whole, resumed] = [await api.result(first.id), await api.result(second.id)];
    expect(resumed.text).toBe(whole.text);
    expect(resumed.segments).toEqual(whole.segments);
    expect(afterFirst - (await balance())).toBe(before - afterFirst);
  }, 300_000);

  test("survives the death of its process", async () => {
    const uploadId = await uploaded(api, longRecording(12));
    const { body } = await api.start({ audio: { upload_id: uploadId }, language: "hi" });
    await until("some chunks are done", async () => ((await api.get(body.id)).progress ?? 0) > 0.05);
    const { server: status } = await installation.json<Status>("status");
    const pid = status?.models.find(({ id }) => id === "tiny")?.pid;
    if (pid === undefined) throw new Error("the model is not loaded");
    process.kill(pid, "SIGKILL");
    expect(await reached(api, body.id, undefined, 120_000)).toMatchObject({ state: "completed" });
    expect((await api.result(body.id)).gaps ?? []).toEqual([]);
  }, 180_000);
});

describe("models add refuses, says why, and stores nothing", () => {
  const whole = readFileSync(join(TINY_CTC, "model.onnx"));
  const tokens = readFileSync(join(TINY_CTC, "tokens.txt"), "utf8");
  const changed = (from: string, to: string) => {
    const copy = Buffer.from(whole);
    copy.write(to, whole.indexOf(from));
    return copy;
  };
  const random = Uint8Array.from({ length: 100_000 }, (_, n) => (n * 7_919 + (n >> 3) * 131) & 0xff);
  type Folder = Record<string, Uint8Array | string>;
  const cases: [name: string, files: Folder, reason: string][] = [
    ["no tokens", { "model.onnx": whole }, "tokens.txt"],
    ["no model", { "tokens.txt": tokens }, "model.onnx"],
    ["empty", { "model.onnx": "", "tokens.txt": tokens }, "not an ONNX model"],
    [
      "cut",
      { "model.onnx": whole.subarray(0, 2_000_000), "tokens.txt": tokens },
      "not a complete ONNX model",
    ],
    ["random", { "model.onnx": random, "tokens.txt": tokens }, "ONNX model"],
    ["token missing", { "model.onnx": whole, "tokens.txt": tokens.replace("▁b 2\n", "") }, "of 90 tokens"],
    [
      "blank missing",
      { "model.onnx": whole, "tokens.txt": tokens.replace("<blk>", "x") },
      "must be the blank",
    ],
    [
      "factor 0",
      { "model.onnx": changed("factor\x12\x014", "factor\x12\x010"), "tokens.txt": tokens },
      "is 0, not 1",
    ],
    [
      "factor 8",
      { "model.onnx": changed("factor\x12\x014", "factor\x12\x018"), "tokens.txt": tokens },
      "about 4",
    ],
    [
      "factor 1",
      { "model.onnx": changed("factor\x12\x014", "factor\x12\x011"), "tokens.txt": tokens },
      "about 4",
    ],
    [
      "no factor",
      { "model.onnx": changed("subsampling", "subsamplung"), "tokens.txt": tokens },
      "no subsampling_factor",
    ],
    [
      "no vocab_size",
      { "model.onnx": changed("vocab_size", "vocab_sizo"), "tokens.txt": tokens },
      "no vocab_size",
    ],
    [
      "no normalization",
      { "model.onnx": changed("normalize_type", "normalize_typo"), "tokens.txt": tokens },
      "missing",
    ],
    [
      "broken graph",
      { "model.onnx": changed("ReduceMean", "RedaceMean"), "tokens.txt": tokens },
      "cannot use this model",
    ],
    ["other bins", { "model.onnx": ctcModel({ bins: 128 }), "tokens.txt": tokens }, "cannot use this model"],
    [
      "another family",
      { "model.onnx": bandNormModel(), "tokens.txt": tokens },
      "its inputs are not features",
    ],
    [
      "weights elsewhere",
      { "model.onnx": ctcModel({ external: { location: "../x" } }), "tokens.txt": tokens },
      "plain",
    ],
  ];
  for (const [name, files, reason] of cases) {
    test(name, async () => {
      const folder = join(installation.folder, "hostile");
      mkdirSync(folder);
      for (const [file, content] of Object.entries(files)) writeFileSync(join(folder, file), content);
      const models = join(installation.dataDir, "models");
      const before = readdirSync(models);
      const { code, out, err } = await installation.command("models", "add", folder, "--language", "hi");
      rmSync(folder, { recursive: true });
      expect(err).toContain(reason);
      expect(code).toBe(2);
      expect(out).toBe("");
      expect(readdirSync(models)).toEqual(before);
    }, 60_000);
  }

  test("no language, a language beyond the tokens, a taken id", async () => {
    for (const [options, reason] of [
      [[], "give each one with --language"],
      [["--language", "hi@0-90"], "not among the model's 90"],
      [["--language", "hi", "--id", "speakers"], "cannot be a model's id"],
      [["--language", "hi", "--sha256", "0".repeat(64)], "not 0000"],
    ] as const) {
      const { code, err } = await installation.command("models", "add", source, "--id", "other", ...options);
      expect(err).toContain(reason);
      expect(code).toBe(2);
    }
    expect((await installation.command("models", "add", source, "--language", "hi")).code).not.toBe(0);
  }, 60_000);

  test("a model that was damaged afterwards is found by verify", async () => {
    const path = join(installation.dataDir, "models/second/tokens.txt");
    writeFileSync(path, `${tokens}\n`);
    const { code, out } = await installation.command("models", "verify", "second");
    expect(code).not.toBe(0);
    expect(out).toContain("the SHA-256 of tokens.txt is");
    await installation.output("models", "remove", "second");
    expect(readdirSync(join(installation.dataDir, "models")).sort()).toEqual(["tiny", "tiny.toml"]);
  }, 60_000);
});
