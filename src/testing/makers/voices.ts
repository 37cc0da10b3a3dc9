/** Synthesizes voices: pulses and noise through resonators (Fant 1960, "Acoustic theory of speech production"). */

const SAMPLE_RATE_HZ = 16_000;

export type MadeVoice = {
  pitchHz: number;
  /** Length of the vocal tract relative to a man's. A shorter tract has higher formants. */
  tract: number;
  /** Share of noise in the signal, 0 to 1. */
  breath: number;
};

export const LOW_VOICE: MadeVoice = { pitchHz: 105, tract: 1, breath: 0.02 };
export const HIGH_VOICE: MadeVoice = { pitchHz: 205, tract: 0.84, breath: 0.06 };
export const ROUGH_VOICE: MadeVoice = { pitchHz: 140, tract: 0.93, breath: 0.3 };

/** Formants of a man's vowels in Hz (Peterson and Barney 1952). */
const VOWELS = [
  [270, 2290, 3010],
  [390, 1990, 2550],
  [530, 1840, 2480],
  [660, 1720, 2410],
  [730, 1090, 2440],
  [570, 840, 2410],
  [440, 1020, 2240],
  [300, 870, 2240],
] as const;
const BANDWIDTHS_HZ = [70, 110, 170];

/** Returns a generator of numbers between 0 and 1, the same in every run (Park and Miller 1988). */
export function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 48_271) % 2_147_483_647;
    return state / 2_147_483_647;
  };
}

/** Synthesizes nonsense of this length: vowels of 80 to 250 ms with some hiss between them. */
export function talk(voice: MadeVoice, seconds: number, random: () => number): Int16Array {
  const samples = new Float64Array(Math.round(seconds * SAMPLE_RATE_HZ));
  let phase = 0;
  for (let at = 0; at < samples.length; ) {
    const length = Math.min(samples.length - at, Math.round((0.08 + 0.17 * random()) * SAMPLE_RATE_HZ));
    const isHiss = random() < 0.15;
    const vowel = VOWELS[Math.floor(random() * VOWELS.length)] ?? VOWELS[0];
    const pitchHz = voice.pitchHz * (0.9 + 0.25 * random());
    const source = new Float64Array(length);
    for (let n = 0; n < length; n++) {
      phase += pitchHz / SAMPLE_RATE_HZ;
      const isPulse = phase >= 1;
      if (isPulse) phase -= 1;
      const noise = random() - 0.5;
      source[n] = isHiss ? noise * 0.3 : (isPulse ? 1 : 0) + noise * voice.breath;
    }
    const formants = isHiss ? [3_500, 5_000, 6_500] : vowel;
    for (const [index, hz] of formants.entries())
      resonate(source, hz / voice.tract, BANDWIDTHS_HZ[index] ?? 100);
    for (let n = 0; n < length; n++) {
      const edge = Math.min(1, n / 160, (length - n) / 160);
      samples[at + n] = (source[n] ?? 0) * edge;
    }
    at += length;
  }
  const rms = Math.sqrt(samples.reduce((sum, sample) => sum + sample * sample, 0) / samples.length);
  return Int16Array.from(samples, (sample) =>
    Math.max(-32_768, Math.min(32_767, Math.round((sample / rms) * 2_500))),
  );
}

/** Applies a resonator of two poles in place. */
function resonate(samples: Float64Array, hz: number, bandwidthHz: number): void {
  const radius = Math.exp((-Math.PI * bandwidthHz) / SAMPLE_RATE_HZ);
  const a = 2 * radius * Math.cos((2 * Math.PI * Math.min(hz, 7_500)) / SAMPLE_RATE_HZ);
  let before = 0;
  let beforeThat = 0;
  for (let n = 0; n < samples.length; n++) {
    const value = (1 - radius) * (samples[n] ?? 0) + a * before - radius * radius * beforeThat;
    beforeThat = before;
    before = value;
    samples[n] = value;
  }
}

export type MadeTurn = { startMs: number; endMs: number; speaker: string };
export type MadeConversation = {
  pcm: Int16Array;
  turns: MadeTurn[];
  regions: { startSample: number; endSample: number }[];
};

/** Lets the voices speak in turn, each for 2 to 6 s, with pauses of 0.3 to 1 s. Regions have the detector's padding. */
export function makeConversation(
  voices: readonly MadeVoice[],
  seconds: number,
  seed: number,
): MadeConversation {
  const random = randomFrom(seed);
  const padding = 0.2 * SAMPLE_RATE_HZ;
  const parts: Int16Array[] = [];
  const turns: MadeTurn[] = [];
  const regions: { startSample: number; endSample: number }[] = [];
  let at = 0;
  const append = (samples: Int16Array) => {
    parts.push(samples);
    at += samples.length;
  };
  const pause = (length: number) =>
    append(
      Int16Array.from({ length: Math.round(length * SAMPLE_RATE_HZ) }, () => Math.round(random() * 8 - 4)),
    );
  pause(0.5);
  for (let turn = 0; at < seconds * SAMPLE_RATE_HZ; turn++) {
    const speaker = turn % voices.length;
    const start = at;
    append(talk(voices[speaker] ?? LOW_VOICE, 2 + 4 * random(), random));
    turns.push({ startMs: start / 16, endMs: at / 16, speaker: String(speaker) });
    regions.push({ startSample: start - padding, endSample: at + padding });
    pause(0.5 + 0.7 * random());
  }
  const pcm = new Int16Array(at);
  let filled = 0;
  for (const part of parts) {
    pcm.set(part, filled);
    filled += part.length;
  }
  return { pcm, turns, regions };
}
