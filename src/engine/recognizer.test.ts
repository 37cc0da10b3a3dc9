import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { ModelFiles } from "../domain/model.ts";
import { mappedFiles } from "../e2e/processes.ts";
import { pcmOf } from "../e2e/samples.ts";
import type { ModelFamily } from "../families/contract.ts";
import { FAMILIES as PRODUCT } from "../families/families.ts";
import { extractNativeFiles, type NativeFiles } from "../native/native-files.ts";
import { filesOf } from "../services/models/model-files.ts";
import { engineOptions } from "../testing/kits/test-config.ts";
import { writeIndic } from "../testing/makers/indic-maker.ts";
import { writeTdtModel } from "../testing/makers/tdt-model.ts";
import { SCRIPTED_FAMILY, scriptedFamily, scriptedFiles } from "../testing/scripted-family/family.ts";
import { spawnScripted } from "../testing/scripted-family/recognizer.ts";
import { EngineError, type WorkerOutcome, type WorkerPart } from "./protocol.ts";
import { createWorkerHost, type HostOptions, type WorkerHost } from "./workers/worker-host.ts";

/**
 * The contract of every model family, both halves together, tested through a worker: those of the program in a
 * process, the scripted one in this process.
 */

type Family = {
  name: string;
  family: ModelFamily;
  files: ModelFiles;
  /** The same model with a file that cannot be used. */
  damaged: ModelFiles;
  spawn?: typeof spawnScripted;
};

const folder = mkdtempSync(join(tmpdir(), "shruti-recognizer-"));
const model = { languages: [{ code: "en", name: "English", modes: ["native" as const] }], decoding: {} };
const speech = join(folder, "speech.pcm");
const silence = join(folder, "silence.pcm");
let nativeFiles: NativeFiles;
let samples = 0;
const hosts: WorkerHost[] = [];

/** Makes an IndicConformer in its published layout. */
function indicFiles(path: string): ModelFiles {
  writeIndic(path);
  const files = PRODUCT.of("indic_ctc").given(path)?.files() ?? [];
  return filesOf(PRODUCT.of("indic_ctc"), files);
}

const FAMILIES: Family[] = [
  {
    name: "whisper",
    family: PRODUCT.of("whisper"),
    files: { weights: join(import.meta.dir, "../../models/demo.bin") },
    damaged: { weights: join(folder, "damaged/model.txt") },
  },
  {
    name: "nemo_ctc",
    family: PRODUCT.of("nemo_ctc"),
    files: {
      model: join(import.meta.dir, "../../models/tiny-ctc/model.onnx"),
      tokens: join(import.meta.dir, "../../models/tiny-ctc/tokens.txt"),
    },
    damaged: { model: join(folder, "damaged/model.txt"), tokens: join(folder, "damaged/tokens.txt") },
  },
  {
    name: "omnilingual_ctc",
    family: PRODUCT.of("omnilingual_ctc"),
    files: {
      model: join(import.meta.dir, "../../models/tiny-ctc/raw/model.onnx"),
      tokens: join(import.meta.dir, "../../models/tiny-ctc/raw/tokens.txt"),
    },
    damaged: { model: join(folder, "damaged/model.txt"), tokens: join(folder, "damaged/tokens.txt") },
  },
  {
    name: "nemo_tdt",
    family: PRODUCT.of("nemo_tdt"),
    files: { weights: join(folder, "tdt.gguf") },
    damaged: { weights: join(folder, "damaged/model.txt") },
  },
  {
    name: "indic_ctc",
    family: PRODUCT.of("indic_ctc"),
    files: indicFiles(join(folder, "indic")),
    damaged: { ...indicFiles(join(folder, "damaged-indic")), head: join(folder, "damaged/model.txt") },
  },
  {
    name: SCRIPTED_FAMILY,
    family: scriptedFamily,
    files: scriptedFiles(join(folder, "scripted")),
    damaged: scriptedFiles(join(folder, "damaged")),
    spawn: spawnScripted,
  },
];

