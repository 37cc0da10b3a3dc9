import type { Config } from "../../config/schema.ts";
import { SAMPLE_RATE_HZ } from "../../domain/chunk.ts";
import type { InstalledModel, ModelDecoding } from "../../domain/model.ts";
import type { Recognition, RecognizedSegment, RecognizerSettings } from "../../domain/recognition.ts";
import type { Warning } from "../../domain/result.ts";
import { isFailedTrial, type TrialVerdict } from "../../domain/trial.ts";
import type { Engine } from "../../engine/engine.ts";
import { EngineError } from "../../engine/protocol.ts";
import { peakMemoryOfChildren } from "../../engine/workers/child-memory.ts";
import { FAMILIES } from "../../families/families.ts";
import { errorMessage } from "../../lib/error-message.ts";
import type { Log } from "../../lib/log.ts";
import { layoutChunk } from "../../pipeline/chunk-audio.ts";
import { recognizeGuarded } from "../../pipeline/guarded-recognition.ts";
import { hasLoop } from "../../pipeline/guards.ts";
import type { LetterChoice } from "../../pipeline/letter-conversion.ts";
import { wordSegments } from "../../pipeline/worded.ts";
import { bestLetters, withLetters } from "./trial-letters.ts";
import { makeNoise, readSample, repeatSpeech, SAMPLES, type Sample } from "./trial-samples.ts";
import { correctStarts } from "./trial-starts.ts";
import { betterOf, refusalOf, verdictOf } from "./trial-verdict.ts";

/** What a trial has found in one language. */
export type LanguageTrial = Pick<Sample, "language" | "voice" | "said"> & {
  verdict: TrialVerdict;
  heard: string;
  seconds: number;
  /** The letters that gave clearly fewer errors than `either`. Absent: none did, or they were not tried. */
  letters?: LetterChoice;
};

/** What a trial has found. */
export type TrialReport = {
  /** Where the model ran, such as `cpu`. */
  device: string;
  /** Speech recognized per time, with a chunk of the model's full length; undefined: the time of the trial was over first. */
  timesRealTime: number | undefined;
  /** Most memory of the process with the model, bytes; 0 where the system does not say. */
  memoryBytes: number;
  /** The languages of the model that there are samples of. */
  languages: LanguageTrial[];
  /** Codes of the model's other languages. */
  notTried: string[];
  /** The model's decoding with what was measured of it; left out: nothing was. */
  decoding?: ModelDecoding;
  /** Text that the model made of silence and of noise; undefined: it did not end. */
  heardInSilence: string | undefined;
  heardInNoise: string | undefined;
};

/**
 * Text of a lower confidence counts as none, where the manifest has no floor. The floors of real work are higher: a model
 * that is below those is weak, and not silent. Random weights are below this one.
 */
const UNSURE_BELOW = 0.3;
const QUIET_SECONDS = 5;
/** Time for one attempt at a sample, and for all together. A model that needs long to load and for silence gets multiples of that. */
const SAMPLE_LIMIT = { ms: 10_000, factor: 3 };
const TOTAL_LIMIT = { ms: 45_000, factor: 6 };

/**
 * Recognizes speech, silence and noise with a model in a process of its own, so that an admin, not the first customer,
 * finds out what it can do here. Speech is recognized as in real work, with its guards and second attempts, and each
 * language is judged on its own. Each sample has a limit of time, and so have all together.
 *
 * @throws Error when the model cannot be loaded or ends its process, or when it is of no use in any sample
 */
export async function tryOutModel(
  config: Config,
  dataDir: string,
  log: Log,
  model: InstalledModel,
): Promise<TrialReport> {
  const { openEngine } = await import("../../engine/open-engine.ts");
  const { engine } = await openEngine(config, dataDir, log);
  try {
    return await tryAll(engine, model);
  } finally {
    await engine.close();
  }
}

/** The engine and the model of a trial, the time that each sample has, and when the time of all is over. */
type Trial = { engine: Engine; model: InstalledModel; limitMs: number; endsAt: number };

