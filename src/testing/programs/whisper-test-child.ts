/**
 * Scenarios that whisper.test.ts runs in separate processes, so that a crash of native code fails a test and does not end
 * the test runner: `bun whisper-test-child.ts NATIVE_DIR SCENARIO JSON` prints one line of JSON.
 */
import { readdirSync, readFileSync } from "node:fs";
import { dirname } from "node:path";
import type { Precision } from "../../domain/engine-options.ts";
import type { RecognizedWord } from "../../domain/recognition.ts";
import { openWhisper } from "../../engine/whisper/whisper.ts";
import type { LoadedModel, LoadOptions, WhisperOptions } from "../../engine/whisper/whisper-model.ts";
import type { WhisperSegment } from "../../engine/whisper/whisper-segments.ts";
import { alignmentOf } from "../../families/whisper/alignment-heads.ts";
import { readHead } from "../../families/whisper/model-file.ts";
import { variantName } from "../../native/cpu-variants.ts";
import { threadsOf } from "../boxes/threads.ts";

export const GREEDY: WhisperOptions = {
  language: "en",
  threads: 1,
  strategy: { name: "greedy", bestOf: 1 },
  temperature: 0,
  temperatureIncrement: 0,
  entropyThreshold: 0,
  logprobThreshold: -1,
  noSpeechThreshold: 0.6,
  suppressNonSpeech: false,
  maxTokens: 0,
};

/** A thread that used so many ticks of 10 ms takes part in the work. */
const BUSY_TICKS = 3;
const LOOK_EVERY_MS = 5;
const SEEN_WITHIN_MS = 60_000;

/** Returns the samples of a recording of `models/samples`: 16-bit mono PCM after a head of 44 bytes. */
export function readSamples(path: string): Float32Array {
  const bytes = readFileSync(path);
  return Float32Array.from(
    { length: (bytes.length - 44) / 2 },
    (_, i) => bytes.readInt16LE(44 + 2 * i) / 32768,
  );
}

export function textOf(segments: WhisperSegment[]): string {
  return segments
    .map((segment) => segment.text.trim())
    .filter((text) => text !== "")
    .join(" ");
}

/** The outcome of a promise: its value, or the error's name and message. */
export type Outcome = { value: unknown } | { error: string; message: string };

type Audio = { path: string } | { fill: number | "NaN" | "Infinity"; samples: number; speechFrom?: string };
type Request = {
  models: string[];
  audio?: Audio[];
  options?: Partial<WhisperOptions>[];
  parallel?: number;
  abortAfterMs?: number;
  /** Processor code to use. Default: the best. */
  variant?: string;
  precision?: Precision;
  /** A GPU's library. Models then run on its first device. */
  backend?: string;
  /** Left out: 2. */
  threadGroups?: number;
  /** Tokens that a draft model writes ahead each time; left out: as many as pay. */
  ahead?: number;
};

const [nativeDir, scenario, json] = process.argv.slice(2);
if (import.meta.main && nativeDir !== undefined && scenario !== undefined && json !== undefined) {
  const request = JSON.parse(json) as Request;
  const { variant, precision, backend } = request;
  const others = readdirSync(nativeDir).flatMap((file) => variantName(file) ?? []);
  const avoided = variant === undefined ? [] : others.filter((name) => name !== variant);
  const backends = backend === undefined ? [] : [dirname(backend)];
  const whisper = openWhisper(nativeDir, backends, avoided, precision !== "exact");
  const device = backend === undefined ? "cpu" : { gpuIndex: 0 };
  const load = (path = request.models[0] ?? "") =>
    whisper.load(path, { device, flashAttention: true, sharesSteps: true });
  const scenarios: Record<string, () => Promise<unknown>> = {
    describe: async () => ({ ...whisper, load: undefined }),
    loadEach: () => loadEach(load, request),
    hearEach: async () => ({ cpuVariant: whisper.cpuVariant, heard: await hearEach(load, request) }),
    transcribeEach: async () => transcribeEach(await load(), request),
    abort: async () => abort(await load(), request),
    inThreadGroups: async () => inThreadGroups(await load(), request),
    niceness: async () => niceness(await load(), request),
    misuse: async () => misuse(await load(), request),
    memory: () => memory(load, request),
    drafted: () => drafted(whisper.load, request),
    exitWhileBusy: async () => exitWhileBusy(await load(), request),
  };
  console.log(JSON.stringify(await scenarios[scenario]?.()));
}

