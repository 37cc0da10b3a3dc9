import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { copyFileSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { mostWordErrors, samplePath as sample, utterancesIn, wordsIn } from "../../e2e/samples.ts";
import { checkModelFile, expectedTensors, F16 } from "../../families/whisper/model-file.ts";
import { wordErrors } from "../../pipeline/wer.ts";
import { NATIVE_DIR } from "../../testing/kits/native-files.ts";
import { type Outcome, textOf } from "../../testing/programs/whisper-test-child.ts";
import type { WhisperSegment } from "./whisper-segments.ts";

const ROOT = join(import.meta.dirname, "../../..");
const MODEL = join(ROOT, "models/demo.bin");
/** The words of the sample that most tests use. */
const SAID = wordsIn("01-en", "verbatim");
const CHILD_LIMIT_MS = 120_000;

let dir = "";
beforeAll(() => {
  if (!existsSync(join(NATIVE_DIR, "smart-whisper.addon"))) throw new Error("build the native parts first");
  dir = mkdtempSync(join(tmpdir(), "shruti-whisper-test-"));
});
afterAll(() => rmSync(dir, { recursive: true, force: true }));

type Child = { status: number | null; signal: string | number | undefined; stderr: string; stdout: string };

async function child(scenario: string, request: object): Promise<Child> {
  const script = join(import.meta.dirname, "../../testing/programs/whisper-test-child.ts");
  const process_ = Bun.spawn([process.execPath, script, NATIVE_DIR, scenario, JSON.stringify(request)], {
    stdout: "pipe",
    stderr: "pipe",
    timeout: CHILD_LIMIT_MS,
  });
  const [stdout, stderr] = await Promise.all([
    new Response(process_.stdout).text(),
    new Response(process_.stderr).text(),
  ]);
  await process_.exited;
  return { status: process_.exitCode, signal: process_.signalCode ?? undefined, stderr, stdout };
}

/** Returns the JSON that a child prints. A child that crashes or writes to stderr fails the test. */
async function ask<T>(scenario: string, request: object): Promise<T> {
  const { status, signal, stderr, stdout } = await child(scenario, request);
  expect({ status, signal, stderr }).toEqual({ status: 0, signal: undefined, stderr: "" });
  return JSON.parse(stdout) as T;
}

function file(name: string, bytes: Uint8Array): string {
  const path = join(dir, name);
  writeFileSync(path, bytes);
  return path;
}

/** mulberry32, a generator of 32 bits of state that is the same everywhere. */
function random(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Returns where the head of a tensor begins: dimensions, length of the name, type, sizes, name. */
function tensorHead(bytes: Buffer, name: string, dimensions: number): number {
  return bytes.indexOf(name) - 12 - 4 * dimensions;
}

describe("model files", () => {
  const bytes = readFileSync(MODEL);
  const head = tensorHead(bytes, "encoder.positional_embedding", 2);

  test("the head of the demo model is read", () => {
    expect(checkModelFile(MODEL)).toEqual({
      multilingual: true,
      vocab: 51865,
      languages: 99,
      audioLayers: 4,
      textLayers: 3,
      stateSize: 128,
      heads: 4,
      mels: 80,
      fileType: "q5_1",
      type: "tiny",
      tensors: 143,
      bytes: bytes.length,
    });
  });

  test("a file that is not a model is refused with a reason", () => {
    expect(() => checkModelFile(join(dir, "absent.bin"))).toThrow("cannot be opened: ENOENT");
    expect(() => checkModelFile(dir)).toThrow("not a regular file");
    expect(() => checkModelFile(file("empty.bin", new Uint8Array()))).toThrow("empty");
    const next = random(1);
    const noise = Uint8Array.from({ length: 100_000 }, () => next() * 256);
    expect(() => checkModelFile(file("noise.bin", noise))).toThrow("not a whisper model");
    noise.set(bytes.subarray(0, 4));
    expect(() => checkModelFile(file("noise-with-magic.bin", noise))).toThrow("cannot be used");
    expect(() => checkModelFile(file("head.bin", bytes.subarray(0, 48)))).toThrow("truncated");
    const floats = Buffer.from(bytes);
    floats.writeInt32LE(0, 44);
    expect(() => checkModelFile(file("f32.bin", floats))).toThrow("32 bits");
    // A model without tensors, such as whisper.cpp's own test files, would load and recognize nothing.
    expect(() => checkModelFile(file("weightless.bin", bytes.subarray(0, head)))).toThrow("no weights");
  });

  test("a model file that is truncated anywhere is refused", () => {
    const next = random(2);
    const cuts = [1, 3, 4, 5, 47, 48, 55, 56, 57, head - 1, head + 1, head + 11, head + 12, bytes.length - 1];
    for (const name of ["encoder.conv1.weight", "decoder.blocks.2.mlp.2.bias", "decoder.ln.weight"]) {
      const start = bytes.indexOf(name);
      expect(start).toBeGreaterThan(0);
      cuts.push(start, start - 12, start + name.length, start + name.length + 4);
    }
    for (let i = 0; i < 100; i++) cuts.push(Math.floor(next() * bytes.length));
    for (const cut of cuts) {
      const path = file("cut.bin", bytes.subarray(0, cut));
      expect(() => checkModelFile(path), `cut at ${cut}`).toThrow("cannot be used");
    }
  });

  test("an extra, a missing and a repeated tensor are refused", () => {
    const name = "decoder.ln.bias";
    const start = tensorHead(bytes, name, 1);
    const end = bytes.indexOf(name) + name.length + 128 * 4;
    const tensor = bytes.subarray(start, end);
    const without = Buffer.concat([bytes.subarray(0, start), bytes.subarray(end)]);
    expect(() => checkModelFile(file("missing.bin", without))).toThrow(
      "are missing, such as decoder.ln.bias",
    );
    expect(() => checkModelFile(file("twice.bin", Buffer.concat([bytes, tensor])))).toThrow("twice");
    expect(() => checkModelFile(file("extra.bin", Buffer.concat([bytes, new Uint8Array(64)])))).toThrow(
      "tensor",
    );
  });

  test("files with damaged heads are refused or work; none crashes", async () => {
    const next = random(3);
    const places: [number, number][] = [
      [0, 56],
      [48, 64_400],
      [64_376, head],
    ];
    for (const name of [
      "encoder.conv1.bias",
      "encoder.blocks.3.mlp.0.weight",
      "decoder.positional_embedding",
    ]) {
      const at = bytes.indexOf(name);
      places.push([at - 24, at + name.length]);
    }
    const accepted: string[] = [];
    let refused = 0;
    for (let i = 0; i < 600; i++) {
      const [from, to] = places[i % places.length] ?? [0, 56];
      const damaged = Buffer.from(bytes);
      const flips = 1 + Math.floor(next() * 3);
      for (let flip = 0; flip < flips; flip++)
        damaged[from + Math.floor(next() * (to - from))] = next() * 256;
      const path = file(`damaged-${i}.bin`, damaged);
      try {
        checkModelFile(path);
        if (accepted.length < 25) accepted.push(path);
        else rmSync(path);
      } catch {
        refused++;
        rmSync(path);
      }
    }
    expect(refused).toBeGreaterThan(200);
    expect(accepted.length).toBeGreaterThan(10);
    const outcomes = await ask<Outcome[]>("loadEach", {
      models: accepted,
      audio: [{ path: sample("01-en") }],
    });
    expect(outcomes).toHaveLength(accepted.length);
  }, 120_000);

  test("files with damaged weights give an error or some text; none crashes", async () => {
    const next = random(4);
    const models: string[] = [];
    const withNaN = Buffer.from(bytes);
    const name = "encoder.ln_post.weight";
    withNaN.fill(0xff, bytes.indexOf(name) + name.length, bytes.indexOf(name) + name.length + 512);
    models.push(file("nan.bin", withNaN));
    for (let i = 0; i < 12; i++) {
      const damaged = Buffer.from(bytes);
      const at = head + Math.floor(next() * (bytes.length - head - 70_000));
      // Damages blocks within one tensor, never a head: the test above covers heads.
      const tensorEnd = nextTensorHead(bytes, at);
      damaged.fill(i % 2 === 0 ? 0xff : 0x7b, Math.max(at, tensorEnd - 60_000), tensorEnd);
      models.push(file(`weights-${i}.bin`, damaged));
    }
    const usable = models.filter((path) => {
      try {
        checkModelFile(path);
        return true;
      } catch {
        return false;
      }
    });
    expect(usable.length).toBeGreaterThan(5);
    const outcomes = await ask<Outcome[]>("loadEach", { models: usable, audio: [{ path: sample("01-en") }] });
    expect(outcomes[0]).toMatchObject({ error: "Error", message: expect.stringContaining("no numbers") });
  }, 120_000);

  test("load rejects what the check refuses", async () => {
    const models = [join(dir, "absent.bin"), file("zero.bin", new Uint8Array(0))];
    const outcomes = await ask<Outcome[]>("loadEach", { models });
    expect(outcomes.map((outcome) => "error" in outcome && outcome.error)).toEqual(["Error", "Error"]);
  });
});

/** Returns the end of the weights at `offset`, found by the names of the tensors. */
function nextTensorHead(bytes: Buffer, offset: number): number {
  const candidates = ["encoder.", "decoder."].map((word) => bytes.indexOf(word, offset + 40));
  const next = Math.min(...candidates.map((at) => (at < 0 ? bytes.length : at - 28)));
  return Math.max(offset, next);
}

/** Makes a model with few layers, random weights of this `width`, and the demonstration model's filters and vocabulary. */
function writeWideModel(path: string, width: number): void {
  const demo = readFileSync(MODEL);
  const sizes = { vocab: 51865, state: width, audioLayers: 1, textLayers: 1, mels: 80, weights: F16 };
  const head = Buffer.from(demo.subarray(0, tensorHead(demo, "encoder.positional_embedding", 2)));
  const fields = [51865, 1500, width, width / 64, 1, 448, width, width / 64, 1, 80, 1];
  for (const [i, field] of fields.entries()) head.writeInt32LE(field, 4 + 4 * i);
  const next = random(5);
  const parts: Uint8Array[] = [head];
  for (const [name, { shape, weights }] of expectedTensors(sizes)) {
    const elements = shape.reduce((product, size) => product * size, 1);
    const values = weights === F16 ? new Uint16Array(elements) : new Float32Array(elements);
    const noise = Array.from({ length: Math.min(elements, 4096) }, () =>
      weights === F16 ? 0x2000 + next() * 0x400 + (next() < 0.5 ? 0x8000 : 0) : (next() - 0.5) / 10,
    );
    for (let at = 0; at < elements; at += noise.length) values.set(noise.slice(0, elements - at), at);
    const type = weights.type;
    parts.push(
      new Uint8Array(Int32Array.of(shape.length, name.length, type, ...shape).buffer),
      Buffer.from(name),
    );
    parts.push(new Uint8Array(values.buffer));
  }
  writeFileSync(path, Buffer.concat(parts));
}

describe("transcription", () => {
  type Rounds = ({ value: WhisperSegment[] } | { error: string; message: string })[][];

  function words(rounds: Rounds): string[][] {
    return rounds.map((round) =>
      round.map((one) => ("value" in one ? textOf(one.value) : `${one.error}: ${one.message}`)),
    );
  }

  test("the engine reports its properties", async () => {
    const engine = await ask<{ version: string; cpuVariant: string; devices: { type: string }[] }>(
      "describe",
      {},
    );
    expect(engine.version).toBe("1.9.1");
    expect(engine.cpuVariant).toMatch(/^[a-z0-9.]+$/);
    expect(engine.devices.map((device) => device.type)).toContain("cpu");
  });

  test("chunks side by side have threads of their own, whose number changes", async () => {
    const options = Array.from({ length: 60 }, (_, round) => ({ language: "en", threads: 2 - (round % 2) }));
    const request = { models: [MODEL], audio: [{ path: sample("01-en") }], options, parallel: 3 };
    const heard = words(await ask<Rounds>("transcribeEach", request)).flat();
    expect(heard).toHaveLength(180);
    expect(new Set(heard)).toEqual(new Set([SAID]));
  });

  test("a whole window after a shorter one has nothing of the shorter one", async () => {
    const options = [{}, { fitsWindow: true }, {}].map((one) => ({ language: "en", ...one }));
    const request = { models: [MODEL], audio: [{ path: sample("01-en") }], options };
    const [before, shorter, after] = (await ask<Rounds>("transcribeEach", request)).flat();
    if (shorter === undefined || !("value" in shorter)) throw new Error(JSON.stringify(shorter));
    expect(textOf(shorter.value)).toBe(SAID);
    expect(after).toEqual(before);
    expect(shorter).not.toEqual(before);
  });

  test("recordings give their words, with times and confidence", async () => {
    const request = { models: [MODEL], audio: [{ path: sample("01-en") }] };
    const [[english] = []] = await ask<Rounds>("transcribeEach", request);
    if (english === undefined || !("value" in english)) throw new Error(JSON.stringify(english));
    expect(textOf(english.value)).toBe(SAID);
    const [segment] = english.value;
    const { start = Number.NaN, end = Number.NaN } = utterancesIn("01-en")[0] ?? {};
    expect(segment?.startMs).toBeWithin(start * 1000 - 200, start * 1000 + 300);
    expect(segment?.endMs).toBeWithin(end * 1000 - 230, end * 1000 + 270);
    expect(segment?.confidence).toBeWithin(0.8, 1.001);
    expect(segment?.noSpeechProbability).toBeLessThan(0.5);
    const spoken = segment?.spokenLanguages ?? [];
    expect(spoken.length).toBe(5);
    expect(spoken.map(({ probability }) => probability)).toEqual(
      spoken.map(({ probability }) => probability).sort((a, b) => b - a),
    );
    expect(spoken.reduce((sum, { probability }) => sum + probability, 0)).toBeWithin(0.05, 1.000_01);
    expect(segment?.tokens.map((token) => token.text).join("")).toBe(segment?.text);
    expect(segment?.language).toBe("en");

    const hindi = {
      ...request,
      audio: [{ path: sample("02-hi") }, { path: sample("03-mixed") }],
      options: [{ language: "hi" }],
    };
    const [[digits = ""] = [], [mixed = ""] = []] = words(await ask<Rounds>("transcribeEach", hindi));
    const errorsIn = (name: string, heard: string, mode?: "verbatim" | "codemix") => {
      const errors = wordErrors(wordsIn(name, mode), heard);
      return (errors?.substitutions ?? 0) + (errors?.deletions ?? 0) + (errors?.insertions ?? 0);
    };
    expect(errorsIn("02-hi", digits)).toBeLessThanOrEqual(mostWordErrors("02-hi"));
    // Without a prompt, models differ in how they write English words.
    const mixedErrors = Math.min(
      errorsIn("03-mixed", mixed, "codemix"),
      errorsIn("03-mixed", mixed, "verbatim"),
    );
    expect(mixedErrors).toBeLessThanOrEqual(mostWordErrors("03-mixed"));
  });

  test("two and four calls at once on one model give the same text as one alone", async () => {
    for (const parallel of [1, 2, 4]) {
      const request = {
        models: [MODEL],
        audio: [{ path: sample("01-en") }, { path: sample("04-en") }],
        options: [{}, { threads: 2 }],
        parallel,
      };
      const heard = words(await ask<Rounds>("transcribeEach", request));
      for (const round of heard.slice(0, 2)) {
        expect(round).toEqual(Array(parallel).fill(SAID));
      }
      expect(new Set(heard.slice(2).flat()).size).toBe(1);
    }
  }, 60_000);

  test("four calls at once share one copy of the weights", async () => {
    const path = join(dir, "wide.bin");
    writeWideModel(path, 512);
    const weights = checkModelFile(path).bytes;
    expect(weights).toBeGreaterThan(60e6);
    const rss = await ask<{ before: number; loaded: number; one: number; several: number }>("memory", {
      models: [path],
      audio: [{ fill: 0.1, samples: 2400 }],
      parallel: 4,
    });
    rmSync(path);
    expect(rss.loaded - rss.before).toBeWithin(weights * 0.8, weights * 1.3);
    // Each further call adds a decoder's state, like the first one, and no weights.
    const state = rss.one - rss.loaded;
    expect((rss.several - rss.one) / 3).toBeLessThan(state + weights * 0.4);
  }, 60_000);

  test("strategies, prompt and suppression are used", async () => {
    const request = {
      models: [MODEL],
      audio: [{ path: sample("01-en") }],
      options: [
        { strategy: { name: "beam", beamSize: 1, bestOf: 1 } },
        { strategy: { name: "beam", beamSize: 8, bestOf: 8 }, threads: 2 },
        {
          strategy: { name: "greedy", bestOf: 8 },
          temperature: 0.2,
          temperatureIncrement: 0.2,
          entropyThreshold: 2.4,
        },
        { initialPrompt: SAID.split(" ").slice(0, 3).join(" ") },
        { initialPrompt: "a".repeat(4096) },
        { suppressNonSpeech: true },
        { maxTokens: 3 },
        { language: "auto" },
        { heldBack: "[e]" },
      ],
    };
    const rounds = await ask<Rounds>("transcribeEach", request);
    const heard = words(rounds).flat();
    for (const text of heard) expect(text).not.toMatch(/Error/);
    expect(heard[0]).toBe(SAID);
    expect(heard[5]).toBe(SAID);
    expect(heard[8]).not.toContain("e");
  }, 60_000);

  test("audio that is empty, too loud or not a number is refused; silence and clicks are accepted", async () => {
    const speechFrom = sample("01-en");
    const audio = [
      { fill: 0, samples: 0 },
      { fill: "NaN", samples: 16000 },
      { fill: "NaN", samples: 0, speechFrom },
      { fill: "NaN", samples: 20_000, speechFrom },
      { fill: "Infinity", samples: 16000 },
      { fill: 1e30, samples: 20_000, speechFrom },
      { fill: 0, samples: 1 },
      { fill: 0.5, samples: 199 },
      { fill: 0.5, samples: 1599 },
      { fill: 0, samples: 16_000 * 31 },
      { fill: 1, samples: 16_000 },
    ];
    const rounds = await ask<Outcome[][]>("transcribeEach", { models: [MODEL], audio });
    const outcomes = rounds.map(([one]) => (one !== undefined && "error" in one ? one.error : "heard"));
    expect(outcomes).toEqual([...Array(6).fill("RangeError"), ...Array(5).fill("heard")]);
  }, 60_000);

  test("options out of range are refused by name", async () => {
    const bad: [string, object][] = [
      ["threads", { threads: 0 }],
      ["threads", { threads: -1 }],
      ["threads", { threads: 10_000 }],
      ["threads", { threads: 1.5 }],
      ["threads", { threads: null }],
      ["threads", { threads: "2" }],
      ["beamSize", { strategy: { name: "beam", beamSize: 0, bestOf: 1 } }],
      ["beamSize", { strategy: { name: "beam", beamSize: 9, bestOf: 1 } }],
      ["beamSize", { strategy: { name: "beam", beamSize: 1e9, bestOf: 1 } }],
      ["bestOf", { strategy: { name: "greedy", bestOf: -3 } }],
      ["language", { language: "" }],
      ["language", { language: "xx" }],
      ["language", { language: "yue" }],
      ["language", { language: "english" }],
      ["language", { language: "e".repeat(40) }],
      ["temperature", { temperature: -0.1 }],
      ["temperature", { temperature: 2 }],
      ["temperatureIncrement", { temperatureIncrement: 1e-9 }],
      ["temperatureIncrement", { temperatureIncrement: -1 }],
      ["entropyThreshold", { entropyThreshold: -1 }],
      ["logprobThreshold", { logprobThreshold: 1 }],
      ["noSpeechThreshold", { noSpeechThreshold: 1.1 }],
      ["maxTokens", { maxTokens: -1 }],
      ["maxTokens", { maxTokens: 100_000 }],
      ["initialPrompt", { initialPrompt: "a".repeat(5000) }],
      ["initialPrompt", { initialPrompt: "a\0b" }],
      ["regular expression", { heldBack: "(" }],
    ];
    const request = {
      models: [MODEL],
      audio: [{ path: sample("01-en") }],
      options: bad.map(([, options]) => options),
    };
    const rounds = await ask<Outcome[][]>("transcribeEach", request);
    expect(rounds).toHaveLength(bad.length);
    for (const [i, [name, options]] of bad.entries()) {
      const one = rounds[i]?.[0];
      const text = one !== undefined && "error" in one ? `${one.error}: ${one.message}` : "no error";
      expect(text.toLowerCase(), JSON.stringify(options)).toContain(name.toLowerCase());
      expect(text).toMatch(/^(RangeError|TypeError|SyntaxError)/);
    }
  });

  test("an abort ends the work soon, and the model remains usable", async () => {
    const result = await ask<{ aborted: { outcome: Outcome; tookMs: number }[]; afterwards: string }>(
      "abort",
      {
        models: [MODEL],
        audio: [{ path: sample("01-en") }],
      },
    );
    for (const { outcome, tookMs } of result.aborted) {
      expect(outcome).toMatchObject({ error: "AbortError" });
      expect(tookMs).toBeLessThan(2000);
    }
    expect(result.afterwards).toBe(SAID);
  }, 60_000);

  test("close waits for work; later calls reject", async () => {
    const result = await ask<{ running: Outcome; afterClose: Outcome }>("misuse", {
      models: [MODEL],
      audio: [{ path: sample("01-en") }],
    });
    expect(result.running).toEqual({ value: SAID });
    expect(result.afterClose).toMatchObject({ error: "Error", message: "the model was closed" });
  });

  test("a process may exit while work runs", async () => {
    for (const abortAfterMs of [0, 10, 150]) {
      const request = { models: [MODEL], audio: [{ path: sample("12-en-long") }], parallel: 3, abortAfterMs };
      const { status, signal, stderr } = await child("exitWhileBusy", request);
      expect({ status, signal, stderr }).toEqual({ status: 7, signal: undefined, stderr: "" });
    }
  }, 60_000);

  test("a folder without the native files is a clear error", async () => {
    copyFileSync(join(NATIVE_DIR, "smart-whisper.addon"), join(dir, "smart-whisper.addon"));
    for (const name of ["libggml.so", "libggml-base.so"])
      copyFileSync(join(NATIVE_DIR, name), join(dir, name));
    const code = `import { openWhisper } from ${JSON.stringify(join(import.meta.dirname, "whisper.ts"))};
      try { openWhisper(${JSON.stringify(dir)}) } catch (error) { console.log(error.message) }`;
    const bun = Bun.spawn([process.execPath, "-e", code], {
      stdout: "pipe",
      stderr: "pipe",
      timeout: CHILD_LIMIT_MS,
    });
    const text = await new Response(bun.stdout).text();
    await bun.exited;
    expect(text).toContain("no CPU library for whisper could be loaded");
  });
});