async function tryAll(engine: Engine, model: InstalledModel): Promise<TrialReport> {
  const startedAt = performance.now();
  const [first = { code: "en" }] = model.languages;
  const quiet = { language: first.code, pcm: new Int16Array(QUIET_SECONDS * SAMPLE_RATE_HZ) };
  // The first sample loads the model, which may take long.
  const heardInSilence = await hearOnce(
    { engine, model, limitMs: Number.POSITIVE_INFINITY, endsAt: Number.POSITIVE_INFINITY },
    quiet,
  );
  const now = performance.now();
  const limitOf = ({ ms, factor }: typeof SAMPLE_LIMIT) => Math.max(ms, factor * (now - startedAt));
  const trial = { engine, model, limitMs: limitOf(SAMPLE_LIMIT), endsAt: now + limitOf(TOTAL_LIMIT) };
  const heardInNoise = await hearOnce(trial, { ...quiet, pcm: makeNoise(quiet.pcm.length) });
  const languages = await tryLanguages(trial);
  await refuseUseless(trial, languages);
  const notTried = model.languages.map(({ code }) => code).filter((code) => !isTried(languages, code));
  const speech = await bestSpeech(languages, first.code);
  // A wrong part must not wait for the first customer.
  if (FAMILIES.of(model.family).trial.hasLanguageParts)
    for (const code of notTried) await hearOnce(trial, { ...speech, language: code });
  const measured = await measureSpeech(trial, speech);
  const timesRealTime = await measureSpeed(trial, speech);
  const timed = measured ? { ...trial, model: { ...trial.model, decoding: measured } } : trial;
  const decoding = (await measureStarts(timed, languages)) ?? measured;
  return {
    ...(decoding ? { decoding } : {}),
    timesRealTime,
    device: engine.status().models[0]?.device ?? "cpu",
    memoryBytes: peakMemoryOfChildren(),
    ...{ languages, notTried },
    heardInSilence: heardInSilence && textOf(heardInSilence),
    heardInNoise: heardInNoise && textOf(heardInNoise),
  };
}

const isTried = (languages: readonly LanguageTrial[], code: string) =>
  languages.some(({ language }) => language === code);

/** Tries each language of the model that there is a sample of. */
async function tryLanguages(trial: Trial): Promise<LanguageTrial[]> {
  const found: LanguageTrial[] = [];
  for (const sample of SAMPLES) {
    const isKnown = trial.model.languages.some(({ code }) => code === sample.language);
    if (isKnown) found.push(await trySample(trial, sample));
  }
  return found;
}

/**
 * Recognizes a sample with one pass, which is enough where it is understood, and else as real work does, with the letters
 * that have the fewest errors. Where that takes longer than the limit, the loop or the silence of the one pass is the cause,
 * and the verdict.
 */
async function trySample(trial: Trial, { language, voice, said, file }: Sample): Promise<LanguageTrial> {
  const sound = { language, pcm: await readSample(file) };
  const startedAt = performance.now();
  const outcomeOf = (heard: string, verdict: TrialVerdict): LanguageTrial => {
    return { ...{ language, voice, said, heard, verdict }, seconds: (performance.now() - startedAt) / 1000 };
  };
  const once = await hearOnce(trial, sound);
  if (once === undefined) return outcomeOf("", "slow");
  const warnings: Warning[] = hasLoop(once) ? ["repetition_removed"] : [];
  const heard = textOf(once);
  const first = verdictOf({ language, said, heard, warnings });
  if (first === "understood") return outcomeOf(heard, first);
  const hear = async (model: InstalledModel) => {
    const segments = await hearOnce({ ...trial, model }, sound);
    return segments && textOf(segments);
  };
  const letters = await bestLetters(trial.model, { language, said }, heard, hear);
  const chosen = { ...trial, model: withLetters(trial.model, language, letters) };
  const result = await withinLimit(trial, (signal) => hearGuarded(chosen, sound, signal));
  const outcome = result
    ? outcomeOf(result.heard, verdictOf({ language, said, ...result }))
    : outcomeOf(heard, isFailedTrial(first) ? first : "slow");
  return { ...outcome, ...(letters ? { letters } : {}) };
}

