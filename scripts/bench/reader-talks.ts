/**
 * Makes labelled conversations of people who read aloud, for `speakers.ts`: talks in wideband, over the telephone, of 67 minutes, and
 * such as hold both bands. Needs ffmpeg.
 *
 *   bun scripts/bench/reader-talks.ts READERS FOLDER
 *
 * READERS holds recordings whose names begin with the reader's name and a hyphen, as LibriSpeech's do, in any folders. Each
 * group becomes a folder in FOLDER. Readers are taken in the order of their names, and no reader is in two talks of
 * a group unless there are too few. Labels come from the loudness of the clean recordings, so a part of "missed" is theirs.
 */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import type { LabelledSpan } from "../../src/testing/kits/der.ts";
import { level, randomFrom, toPcm, type Utterances } from "./conversations.ts";

const RATE_HZ = 16_000;
const FRAME = 160;
/** Sound this far below the loudest frames of a phrase is a pause, dB. */
const PAUSE_DB = 35;
/** A pause of this length divides phrases; a shorter one belongs to the speech around it. Frames of 10 ms. */
const PAUSE_FRAMES = 30;
const LEAST_PHRASE = 1.5 * RATE_HZ;
const OVERLAP_SHARE = 0.12;
const BACK_CHANNEL_SHARE = 0.1;
/** 300 to 3,400 Hz, 8 kHz, µ-law. */
const TELEPHONE = ["-af", "highpass=f=300,lowpass=f=3400,lowpass=f=3400", "-ar", "8000", "-c:a", "pcm_mulaw"];

type Talk = { pcm: Int16Array; reference: LabelledSpan[] };
type Plan = { name: string; readers: number; seconds: number };

const [source, target] = process.argv.slice(2);
if (source === undefined || target === undefined)
  throw new Error("usage: bun scripts/bench/reader-talks.ts READERS FOLDER");
const paths = new Map<string, string[]>();
for (const file of readdirSync(source, { recursive: true, encoding: "utf8" }).sort()) {
  if (!/\.(flac|wav)$/.test(file)) continue;
  const reader = basename(file).split("-")[0] ?? "";
  paths.set(reader, [...(paths.get(reader) ?? []), join(source, file)]);
}
const readers = [...paths.keys()].sort((one, other) => one.localeCompare(other, "en", { numeric: true }));
let taken = 0;

const PLANS: readonly Plan[] = [
  ...[60, 75, 90, 120, 150, 180].map((seconds) => ({ name: `two-${seconds}`, readers: 2, seconds })),
  ...[90, 150, 240].map((seconds) => ({ name: `three-${seconds}`, readers: 3, seconds })),
  ...[120, 240].map((seconds) => ({ name: `four-${seconds}`, readers: 4, seconds })),
  ...[180, 330].map((seconds) => ({ name: `six-${seconds}`, readers: 6, seconds })),
  { name: "one-90", readers: 1, seconds: 90 },
];
for (const [index, plan] of PLANS.entries()) {
  const wide = await talkOf(plan, 100 + index);
  await write("wideband", plan.name, wide, []);
  await write("telephone", plan.name, await talkOf(plan, 200 + index), TELEPHONE);
}
for (const [index, count] of [2, 3, 5].entries()) {
  const name = `same-${count}`;
  const talk = await talkOf({ name, readers: count, seconds: 120 + 60 * count }, 300 + index);
  await write("bands", name, after(talk, await telephoned(talk)), []);
  // Some take part by telephone.
  const [one, other] = [2, 3].map((number) => ({ name, readers: number, seconds: 60 * count }));
  if (!one || !other) continue;
  const mixed = await telephoneSome(await talkOf(count > 3 ? other : one, 400 + index));
  await write("bands", `some-${count}`, mixed, []);
}
await write("hour", "four", await talkOf({ name: "four", readers: 4, seconds: 4_020 }, 500), []);

