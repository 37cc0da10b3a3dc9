import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { LabelledSpan } from "../../src/testing/kits/der.ts";

/** Makes conversations from single utterances, so that the speaker is known at each time. */

const SAMPLE_RATE_HZ = 16_000;

/** 16 kHz mono samples and their speakers. */
export type Conversation = { name: string; speakers: number; pcm: Int16Array; reference: LabelledSpan[] };

/** A voice of espeak-ng: name with variant, pitch 0 to 99, words a minute. */
export type SyntheticVoice = { voice: string; pitch: number; speed: number };

export const SYNTHETIC_VOICES: readonly SyntheticVoice[] = [
  { voice: "en-us+m3", pitch: 30, speed: 165 },
  { voice: "en-us+f2", pitch: 60, speed: 160 },
  { voice: "en-gb+m7", pitch: 45, speed: 175 },
  { voice: "en-us+f4", pitch: 45, speed: 170 },
  { voice: "en-gb+klatt2", pitch: 40, speed: 160 },
  { voice: "en-us+steph", pitch: 55, speed: 165 },
  { voice: "en-us+Andrea", pitch: 50, speed: 155 },
  { voice: "en-gb+victor", pitch: 35, speed: 170 },
  { voice: "en-us+Michael", pitch: 40, speed: 160 },
  { voice: "en-us+iven3", pitch: 50, speed: 165 },
];

const SENTENCES = [
  "Good morning, this is the help desk, how may I help you today?",
  "I ordered a refrigerator two weeks ago and it has not arrived yet.",
  "Could you please tell me the number of your order?",
  "Yes, just a moment, I have to look for the paper.",
  "It begins with seven four nine, and then there is a letter.",
  "Thank you.",
  "I see that the parcel left our house on Monday.",
  "That is what they told me last week, too.",
  "I am very sorry for that, let me ask my colleague in the store.",
  "All right.",
  "He says that the lorry broke down near Nagpur, and that the driver waits for a part.",
  "When can I expect it then? My food does not keep in this heat.",
  "We will bring it on Thursday between nine and eleven.",
  "Please write down my new telephone number as well.",
  "Of course, go ahead.",
  "It is the same as before, only the last digit is now a five.",
  "Is there anything else that I can do for you?",
  "No, that was all, thank you very much for your trouble.",
];

/** Returns a generator of numbers between 0 and 1, the same in every run (Park and Miller 1988). */
export function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 48_271) % 2_147_483_647;
    return state / 2_147_483_647;
  };
}

/** Utterances of one voice: 16 kHz samples without silence around them. */
export type Utterances = { speaker: string; utterances: Int16Array[] };

/**
 * Lets the voices take turns: each says one to three utterances, pauses last 0.15 to 1.2 s.
 *
 * @param seconds least length of the conversation
 */
export function converse(
  name: string,
  voices: readonly Utterances[],
  seconds: number,
  seed: number,
): Conversation {
  const random = randomFrom(seed);
  const pick = (count: number) => Math.min(count - 1, Math.floor(random() * count));
  const parts: Int16Array[] = [];
  const reference: LabelledSpan[] = [];
  const next = voices.map(() => 0);
  let at = 0;
  let current = 0;
  const append = (samples: Int16Array) => {
    parts.push(samples);
    at += samples.length;
  };
  const inMs = (samples: number) => Math.round((samples * 1000) / SAMPLE_RATE_HZ);
  append(silence(0.5, random));
  while (at < seconds * SAMPLE_RATE_HZ) {
    const said = 1 + pick(3);
    for (let n = 0; n < said; n++) {
      const voice = voices[current];
      const turn = next[current] ?? 0;
      const utterance = voice?.utterances[turn % voice.utterances.length];
      if (!voice || !utterance) throw new Error(`${name}: a voice says nothing`);
      next[current] = turn + 1;
      const startMs = inMs(at);
      append(utterance);
      reference.push({ speaker: voice.speaker, startMs, endMs: inMs(at) });
      append(silence(0.15 + random() * 1.05, random));
    }
    if (voices.length > 1) current = (current + 1 + pick(voices.length - 1)) % voices.length;
  }
  const pcm = new Int16Array(at);
  let filled = 0;
  for (const part of parts) {
    pcm.set(part, filled);
    filled += part.length;
  }
  return { name, speakers: voices.length, pcm, reference };
}