async function outcome(work: () => Promise<unknown>): Promise<Outcome> {
  try {
    return { value: await work() };
  } catch (error) {
    if (!(error instanceof Error)) return { error: "none", message: String(error) };
    return { error: error.name, message: error.message };
  }
}

function toSamples(audio: Audio): Float32Array {
  if ("path" in audio) return readSamples(audio.path);
  const samples =
    audio.speechFrom === undefined ? new Float32Array(audio.samples) : readSamples(audio.speechFrom);
  if (audio.speechFrom === undefined) samples.fill(Number(audio.fill));
  else samples[audio.samples] = Number(audio.fill);
  return samples;
}

/** Loads each model and recognizes something with it. */
async function loadEach(load: (path: string) => Promise<LoadedModel>, request: Request): Promise<Outcome[]> {
  const outcomes: Outcome[] = [];
  for (const path of request.models) {
    outcomes.push(
      await outcome(async () => {
        const model = await load(path);
        try {
          const options = { ...GREEDY, maxTokens: 8 };
          return textOf(
            await model.recognize(toSamples(request.audio?.[0] ?? { fill: 0, samples: 16000 }), options),
          );
        } finally {
          await model.close();
        }
      }),
    );
  }
  return outcomes;
}

/** Returns what each model recognizes, and the probability of each token. */
export type Heard = { text: string; probabilities: number[] };

async function hearEach(load: (path: string) => Promise<LoadedModel>, request: Request): Promise<Heard[]> {
  const all: Heard[] = [];
  const [audio] = request.audio ?? [];
  if (!audio) throw new Error("there is no audio");
  for (const path of request.models) {
    const model = await load(path);
    const segments = await model.recognize(toSamples(audio), { ...GREEDY, maxTokens: 16 });
    const probabilities = segments.flatMap(({ tokens }) => tokens.map(({ probability }) => probability));
    all.push({ text: textOf(segments), probabilities });
    await model.close();
  }
  return all;
}

/** What is recognized, and the words that have times. */
type HeardWords = Heard & { words: RecognizedWord[] };

function headsOf({ models }: Pick<Request, "models">) {
  const head = readHead(models[0] ?? "");
  return head && alignmentOf(head);
}

/** Recognizes every audio with every set of options, `parallel` at a time. */
async function transcribeEach(model: LoadedModel, request: Request): Promise<Outcome[][]> {
  const rounds: Outcome[][] = [];
  for (const audio of request.audio ?? []) {
    for (const options of request.options ?? [{}]) {
      const samples = toSamples(audio);
      const all = Array.from({ length: request.parallel ?? 1 }, () =>
        outcome(() => model.recognize(samples, { ...GREEDY, ...headsOf(request), ...options })),
      );
      rounds.push(await Promise.all(all));
    }
  }
  await model.close();
  return rounds;
}

/** Aborts at several moments. The same model must still work afterwards. */
async function abort(model: LoadedModel, request: Request): Promise<unknown> {
  const samples = toSamples(request.audio?.[0] ?? { fill: 0, samples: 16000 });
  // Takes longer than the latest abort, however fast the processor is.
  const long = repeatedSound(samples, 100);
  const aborted: { outcome: Outcome; tookMs: number }[] = [];
  for (const afterMs of [0, 1, 5, 20, 100, request.abortAfterMs ?? 300]) {
    const controller = new AbortController();
    const work = outcome(() => model.recognize(long, GREEDY, controller.signal));
    await Bun.sleep(afterMs);
    const started = performance.now();
    controller.abort();
    aborted.push({ outcome: await work, tookMs: performance.now() - started });
  }
  return { aborted, afterwards: textOf(await model.recognize(samples, GREEDY)) };
}

