/**
 * Compares the speech detector with the same network in sherpa-onnx (onnxruntime, one window a call) in one run, both on one
 * thread, over the same dense speech, in turns. It measures processor time, on which other programs have little effect.
 *
 *   bun scripts/bench/speech-detector.ts [--seconds 300] [--rounds 5]
 */
import { parseArgs } from "node:util";
import { Vad } from "sherpa-onnx-node";
import { pcmOf } from "../../src/e2e/samples.ts";
import { SILERO_ONNX } from "../../src/native/build/silero.ts";
import { extractNativeFiles } from "../../src/native/native-files.ts";
import { openSilero, SILERO_WINDOW_SAMPLES } from "../../src/native/silero/silero.ts";
import { denseSpeech, repeated } from "./engine/audio.ts";

const { values: options } = parseArgs({
  options: { seconds: { type: "string", default: "300" }, rounds: { type: "string", default: "5" } },
});
const seconds = Number(options.seconds);
const windows = Math.floor((seconds * 16_000) / SILERO_WINDOW_SAMPLES);

const said = ["01-en", "04-en", "12-en-long"].map((name) => new Int16Array(pcmOf(name).buffer));
const pcm = repeated(denseSpeech(said), seconds).slice(0, windows * SILERO_WINDOW_SAMPLES);
const floats = Float32Array.from(pcm, (sample) => sample / 32_768);

const silero = openSilero(await extractNativeFiles(""));
const sherpa = new Vad(
  {
    sileroVad: { model: SILERO_ONNX, threshold: 0.5, windowSize: SILERO_WINDOW_SAMPLES },
    sampleRate: 16_000,
    numThreads: 1,
    debug: 0,
  },
  60,
);

function listenOurs(): void {
  silero.listen().probabilities(pcm);
}

function listenSherpa(): void {
  sherpa.reset();
  for (let n = 0; n < windows; n++) {
    sherpa.acceptWaveform(floats.subarray(n * SILERO_WINDOW_SAMPLES, (n + 1) * SILERO_WINDOW_SAMPLES));
    while (!sherpa.isEmpty()) sherpa.pop();
  }
}

function cpuMs(work: () => void): number {
  const before = process.cpuUsage();
  work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
}

for (let variant = 0; variant < silero.variants - 1; variant++) {
  const ms = cpuMs(() => silero.listen(variant).probabilities(pcm));
  console.log(`  build ${variant}, for lesser processors: ${((ms * 1000) / windows).toFixed(1)} µs a window`);
}
const ratios: number[] = [];
for (let round = 0; round < Number(options.rounds); round++) {
  const ours = cpuMs(listenOurs);
  const theirs = cpuMs(listenSherpa);
  ratios.push(ours / theirs);
  const each = (ms: number) => `${ms.toFixed(0)} ms (${((ms * 1000) / windows).toFixed(1)} µs a window)`;
  console.log(`  Shruti ${each(ours)}; sherpa-onnx ${each(theirs)}`);
}
ratios.sort((a, b) => a - b);
console.log(
  `${seconds} s of speech: ${ratios[Math.floor(ratios.length / 2)]?.toFixed(3)} of sherpa-onnx's CPU time`,
);
