import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { createWorkerHost } from "../../src/engine/workers/worker-host.ts";
import type { CtcSettings } from "../../src/families/ctc/settings.ts";
import { extractNativeFiles } from "../../src/native/native-files.ts";
import { engineOptions } from "../../src/testing/kits/test-config.ts";
import { quantile, readTimedRecordings, wordErrors } from "../../src/testing/makers/timed-recordings.ts";
import { TINY_CTC } from "../../src/testing/makers/tiny-ctc.ts";

/**
 * Measures how exact the times of words are that CTC models give, on recordings with known times:
 *
 *     python3 timed.py /tmp/timed 240 11                      # in scripts/models/tiny-ctc
 *     bun scripts/bench/word-times.ts /tmp/timed [--noise 15] [--model FOLDER]
 *
 * `--noise`: white noise, this many decibels below the speech. `--model`: a folder with `model.onnx` and `tokens.txt`.
 */

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: { noise: { type: "string" }, model: { type: "string", default: TINY_CTC } },
});
const [recordings = "."] = positionals;

const folder = mkdtempSync(join(tmpdir(), "shruti-word-times-"));
const files = { model: join(values.model, "model.onnx"), tokens: join(values.model, "tokens.txt") };
const host = createWorkerHost({
  nativeFiles: await extractNativeFiles(folder),
  backendDirs: [],
  engine: engineOptions(),
  log: () => {},
  opens: ["nemo_ctc"],
  load: { files, device: "cpu" },
});

/** Adds white noise, the same at every call. */
function withNoise(pcm: Int16Array, belowDb: number): Int16Array {
  const rms = Math.sqrt(pcm.reduce((sum, sample) => sum + sample * sample, 0) / pcm.length);
  // Noise that is even between −½ and ½ has a power of one twelfth.
  const loudness = rms * 10 ** (-belowDb / 20) * Math.sqrt(12);
  let state = 1;
  return pcm.map((sample) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.max(-32_768, Math.min(32_767, Math.round(sample + (state / 2 ** 32 - 0.5) * loudness)));
  });
}

async function recognize(pcm: Int16Array, language: string) {
  const pcmPath = join(folder, "recording.pcm");
  writeFileSync(pcmPath, new Uint8Array(pcm.buffer));
  const slices = [{ sourceStartSample: 0, samples: pcm.length, targetStartSample: 0 }];
  const audio = { pcmPath, slices, totalSamples: pcm.length };
  const settings: CtcSettings = { language, features: "nemo", words: true };
  const { signal } = new AbortController();
  const options = { signal, timeoutMs: 60_000, isAlone: false };
  const reply = await host.request({ type: "transcribe", audio, settings, threads: 1 }, options);
  if (reply.type !== "transcribed") throw new Error(reply.type);
  return reply.outcome.segments.flatMap(({ words = [] }) => words);
}

const errors: { language: string; startMs: number; endMs: number }[] = [];
let said = 0;
for (const { pcm, language, words } of readTimedRecordings(recordings)) {
  const sound = values.noise === undefined ? pcm : withNoise(pcm, Number(values.noise));
  const found = wordErrors(words, await recognize(sound, language));
  errors.push(...found.map((error) => ({ language, ...error })));
  said += words.length;
}
await host.stop(true);
rmSync(folder, { recursive: true });

const percent = (share: number) => `${(100 * share).toFixed(1)} %`;
function report(name: string, late: readonly number[]): void {
  const sizes = late.map(Math.abs);
  const near = sizes.filter((size) => size <= 200).length / sizes.length;
  const [middle, most] = [quantile(sizes, 0.5), quantile(sizes, 0.95)].map(Math.round);
  console.log(
    `${name}: ${late.length} words, late by ${Math.round(quantile(late, 0.5))} ms (median), error ${middle} ms (median), ${most} ms (95 %), ${percent(near)} within 200 ms`,
  );
}
console.log(`${errors.length} of ${said} words were recognized`);
report(
  "starts",
  errors.map(({ startMs }) => startMs),
);
report(
  "ends",
  errors.map(({ endMs }) => endMs),
);
for (const language of new Set(errors.map((error) => error.language))) {
  report(
    `starts, ${language}`,
    errors.filter((error) => error.language === language).map(({ startMs }) => startMs),
  );
}
