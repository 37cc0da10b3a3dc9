import { writeFileSync } from "node:fs";

const RATE = 16_000;
const FRAME = RATE / 50;
/** Frames of less than this share of full scale are pause; of those at most `KEPT_PAUSE_FRAMES` in a row stay. */
const PAUSE_LEVEL = 0.01;
const KEPT_PAUSE_FRAMES = 10;
const WAV_HEADER_BYTES = 44;

/** The speech of 16 kHz recordings with its pauses shortened to a fifth of a second. */
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

/** Speech over and over, up to a length. */
export function repeated(speech: Int16Array, seconds: number): Int16Array {
  const pcm = new Int16Array(seconds * RATE);
  for (let at = 0; at < pcm.length; at += speech.length)
    pcm.set(speech.subarray(0, Math.min(speech.length, pcm.length - at)), at);
  return pcm;
}

/** The same length, but ten seconds of silence after every ten of speech. */
export function halfSilent(speech: Int16Array, seconds: number): Int16Array {
  const pcm = repeated(speech, seconds);
  for (let second = 10; second < seconds; second += 20)
    pcm.fill(0, second * RATE, Math.min(pcm.length, (second + 10) * RATE));
  return pcm;
}

export function writeWav(path: string, pcm: Int16Array): void {
  const header = new DataView(new ArrayBuffer(WAV_HEADER_BYTES));
  const text = (at: number, letters: string) => {
    for (const [i, letter] of [...letters].entries()) header.setUint8(at + i, letter.charCodeAt(0));
  };
  text(0, "RIFF");
  header.setUint32(4, 36 + pcm.byteLength, true);
  text(8, "WAVEfmt ");
  header.setUint32(16, 16, true);
  header.setUint16(20, 1, true);
  header.setUint16(22, 1, true);
  header.setUint32(24, RATE, true);
  header.setUint32(28, RATE * 2, true);
  header.setUint16(32, 2, true);
  header.setUint16(34, 16, true);
  text(36, "data");
  header.setUint32(40, pcm.byteLength, true);
  writeFileSync(path, Buffer.concat([Buffer.from(header.buffer), Buffer.from(pcm.buffer)]));
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
