import englishFile from "../../models/samples/01-en.wav" with { type: "file" };
import hindiFile from "../../models/samples/02-hi.wav" with { type: "file" };
import type { Config } from "../config/schema.ts";
import { SAMPLE_RATE_HZ } from "../domain/chunk.ts";
import { engineOf, type InstalledModel } from "../domain/model.ts";
import type { Engine } from "../engine/engine.ts";
import type { ChunkJob } from "../engine/protocol.ts";
import { peakMemoryOfChildren } from "../engine/workers/child-memory.ts";
import { errorMessage } from "../lib/error-message.ts";
import type { Log } from "../lib/log.ts";
import { familyOf } from "../pipeline/families/families.ts";

/** What a trial has found. */
export type TrialReport = {
  /** Where the model ran, such as `cpu`. */
  device: string;
  /** Speech recognized per time, with a chunk of the model's full length. */
  timesRealTime: number;
  /** Most memory of the process with the model, bytes; 0 where the system does not say. */
  memoryBytes: number;
  language: string;
  said: string;
  heard: string;
  /** Text that the model made of silence and of noise: no good sign, and not rare. */
  heardInSilence: string;
  heardInNoise: string;
};

type Sample = { language: string; file: string; said: string };

/** Synthetic voices of this program's own samples, 16 kHz mono. */
const SAMPLES: readonly [Sample, Sample] = [
  { language: "hi", file: hindiFile, said: "अभी दस बजे और दस मिनट हैं" },
  { language: "en", file: englishFile, said: "eighty three thousand two hundred" },
];
const QUIET_SECONDS = 5;
const PAUSE_SECONDS = 0.5;

/**
 * Recognizes silence, noise and speech with a model in a process of its own, so that an admin, not the first customer,
 * finds weights that the engine cannot use.
 *
 * @throws Error when the model cannot be loaded or ends its process, when it hears nothing in clear speech of a language
 *   that it is said to know, or when it writes much more than was said
 */
export async function tryOutModel(
  config: Config,
  dataDir: string,
  log: Log,
  model: InstalledModel,
): Promise<TrialReport> {
  const { openEngine } = await import("../engine/open-engine.ts");
  const { engine } = await openEngine(config, dataDir, log);
  try {
    return await recognizeSamples(engine, model);
  } finally {
    await engine.close();
  }
}

async function recognizeSamples(engine: Engine, model: InstalledModel): Promise<TrialReport> {
  const known = SAMPLES.find(({ language }) => model.languages.some(({ code }) => code === language));
  const sample = known ?? SAMPLES[0];
  const language = known?.language ?? model.languages[0]?.code ?? sample.language;
  const hear = async (pcm: Int16Array): Promise<string> => await recognize(engine, model, language, pcm);
  const speech = await readSample(sample.file);
  const heard = await hear(speech);
  checkHeard(heard, { ...sample, language }, known !== undefined);
  const heardInSilence = await hear(new Int16Array(QUIET_SECONDS * SAMPLE_RATE_HZ));
  const heardInNoise = await hear(noise(QUIET_SECONDS * SAMPLE_RATE_HZ));
  // Each language of a CTC model has its own tokens. Whisper's models treat all languages alike.
  const others = engineOf(model.family) === "whisper" ? [] : model.languages;
  for (const { code } of others) if (code !== language) await recognize(engine, model, code, speech);
  const chunk = repeat(speech, model);
  const startedAt = performance.now();
  await hear(chunk);
  const elapsedSeconds = (performance.now() - startedAt) / 1000;
  return {
    device: engine.status().models[0]?.device ?? "cpu",
    timesRealTime: chunk.length / SAMPLE_RATE_HZ / elapsedSeconds,
    memoryBytes: peakMemoryOfChildren(),
    language,
    said: sample.said,
    heard,
    heardInSilence,
    heardInNoise,
  };
}

/** A person says some 15 letters a second; a decoder in a loop fills its memory. */
const RAMBLING_FACTOR = 6;

