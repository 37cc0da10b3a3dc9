import { writeFileSync } from "node:fs";
import { wavFile } from "../../../src/e2e/samples.ts";

/** Samples a second of all recordings. */
export const RATE = 16_000;
const FRAME = RATE / 50;
/** Frames below this share of full scale are pauses. At most `KEPT_PAUSE_FRAMES` of them in a row are kept. */
const PAUSE_LEVEL = 0.01;
const KEPT_PAUSE_FRAMES = 10;

/** Returns the speech of 16 kHz recordings with pauses shortened to a fifth of a second. */
export function denseSpeech(recordings: readonly Int16Array[]): Int16Array {
  const kept: Int16Array[] = [];
  let pause = 0;
  for (const pcm of recordings) {
    for (let at = 0; at + FRAME <= pcm.length; at += FRAME) {
      const frame = pcm.subarray(at, at + FRAME);
      pause = levelOf(frame) < PAUSE_LEVEL ? pause + 1 : 0;
      if (pause <= KEPT_PAUSE_FRAMES) kept.push(frame);
    }
  }
  return concatenate(kept);
}

/** Repeats speech up to a length. */
export function repeated(speech: Int16Array, seconds: number): Int16Array {
  const pcm = new Int16Array(seconds * RATE);
  for (let at = 0; at < pcm.length; at += speech.length)
    pcm.set(speech.subarray(0, Math.min(speech.length, pcm.length - at)), at);
  return pcm;
}

/** Repeats speech up to a length, and silences ten seconds after every ten seconds of speech. */
export function halfSilent(speech: Int16Array, seconds: number): Int16Array {
  const pcm = repeated(speech, seconds);
  for (let second = 10; second < seconds; second += 20)
    pcm.fill(0, second * RATE, Math.min(pcm.length, (second + 10) * RATE));
  return pcm;
}

/** Makes a mono WAV of 16 kHz. */
export function writeWav(path: string, pcm: Int16Array): void {
  const bytes = new Uint8Array(pcm.buffer, pcm.byteOffset, pcm.byteLength);
  writeFileSync(path, wavFile([bytes], { rateHz: RATE, channels: 1 }));
}

function levelOf(frame: Int16Array): number {
  let sum = 0;
  for (const sample of frame) sum += sample * sample;
  return Math.sqrt(sum / frame.length) / 32768;
}

function concatenate(parts: readonly Int16Array[]): Int16Array {
  const whole = new Int16Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}