/** Makes quiet noise instead of digital silence, as on a real line. */
function silence(seconds: number, random: () => number): Int16Array {
  return Int16Array.from({ length: Math.round(seconds * SAMPLE_RATE_HZ) }, () =>
    Math.round((random() - 0.5) * 12),
  );
}

/** Synthesizes each sentence with a voice of espeak-ng. Throws where that is not installed. */
export async function speak(
  voice: SyntheticVoice,
  ffmpeg: string,
  firstSentence: number,
): Promise<Utterances> {
  const speaker = `${voice.voice} ${voice.pitch}`;
  const utterances: Int16Array[] = [];
  for (let index = 0; index < SENTENCES.length; index++) {
    const sentence = SENTENCES[(firstSentence + index) % SENTENCES.length] ?? "";
    const settings = ["-v", voice.voice, "-p", String(voice.pitch), "-s", String(voice.speed)];
    const said = Bun.spawnSync(["espeak-ng", ...settings, "--stdout", sentence]);
    if (said.exitCode !== 0) throw new Error(`espeak-ng: ${said.stderr.toString()}`);
    utterances.push(trim(await toPcm(ffmpeg, said.stdout)));
  }
  return { speaker, utterances };
}

/** Decodes audio to 16 kHz mono samples with the system's ffmpeg. */
export async function toPcm(ffmpeg: string, audio: Uint8Array): Promise<Int16Array> {
  const path = join(process.env.TMPDIR ?? "/tmp", `shruti-bench-${crypto.randomUUID()}.wav`);
  await Bun.write(path, audio);
  const settings = [
    "-nostdin",
    "-loglevel",
    "error",
    "-protocol_whitelist",
    "file,pipe",
    "-i",
    `file:${path}`,
  ];
  const output = ["-ac", "1", "-af", "aresample=16000", "-c:a", "pcm_s16le", "-f", "s16le", "pipe:1"];
  const { exitCode, stdout, stderr } = Bun.spawnSync([ffmpeg, ...settings, ...output]);
  await Bun.file(path).delete();
  if (exitCode !== 0) throw new Error(`ffmpeg: ${stderr.toString()}`);
  return new Int16Array(stdout.buffer.slice(stdout.byteOffset, stdout.byteOffset + (stdout.length & ~1)));
}

/** Returns the utterances of models/samples by voice, from `transcripts.tsv`. */
export async function sampleVoices(directory: string, ffmpeg: string): Promise<Utterances[]> {
  const [, ...lines] = readFileSync(join(directory, "transcripts.tsv"), "utf8").trim().split("\n");
  const voices = new Map<string, Int16Array[]>();
  for (const line of lines) {
    const [file = "", , , start, end, voice = ""] = line.split("\t");
    // Two channels are two conversations at once.
    if (file.includes("stereo")) continue;
    const pcm = await toPcm(ffmpeg, readFileSync(join(directory, file)));
    const utterances = voices.get(voice) ?? [];
    utterances.push(
      pcm.slice(Math.round(Number(start) * SAMPLE_RATE_HZ), Math.round(Number(end) * SAMPLE_RATE_HZ)),
    );
    voices.set(voice, utterances);
  }
  return [...voices].map(([speaker, utterances]) => ({ speaker, utterances }));
}

/** Removes the silence at the start and end. */
export function trim(pcm: Int16Array): Int16Array {
  const loud = (sample: number) => Math.abs(sample) > 200;
  const start = pcm.findIndex(loud);
  const end = pcm.findLastIndex(loud);
  return start === -1 ? pcm.slice(0, 0) : pcm.slice(start, end + 1);
}

/** Sets a common level, so that the level does not reveal the speaker. */
export function level(pcm: Int16Array, rms = 2_500): Int16Array {
  const energy = pcm.reduce((sum, sample) => sum + sample * sample, 0) / Math.max(1, pcm.length);
  const gain = rms / Math.max(1, Math.sqrt(energy));
  return pcm.map((sample) => Math.max(-32_768, Math.min(32_767, Math.round(sample * gain))));
}