/** Returns the phrases of the next readers. */
async function nextVoices(count: number): Promise<Utterances[]> {
  const voices: Utterances[] = [];
  for (let n = 0; n < count; n++) {
    const speaker = readers[taken++ % readers.length] ?? "";
    const utterances: Int16Array[] = [];
    for (const path of paths.get(speaker) ?? [])
      utterances.push(...phrasesOf(level(await toPcm("ffmpeg", readFileSync(path)))));
    voices.push({ speaker, utterances });
  }
  return voices;
}

async function talkOf({ readers: count, seconds }: Plan, seed: number): Promise<Talk> {
  return converse(await nextVoices(count), seconds, seed);
}

/** Lets readers take turns of one to four phrases, at times before the other has ended, and with back-channels. */
function converse(voices: readonly Utterances[], seconds: number, seed: number): Talk {
  const random = randomFrom(seed * 7_919);
  const pick = (count: number) => Math.min(count - 1, Math.floor(random() * count));
  const sum = new Float32Array((seconds + 60) * RATE_HZ);
  const reference: LabelledSpan[] = [];
  const next = voices.map(() => 0);
  const put = (voice: Utterances, phrase: Int16Array, at: number) => {
    for (const [n, sample] of phrase.entries()) sum[at + n] = (sum[at + n] ?? 0) + sample;
    for (const [first, end] of loudParts(phrase))
      reference.push({ speaker: voice.speaker, startMs: msOf(at + first), endMs: msOf(at + end) });
  };
  let at = 0.5 * RATE_HZ;
  let current = 0;
  while (at < seconds * RATE_HZ) {
    const voice = voices[current];
    if (!voice || voice.utterances.length === 0) throw new Error("a reader says nothing");
    for (let said = 1 + pick(4); said > 0; said--) {
      const turn = next[current] ?? 0;
      next[current] = turn + 1;
      const phrase = voice.utterances[turn % voice.utterances.length] ?? new Int16Array();
      put(voice, phrase, at);
      const listener = voices[(current + 1 + pick(voices.length - 1)) % voices.length];
      if (voices.length > 1 && listener && phrase.length > 3 * RATE_HZ && random() < BACK_CHANNEL_SHARE) {
        const word = listener.utterances[pick(listener.utterances.length)] ?? new Int16Array();
        put(listener, word.subarray(0, (0.3 + 0.5 * random()) * RATE_HZ), at + RATE_HZ);
      }
      at += phrase.length + Math.round((0.15 + 0.45 * random()) * RATE_HZ);
    }
    const pause = random() < OVERLAP_SHARE ? -0.6 - 0.8 * random() : 0.8 * random();
    at = Math.max(0, Math.round(at + pause * RATE_HZ));
    if (voices.length > 1) current = (current + 1 + pick(voices.length - 1)) % voices.length;
  }
  const pcm = Int16Array.from(sum.subarray(0, at + RATE_HZ), (sample) =>
    Math.max(-32_768, Math.min(32_767, Math.round(sample + (random() - 0.5) * 12))),
  );
  return { pcm, reference };
}

/** Divides speech at its pauses. */
function phrasesOf(pcm: Int16Array): Int16Array[] {
  const phrases: Int16Array[] = [];
  let from: number | undefined;
  for (const [first, end] of loudParts(pcm)) {
    from ??= first;
    if (end - from < LEAST_PHRASE) continue;
    phrases.push(pcm.slice(Math.max(0, from - FRAME * 5), end + FRAME * 5));
    from = undefined;
  }
  return phrases;
}