/** What transcriptions give that make their steps together, and what each gives by itself. */
export type InThreadGroups = {
  alone: HeardWords[];
  together: HeardWords[];
  /** The steps of those. */
  steps: { steps: number; tokens: number };
  /** Every second one with a higher niceness, beside those that are aborted or repeat their text with samples. */
  disturbed: HeardWords[];
  aborted: { outcome: Outcome; tookMs: number }[];
  sampled: Outcome[];
};

async function inThreadGroups(model: LoadedModel, request: Request): Promise<InThreadGroups> {
  const sounds = (request.audio ?? []).map(toSamples);
  const heads = headsOf(request);
  // Words have times in some of the chunks, and so these have further steps.
  const hear = async (n: number, options: WhisperOptions): Promise<HeardWords> => {
    const words = n % 3 === 1;
    const segments = await model.recognize(sounds[n] ?? new Float32Array(), { ...options, ...heads, words });
    const probabilities = segments.flatMap(({ tokens }) => tokens.map(({ probability }) => probability));
    const found = segments.map((segment) => segment.words ?? []);
    return { text: textOf(segments), probabilities, words: found.flat() };
  };
  const hearAll = (options: WhisperOptions, niceness = 0) =>
    Promise.all(sounds.map((_, n) => hear(n, { ...options, niceness: (n % 2) * niceness })));
  const alone: HeardWords[] = [];
  for (const n of sounds.keys()) alone.push(await hear(n, GREEDY));
  const grouped = { ...GREEDY, threadGroups: request.threadGroups ?? 2, groupThreads: 2 };
  const before = model.groupSteps();
  const together = await hearAll(grouped);
  const after = model.groupSteps();
  const abortAt = async (afterMs: number) => {
    const controller = new AbortController();
    const work = outcome(() =>
      model.recognize(sounds.at(-1) ?? new Float32Array(), grouped, controller.signal),
    );
    await Bun.sleep(afterMs);
    const started = performance.now();
    controller.abort();
    return { outcome: await work, tookMs: performance.now() - started };
  };
  const unsure: WhisperOptions = {
    ...grouped,
    strategy: { name: "greedy", bestOf: 3 },
    temperatureIncrement: 0.5,
    logprobThreshold: 0,
  };
  const sampled = sounds
    .slice(0, 2)
    .map((samples) => outcome(async () => textOf(await model.recognize(samples, unsure))));
  const aborted = [0, 20, 100, 300, 600].map(abortAt);
  const disturbed = await hearAll(grouped, 10);
  const all = {
    alone,
    together,
    steps: { steps: after.steps - before.steps, tokens: after.tokens - before.tokens },
    disturbed,
    aborted: await Promise.all(aborted),
    sampled: await Promise.all(sampled),
  };
  await model.close();
  return all;
}

/** What a model hears without a draft, and with one. `beside`: together with others, whose steps it shares. */
export type Drafted = {
  failure: string | undefined;
  plain: Outcome[];
  drafted: Outcome[];
  beside: Outcome[];
  counts: { drafted: number; accepted: number };
  steps: { plain: number; drafted: number };
};

/**
 * Recognizes every audio with every set of options by the first model, alone, and with the second one as its draft, with so many
 * tokens ahead as the request says. Then once more, several at once.
 */
async function drafted(
  load: (path: string, options: LoadOptions) => Promise<LoadedModel>,
  { models: [path = "", draftPath], audio = [], options = [{}], ahead }: Request,
): Promise<Drafted> {
  const sounds = audio.map(toSamples);
  const heads = headsOf({ models: [path] });
  const counts = { drafted: 0, accepted: 0, ...(ahead === undefined ? {} : { ahead }) };
  const inGroups = { ...GREEDY, threadGroups: 2, groupThreads: 2 };
  const each = sounds.flatMap((samples) => options.map((own) => ({ samples, own })));
  const hear = (model: LoadedModel, { samples, own }: (typeof each)[number], more: Partial<WhisperOptions>) =>
    outcome(() => model.recognize(samples, { ...inGroups, ...heads, ...structuredClone(own), ...more }));
  const open = (draft: string | undefined) =>
    load(path, { device: "cpu", flashAttention: true, draftPath: draft });
  const plainModel = await open(undefined);
  const plain: Outcome[] = [];
  for (const one of each) plain.push(await hear(plainModel, one, {}));
  const plainSteps = plainModel.groupSteps().steps;
  await plainModel.close();
  const model = await open(draftPath);
  const found: Outcome[] = [];
  for (const one of each) found.push(await hear(model, one, { drafting: counts }));
  const draftedSteps = model.groupSteps().steps;
  const beside = await Promise.all(each.map((one) => hear(model, one, { drafting: { ...counts } })));
  await model.close();
  const steps = { plain: plainSteps, drafted: draftedSteps };
  return { failure: model.draftFailure, plain, drafted: found, beside, counts, steps };
}

