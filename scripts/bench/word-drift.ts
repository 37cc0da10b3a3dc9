import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { wavOf } from "../../src/e2e/sounds.ts";
import { addErrors, describe, type Errors, pairsOf, samplesOf, type Timed } from "./whisper-words/errors.ts";

/**
 * Measures whether word times drift in a long recording: joins recordings whose words have known times, lets the executable
 * transcribe them, and prints the errors of each quarter.
 *
 *     bun scripts/bench/word-drift.ts FOLDER --config FILE --model ID [--seconds 3600] [--prefix en-] [--executable dist/shruti]
 *
 * FOLDER is one of `whisper-words.ts`. The config file has `capabilities.word_timestamps`, and its data directory has the model.
 * The recording and the result stay in `--kept`.
 */

const RATE_HZ = 16_000;
const PAUSE_SECONDS = 0.83;
const PARTS = 4;

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: {
    config: { type: "string", default: "shruti.toml" },
    model: { type: "string", default: "whisper-base" },
    seconds: { type: "string", default: "3600" },
    prefix: { type: "string", default: "en-" },
    executable: { type: "string", default: "dist/shruti" },
    kept: { type: "string", default: "/tmp" },
  },
});
const [folder = "."] = positionals;
const language = values.prefix.slice(0, 2);

const names = readdirSync(folder)
  .filter((name) => name.startsWith(values.prefix) && name.endsWith(".wav"))
  .toSorted();
const parts = names.map((name) => ({
  sound: samplesOf(join(folder, name)),
  words: JSON.parse(readFileSync(join(folder, name.replace(/wav$/, "json")), "utf8")) as Timed[],
}));
const pause = new Float32Array(PAUSE_SECONDS * RATE_HZ);
const sounds: Float32Array[] = [];
const said: Timed[] = [];
let samples = 0;
for (let n = 0; samples / RATE_HZ < Number(values.seconds); n++) {
  const part = parts[n % parts.length];
  if (!part) throw new Error(`${folder} has no recordings ${values.prefix}*.wav`);
  const at = samples / RATE_HZ;
  for (const { text, start, end } of part.words)
    said.push({
      text,
      ...(start === undefined ? {} : { start: start + at }),
      ...(end === undefined ? {} : { end: end + at }),
    });
  sounds.push(part.sound, pause);
  samples += part.sound.length + pause.length;
}
const all = new Float32Array(samples);
let to = 0;
for (const sound of sounds) {
  all.set(sound, to);
  to += sound.length;
}
const recording = join(values.kept, "word-drift.wav");
writeFileSync(recording, wavOf({ rateHz: RATE_HZ, channels: [all] }));

const output = join(values.kept, "word-drift.json");
const command = ["transcribe", recording, "--config", values.config, "--model", values.model];
const options = ["--language", language, "--mode", "verbatim", "--timestamps", "word", "--output", output];
const child = Bun.spawn([values.executable, ...command, ...options], {
  stdout: "inherit",
  stderr: "inherit",
});
if ((await child.exited) !== 0) throw new Error("the executable failed");
const { segments, warnings } = JSON.parse(readFileSync(output, "utf8")) as {
  segments: { text: string; words?: Timed[] }[];
  warnings?: unknown;
};
const heard = segments.flatMap(({ words = [] }) => words);
const untimed = segments.filter(({ words }) => words === undefined).length;
console.log(
  `${Math.round(samples / RATE_HZ)} s, ${segments.length} segments, ${untimed} without word times, warnings ${JSON.stringify(warnings)}`,
);

const seconds = samples / RATE_HZ;
const pairs = pairsOf(said, heard);
for (let part = 0; part < PARTS; part++) {
  const errors: Errors = { starts: [], ends: [], said: 0 };
  const isIn = ({ start }: Timed) => start !== undefined && Math.floor((start / seconds) * PARTS) === part;
  for (const [one, other] of pairs) if (isIn(one)) addErrors(errors, [one], [other]);
  errors.said = said.filter(isIn).length;
  console.log(`quarter ${part + 1}: ${describe(errors)}`);
}