/**
 * Refuses a model that is of no use in any sample. Weights for one language may fail with its synthetic voice, so a
 * model whose family knows English in any case is tried with a person's English, too, before it is refused.
 *
 * @throws Error with the reason
 */
async function refuseUseless(trial: Trial, languages: readonly LanguageTrial[]): Promise<void> {
  const outcomes = [...languages];
  if (refusalOf(outcomes, undefined) === undefined) return;
  const [person] = SAMPLES;
  const { knowsEnglish } = FAMILIES.of(trial.model.family).trial;
  if (knowsEnglish && !isTried(outcomes, person.language)) outcomes.push(await trySample(trial, person));
  if (refusalOf(outcomes, undefined) === undefined) return;
  throw new Error(refusalOf(outcomes, await betterFlag(trial, outcomes)));
}

/**
 * Finds out whether the model does better without timestamps, with which some weights were not trained.
 *
 * @returns the flag of the command that adds it so; undefined: it does not
 */
async function betterFlag(trial: Trial, outcomes: readonly LanguageTrial[]): Promise<string | undefined> {
  const { family, decoding } = trial.model;
  const { flag, decodingOf } = FAMILIES.of(family).trial.withoutTimestamps ?? {};
  const untimed = decodingOf?.(decoding);
  if (!untimed) return undefined;
  for (const sample of SAMPLES) {
    if (!isTried(outcomes, sample.language)) continue;
    const { verdict } = await trySample({ ...trial, model: { ...trial.model, decoding: untimed } }, sample);
    if (verdict === "understood" || verdict === "weak") return flag;
  }
  return undefined;
}

type Sound = { language: string; pcm: Int16Array };

/** Returns the speech that the model has understood best; where none was tried, the first sample in another language. */
async function bestSpeech(languages: readonly LanguageTrial[], otherwise: string): Promise<Sound> {
  const language = languages.length === 0 ? otherwise : languages.reduce(betterOf).language;
  const sample = SAMPLES.find((each) => each.language === language) ?? SAMPLES[0];
  return { language, pcm: await readSample(sample.file) };
}

/** Measures what the family wants to know while a model recognizes speech. @returns undefined where it knows all, or had no time */
async function measureSpeech(trial: Trial, { language, pcm }: Sound): Promise<ModelDecoding | undefined> {
  const { model } = trial;
  const family = FAMILIES.of(model.family);
  const once = family.singlePass(family.settingsFor({ language, mode: "native" }, model));
  const settings = family.trial.measuring?.settings(once, model);
  if (!settings) return undefined;
  const found = await withinLimit(trial, (signal) => recognize(trial, pcm, settings, signal));
  return found && family.trial.measuring?.decoding(model.decoding, found.measured);
}

/** Corrects starts of words that come late or early on the whole. @returns undefined where there is nothing to correct */
async function measureStarts(
  trial: Trial,
  languages: readonly LanguageTrial[],
): Promise<ModelDecoding | undefined> {
  const family = FAMILIES.of(trial.model.family);
  const { wordStarts } = family.trial;
  if (!wordStarts?.mayCorrect(trial.model)) return undefined;
  const isUnderstood = ({ language: code }: Sample) =>
    languages.some(({ language, verdict }) => language === code && verdict === "understood");
  const hear = async (model: InstalledModel, { language, file }: Sample) => {
    const once = family.singlePass(family.settingsFor({ language, mode: "native" }, model));
    const [pcm, tried] = [await readSample(file), { ...trial, model }];
    const work = (signal: AbortSignal) => recognize(tried, pcm, { ...once, words: true }, signal);
    return (await withinLimit(trial, work))?.segments;
  };
  return correctStarts(trial.model, SAMPLES.filter(isUnderstood), hear, wordStarts.earlier);
}