/** How much less urgent threads were than those of the rest of the process, for each that was busy during a call. */
export type Niceness = number[][];

/**
 * Recognizes a sound with each set of options, again until as many threads as it has were seen busy with its niceness.
 * Each call ends by itself, so that the next one gets what it has left.
 */
async function niceness(model: LoadedModel, request: Request): Promise<Niceness> {
  // Some threads end with their call. Each call takes many times BUSY_TICKS, so that they are seen before that.
  const sound = repeatedSound(toSamples(request.audio?.[0] ?? { fill: 0, samples: 16000 }), 100);
  const own = threadsOf(process.pid).find(({ id }) => id === process.pid)?.niceness ?? 0;
  const found: Niceness = [];
  for (const options of request.options ?? []) {
    const before = new Map(threadsOf(process.pid).map(({ id, ticks }) => [id, ticks]));
    const busy = () =>
      threadsOf(process.pid)
        .filter(({ id, ticks }) => id !== process.pid && ticks - (before.get(id) ?? 0) >= BUSY_TICKS)
        .map((thread) => thread.niceness - own);
    const isSeen = (all: number[]) =>
      all.filter((value) => value === (options.niceness ?? 0)).length >=
      Math.max(options.threads ?? 1, options.groupThreads ?? 1);
    const deadline = performance.now() + SEEN_WITHIN_MS;
    let seen: number[] = [];
    while (!isSeen(seen) && performance.now() < deadline) {
      let isRunning = true;
      const work = model.recognize(sound, { ...GREEDY, ...options }).finally(() => {
        isRunning = false;
      });
      while (isRunning) {
        if (!isSeen(seen)) seen = busy();
        await Bun.sleep(LOOK_EVERY_MS);
      }
      await work;
    }
    found.push(seen);
  }
  await model.close();
  return found;
}

function repeatedSound(sound: Float32Array, times: number): Float32Array {
  const long = new Float32Array(sound.length * times);
  for (let i = 0; i < times; i++) long.set(sound, i * sound.length);
  return long;
}

/** Makes calls that break the rules of the API. */
async function misuse(model: LoadedModel, request: Request): Promise<unknown> {
  const samples = toSamples(request.audio?.[0] ?? { fill: 0, samples: 16000 });
  const running = outcome(async () => textOf(await model.recognize(samples, GREEDY)));
  const closing = model.close();
  const afterClose = await outcome(() => model.recognize(samples, GREEDY));
  await closing;
  await model.close();
  return { running: await running, afterClose };
}

/** Returns the resident bytes before the load, after it, and while `parallel` transcriptions run. */
async function memory(load: () => Promise<LoadedModel>, request: Request): Promise<unknown> {
  const before = process.memoryUsage.rss();
  const model = await load();
  const loaded = process.memoryUsage.rss();
  const samples = toSamples(request.audio?.[0] ?? { fill: 0, samples: 16000 });
  const options = { ...GREEDY, maxTokens: 2 };
  await model.recognize(samples, options);
  const one = process.memoryUsage.rss();
  await Promise.all(Array.from({ length: request.parallel ?? 2 }, () => model.recognize(samples, options)));
  const several = process.memoryUsage.rss();
  await model.close();
  return { before, loaded, one, several };
}

async function exitWhileBusy(model: LoadedModel, request: Request): Promise<never> {
  const samples = toSamples(request.audio?.[0] ?? { fill: 0, samples: 16000 });
  for (let i = 0; i < (request.parallel ?? 2); i++) void outcome(() => model.recognize(samples, GREEDY));
  await Bun.sleep(request.abortAfterMs ?? 100);
  process.exit(7);
}