beforeAll(async () => {
  nativeFiles = await extractNativeFiles(folder);
  await writeTdtModel("parakeet", join(folder, "tdt.gguf"));
  const pcm = new Uint8Array(pcmOf("04-en").buffer);
  samples = pcm.length / 2;
  writeFileSync(speech, pcm);
  writeFileSync(silence, new Uint8Array(pcm.length));
  for (const name of ["scripted", "damaged"]) {
    mkdirSync(join(folder, name));
    writeFileSync(join(folder, name, "model.txt"), "turn on the light");
  }
  writeFileSync(join(folder, "scripted/tokens.txt"), "turn\non\nthe\nlight");
  writeFileSync(join(folder, "damaged/tokens.txt"), "turn\non");
});
afterAll(async () => {
  for (const host of hosts) await host.stop(true);
  rmSync(folder, { recursive: true, force: true });
});

function openHost(opens: WorkerPart[], more: Partial<HostOptions> = {}): WorkerHost {
  const host = createWorkerHost({
    nativeFiles,
    backendDirs: [],
    engine: engineOptions(),
    log: () => {},
    opens,
    ...more,
  });
  hosts.push(host);
  return host;
}

describe.each(FAMILIES)("models of the family $name", ({ name, family, files, damaged, spawn }) => {
  const settings = family.settingsFor({ language: "en", mode: "native" }, model);
  const spawned = spawn ? { spawn } : {};
  let host: WorkerHost;
  beforeAll(() => {
    host = openHost([name], { load: { files, device: "cpu" }, ...spawned });
  });

  async function recognize(
    pcmPath: string,
    {
      seconds = samples / 16_000,
      times = 1,
      chosen = settings,
      signal = new AbortController().signal,
      on = host,
    } = {},
  ): Promise<WorkerOutcome> {
    const length = Math.floor(seconds * 16_000);
    const slices = Array.from({ length: times }, (_, index) => ({
      sourceStartSample: 0,
      samples: length,
      targetStartSample: index * length,
    }));
    const audio = { pcmPath, slices, totalSamples: times * length };
    const request = { type: "transcribe", audio, settings: chosen, threads: 1 } as const;
    const reply = await on.request(request, { signal, timeoutMs: 60_000, isAlone: false });
    if (reply.type !== "transcribed") throw new Error(reply.type);
    return reply.outcome;
  }

  test("have chunks that fit a window or are cut at it, and settings that can be sent in a message", () => {
    expect(family.windowMs).toBeGreaterThan(0);
    expect(family.maxChunkMs).toBeGreaterThanOrEqual(1_000);
    for (const each of [
      settings,
      family.singlePass(settings),
      family.secondAttempt?.(settings) ?? settings,
    ]) {
      expect(JSON.parse(JSON.stringify(each))).toEqual(each);
      expect(each.language).toBe("en");
    }
    if (family.secondAttempt) expect(family.secondAttempt(settings)).not.toEqual(settings);
  });

  test("recognize words in speech, in order and within the audio", async () => {
    const { segments } = await recognize(speech);
    expect(segments.length).toBeGreaterThan(0);
    let previousEndMs = 0;
    for (const { startMs, endMs, text, confidence, language, noSpeechProbability } of segments) {
      expect(text.trim()).not.toBe("");
      expect(startMs).toBeGreaterThanOrEqual(previousEndMs);
      expect(endMs).toBeGreaterThan(startMs);
      expect(endMs).toBeLessThanOrEqual(samples / 16 + 1_000);
      expect(confidence).toBeGreaterThan(0);
      expect(confidence).toBeLessThanOrEqual(1);
      expect(language).toBe("en");
      expect(noSpeechProbability ?? 0).toBeLessThanOrEqual(1);
      previousEndMs = endMs;
    }
  }, 60_000);

  test("give words times where they are asked to, and only then", async () => {
    const found = async (words: boolean) =>
      (await recognize(speech, { chosen: { ...settings, words } })).segments;
    expect((await found(false)).filter((segment) => segment.words !== undefined)).toEqual([]);
    if (!family.canTimeWords({ files, decoding: {} })) return;
    let before = 0;
    for (const { text, startMs, endMs, words = [] } of await found(true)) {
      expect(words.map((word) => word.text).join("")).toBe(text.replace(/\s/gu, ""));
      before = Math.max(before, startMs);
      for (const word of words) {
        expect(word.startMs).toBeGreaterThanOrEqual(before);
        expect(word.endMs).toBeGreaterThanOrEqual(word.startMs);
        before = word.endMs;
      }
      expect(endMs).toBeGreaterThanOrEqual(before);
    }
  }, 60_000);

  test("accept all their settings, also for chunks at the same time", async () => {
    const all = [settings, family.singlePass(settings), family.secondAttempt?.(settings) ?? settings];
    const outcomes = await Promise.all(all.map((chosen) => recognize(speech, { chosen, seconds: 5 })));
    for (const { segments, elapsedMs } of outcomes) {
      expect(segments.length).toBeGreaterThan(0);
      expect(elapsedMs).toBeGreaterThanOrEqual(0);
    }
  }, 60_000);

  test("stop within two seconds when aborted, and continue with the next chunk", async () => {
    const stop = new AbortController();
    // Long enough to be running still, also in the smallest model.
    const aborted = recognize(speech, { times: 60, signal: stop.signal }).catch(
      (error: EngineError) => error.kind,
    );
    await Bun.sleep(20);
    const startedAt = performance.now();
    stop.abort();
    expect(await aborted).toBe("aborted");
    expect(performance.now() - startedAt).toBeLessThan(2_000);
    expect((await recognize(speech, { seconds: 5 })).segments.length).toBeGreaterThan(0);
  }, 60_000);

  test("whose audio is missing fail for that chunk only", async () => {
    const failed = await recognize(join(folder, "missing.pcm")).catch((error: EngineError) => error.kind);
    expect(failed).toBe("failed");
    expect((await recognize(silence, { seconds: 2 })).elapsedMs).toBeGreaterThanOrEqual(0);
    expect(host.status().restarts).toBe(0);
  }, 60_000);

  test("with files that cannot be used are refused with a reason", async () => {
    for (const bad of [damaged, { weights: join(folder, "none"), ...scriptedFiles(join(folder, "none")) }]) {
      const broken = openHost([name], { load: { files: bad, device: "cpu" }, ...spawned });
      const error = await recognize(speech, { on: broken }).catch((caught: EngineError) => caught);
      expect(error).toBeInstanceOf(EngineError);
      expect(error).toMatchObject({ kind: "unusable_model" });
      expect((error as EngineError).message.length).toBeGreaterThan(5);
    }
  }, 60_000);
});

test("a worker process loads the native libraries that its work needs, and no others", async () => {
  const libraries = async (opens: WorkerPart[]) => {
    const host = openHost(opens);
    await host.warm(new AbortController().signal);
    const { pid = 0 } = host.status();
    return mappedFiles(pid).filter((path) => path.startsWith(nativeFiles.dir));
  };
  const speechOnly = (await libraries(["speech"])).join();
  expect(speechOnly).toContain("silero");
  expect(speechOnly).not.toContain("ggml");
  expect(speechOnly).not.toContain("whisper");
  const whisperOnly = (await libraries(["whisper"])).join();
  expect(whisperOnly).toContain("ggml");
  expect(whisperOnly).not.toContain("silero");
  expect(whisperOnly).not.toContain("onnxruntime");
  const ctcOnly = (await libraries(["nemo_ctc"])).join();
  expect(ctcOnly).toContain("onnxruntime");
  expect(ctcOnly).not.toContain("ggml");
  expect(await libraries([])).toEqual([]);
}, 60_000);