/** Measures the speed with one pass over a chunk of full length. @returns undefined when the time was over first */
async function measureSpeed(trial: Trial, { language, pcm }: Sound): Promise<number | undefined> {
  const { family, decoding } = trial.model;
  const chunk = repeatSpeech(pcm, decoding.maxChunkMs ?? FAMILIES.of(family).maxChunkMs);
  const startedAt = performance.now();
  const heard = await hearOnce(trial, { language, pcm: chunk });
  if (heard === undefined) return undefined;
  return (1000 * chunk.length) / SAMPLE_RATE_HZ / (performance.now() - startedAt);
}

/** Recognizes with one pass and without guards, in the language's own letters. @returns undefined when the time was over first */
async function hearOnce(
  trial: Trial,
  { language, pcm }: Sound,
): Promise<readonly RecognizedSegment[] | undefined> {
  const { model } = trial;
  const family = FAMILIES.of(model.family);
  const settings = family.singlePass(family.settingsFor({ language, mode: "native" }, model));
  const recognition = await withinLimit(trial, (signal) => recognize(trial, pcm, settings, signal));
  const { inOwnLetters = (text: string) => text } = family;
  return recognition?.segments.map((segment) => ({
    ...segment,
    text: inOwnLetters(segment.text, { language }, model),
  }));
}

const textOf = (segments: readonly { text: string }[]): string =>
  segments
    .map(({ text }) => text.trim())
    .join(" ")
    .trim();

/** Recognizes as real work does: with guards, second attempts, and the wording of the mode. */
async function hearGuarded(trial: Trial, { language, pcm }: Sound, signal: AbortSignal) {
  const { decoding } = trial.model;
  const model = {
    ...trial.model,
    decoding: { ...decoding, unknownBelow: decoding.unknownBelow ?? UNSURE_BELOW },
  };
  const modes = model.languages.find(({ code }) => code === language)?.modes ?? [];
  const mode = modes.includes("native") ? "native" : (modes[0] ?? "native");
  const task = {
    ...{ model, family: FAMILIES.of(model.family), durationMs: (1000 * pcm.length) / SAMPLE_RATE_HZ },
    request: { language, mode, channelMode: "mix" as const },
  };
  const chunk = { channel: 0, regions: [{ startSample: 0, endSample: pcm.length }] };
  const { segments, warnings } = await recognizeGuarded(task, chunk, async (regions, settings) => {
    const { slices, totalSamples } = layoutChunk(regions);
    const part = new Int16Array(totalSamples);
    for (const { sourceStartSample, samples, targetStartSample } of slices)
      part.set(pcm.subarray(sourceStartSample, sourceStartSample + samples), targetStartSample);
    return recognize(trial, part, settings, signal);
  });
  return { heard: textOf(wordSegments(segments, mode)), warnings };
}

/** @throws Error when the engine cannot use the model; EngineError `aborted` */
async function recognize(
  { engine, model }: Trial,
  pcm: Int16Array,
  settings: RecognizerSettings,
  signal: AbortSignal,
): Promise<Recognition> {
  const bytes = new Uint8Array(pcm.buffer, pcm.byteOffset, pcm.byteLength);
  const { windowMs } = FAMILIES.of(model.family);
  const audio = { pcm: bytes, totalSamples: pcm.length };
  const job = { ...{ model, windowMs, audio, settings }, sharers: 1, isAlone: true };
  try {
    return await engine.recognize(job, signal);
  } catch (error) {
    if (error instanceof EngineError && error.kind === "aborted") throw error;
    throw new Error(`The engine cannot use this model: ${errorMessage(error)}.`, { cause: error });
  }
}

/** Ends work that takes longer than a sample may. @returns undefined when the time was over */
async function withinLimit<T>(
  { limitMs, endsAt }: Trial,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T | undefined> {
  const leftMs = Math.min(limitMs, endsAt - performance.now());
  if (leftMs <= 0) return undefined;
  const limit = new AbortController();
  const timer = Number.isFinite(leftMs) ? setTimeout(() => limit.abort(), leftMs) : undefined;
  try {
    return await work(limit.signal);
  } catch (error) {
    if (limit.signal.aborted) return undefined;
    throw error;
  } finally {
    clearTimeout(timer);
  }
}