/** Returns the speech of a recording of one person: first sample and end. */
function loudParts(pcm: Int16Array): [first: number, end: number][] {
  const levels = Array.from({ length: Math.floor(pcm.length / FRAME) }, (_, frame) => {
    const samples = pcm.subarray(frame * FRAME, (frame + 1) * FRAME);
    return 10 * Math.log10(1 + samples.reduce((power, sample) => power + sample * sample, 0) / FRAME);
  });
  const loudest = levels.toSorted((one, other) => other - one)[Math.floor(levels.length / 20)] ?? 0;
  const parts: [number, number][] = [];
  for (const [frame, db] of levels.entries()) {
    if (db < loudest - PAUSE_DB) continue;
    const last = parts.at(-1);
    if (last && frame - last[1] / FRAME < PAUSE_FRAMES) last[1] = (frame + 1) * FRAME;
    else parts.push([frame * FRAME, (frame + 1) * FRAME]);
  }
  return parts;
}

function msOf(sample: number): number {
  return Math.round((sample * 1000) / RATE_HZ);
}

/** Returns a talk as it sounds over the telephone, in 16 kHz. */
async function telephoned({ pcm, reference }: Talk): Promise<Talk> {
  const line = await toPcm("ffmpeg", ffmpeg(wavOf(pcm), [...TELEPHONE, "-f", "wav", "pipe:1"]));
  const whole = new Int16Array(pcm.length);
  whole.set(line.subarray(0, pcm.length));
  return { pcm: whole, reference };
}

/** Plays one talk after the other. */
function after(one: Talk, other: Talk): Talk {
  const pcm = new Int16Array(one.pcm.length + other.pcm.length);
  pcm.set(one.pcm);
  pcm.set(other.pcm, one.pcm.length);
  const shift = msOf(one.pcm.length);
  const later = other.reference.map(({ speaker, startMs, endMs }) => ({
    speaker,
    startMs: startMs + shift,
    endMs: endMs + shift,
  }));
  return { pcm, reference: [...one.reference, ...later] };
}

/** Each second person of a talk takes part by telephone. Where two speak at once, both are heard over it. */
async function telephoneSome(talk: Talk): Promise<Talk> {
  const people = [...new Set(talk.reference.map(({ speaker }) => speaker))];
  const line = await telephoned(talk);
  const pcm = talk.pcm.slice();
  for (const { speaker, startMs, endMs } of talk.reference) {
    if (people.indexOf(speaker) % 2 === 0) continue;
    const [first, end] = [startMs - 100, endMs + 100].map((ms) =>
      Math.max(0, Math.round((ms * RATE_HZ) / 1000)),
    );
    pcm.set(line.pcm.subarray(first, end), first);
  }
  return { pcm, reference: talk.reference };
}

function wavOf(pcm: Int16Array): Uint8Array {
  const raw = new Uint8Array(pcm.buffer, pcm.byteOffset, pcm.byteLength);
  return ffmpeg(raw, ["-f", "wav", "pipe:1"], ["-f", "s16le", "-ar", String(RATE_HZ), "-ac", "1"]);
}

function ffmpeg(input: Uint8Array, output: readonly string[], form: readonly string[] = []): Uint8Array {
  const command = ["ffmpeg", "-v", "error", "-y", ...form, "-i", "pipe:0", ...output];
  const { exitCode, stdout, stderr } = Bun.spawnSync(command, { stdin: input });
  if (exitCode !== 0) throw new Error(`ffmpeg: ${stderr}`);
  return stdout;
}

async function write(group: string, name: string, { pcm, reference }: Talk, line: readonly string[]) {
  const folder = join(target ?? "", group);
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, `${name}.wav`), ffmpeg(wavOf(pcm), [...line, "-f", "wav", "pipe:1"]));
  const labels = reference
    .toSorted((one, other) => one.startMs - other.startMs)
    .map(({ speaker, startMs, endMs }) => {
      const times = `${(startMs / 1000).toFixed(3)} ${((endMs - startMs) / 1000).toFixed(3)}`;
      return `SPEAKER ${name} 1 ${times} <NA> <NA> ${speaker} <NA> <NA>\n`;
    });
  writeFileSync(join(folder, `${name}.rttm`), labels.join(""));
  console.log(`${group}/${name}: ${Math.round(pcm.length / RATE_HZ)} s`);
}