function checkHeard(heard: string, { language, said }: Sample, isKnown: boolean): void {
  const anyway = "It was not installed; --no-trial installs it as it is.";
  if (isKnown && !/[\p{L}\p{N}]/u.test(heard)) {
    throw new Error(
      `The model hears nothing in clear speech of the language ${language} (${JSON.stringify(said)}). ${anyway}`,
    );
  }
  if (heard.length > RAMBLING_FACTOR * said.length) {
    throw new Error(
      `The model writes ${heard.length} characters for a sample of ${said.length}: ${JSON.stringify(`${heard.slice(0, 80)}…`)}. If it was trained without timestamps, add it with --no-timestamps. ${anyway}`,
    );
  }
}

async function recognize(
  engine: Engine,
  model: InstalledModel,
  language: string,
  pcm: Int16Array,
): Promise<string> {
  const family = familyOf(model.family);
  const bytes = new Uint8Array(pcm.buffer, pcm.byteOffset, pcm.byteLength);
  const job: ChunkJob = {
    model,
    windowMs: family.windowMs,
    audio: { pcm: bytes, totalSamples: pcm.length },
    settings: family.singlePass(family.settingsFor({ language, mode: "native" }, model)),
    sharers: 1,
    isAlone: true,
  };
  const outcome = await engine.recognize(job, new AbortController().signal).catch((error: unknown) => {
    throw new Error(`The engine cannot use this model: ${errorMessage(error)}.`, { cause: error });
  });
  return outcome.segments
    .map(({ text }) => text.trim())
    .join(" ")
    .trim();
}

/** Reads the samples of one of our own WAV files: 16 kHz, mono, 16 bit. */
async function readSample(path: string): Promise<Int16Array<ArrayBuffer>> {
  const bytes = Buffer.from(await Bun.file(path).arrayBuffer());
  const start = bytes.indexOf("data") + 8;
  const pcm = new Int16Array(Math.floor((bytes.length - start) / 2));
  for (let n = 0; n < pcm.length; n++) pcm[n] = bytes.readInt16LE(start + 2 * n);
  return pcm;
}

/** Fills the longest chunk of the model with speech, again and again with a pause. */
function repeat(speech: Int16Array, { family, decoding }: InstalledModel): Int16Array {
  const longestMs = decoding.maxChunkMs ?? familyOf(family).maxChunkMs;
  const period = speech.length + PAUSE_SECONDS * SAMPLE_RATE_HZ;
  const times = Math.max(1, Math.floor(((longestMs / 1000) * SAMPLE_RATE_HZ) / period));
  const chunk = new Int16Array(times * period);
  for (let n = 0; n < times; n++) chunk.set(speech, n * period);
  return chunk;
}

/** Makes the same soft noise each time. */
function noise(samples: number): Int16Array {
  const pcm = new Int16Array(samples);
  let state = 1;
  for (let i = 0; i < samples; i++) {
    state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fffffff;
    pcm[i] = ((state >> 16) % 1000) - 500;
  }
  return pcm;
}

/** Renders a report as lines for people. */
export function describeTrial(report: TrialReport): string[] {
  const { timesRealTime, memoryBytes, device, said, heard } = report;
  const memory = memoryBytes === 0 ? "" : `, ${Math.round(memoryBytes / 1e6)} MB of memory`;
  const lines = [
    `trial: ${timesRealTime.toFixed(1)} × real time${memory}, on ${device}`,
    `trial: said ${JSON.stringify(said)}, heard ${JSON.stringify(heard)}`,
  ];
  for (const [where, text] of [
    ["silence", report.heardInSilence],
    ["noise", report.heardInNoise],
  ] as const) {
    if (/[\p{L}\p{N}]/u.test(text))
      lines.push(`trial: writes ${JSON.stringify(text.slice(0, 100))} for ${where}`);
  }
  if (timesRealTime < 1) lines.push("trial: the model is slower than real time on this machine");
  return lines;
}
