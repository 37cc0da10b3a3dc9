import { mkdirSync, readdirSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { parseArgs } from "node:util";
import type { RecognizedWord, RecognizerSettings } from "../../src/domain/recognition.ts";
import type { LoadedRecognizer } from "../../src/engine/recognizer.ts";
import { openWhisperRecognizer } from "../../src/engine/whisper/whisper-recognizer.ts";
import { FAMILIES } from "../../src/families/families.ts";
import { extractNativeFiles } from "../../src/native/native-files.ts";
import { engineOptions } from "../../src/testing/kits/test-config.ts";
import { median } from "./median.ts";
import { addErrors, describe, type Errors, samplesOf, type Timed } from "./whisper-words/errors.ts";

/**
 * Measures how exact the times of words are that Whisper models give, and what they cost.
 *
 *     bun scripts/bench/whisper-words.ts FOLDER --model WEIGHTS [--languages en,hi] [--precision fast] [--python PYTHON]
 *         [--speech SHARED] [--reference CT2FOLDER] [--rounds 3]
 *         [--heads [[3,1],[4,2]]] [--delay-ms 120]
 *
 * FOLDER gets recordings whose words have known times, if it has none (`whisper-words/make.py`: voices of espeak-ng, and clips of people
 * from `--speech`). A word that was recognized is compared with the one at its place in the text. With `--reference`, the Python
 * package faster-whisper recognizes the same recordings. `--heads` and `--delay-ms` take the place of those of the model's shape.
 * PYTHON needs numpy, and faster-whisper for the latter.
 */

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: {
    model: { type: "string" },
    languages: { type: "string", default: "en,hi" },
    precision: { type: "string", default: "fast" },
    python: { type: "string", default: "python3" },
    speech: { type: "string" },
    reference: { type: "string" },
    rounds: { type: "string", default: "3" },
    heads: { type: "string" },
    "delay-ms": { type: "string" },
  },
});
const [folder] = positionals;
if (folder === undefined || values.model === undefined)
  throw new Error("usage: whisper-words.ts FOLDER --model WEIGHTS");
const SCRIPTS = join(import.meta.dirname, "whisper-words");

async function python(script: string, args: string[]): Promise<string> {
  const child = Bun.spawn([values.python, join(SCRIPTS, script), ...args], { stderr: "inherit" });
  const out = await child.stdout.text();
  if ((await child.exited) !== 0) throw new Error(`${script} failed`);
  return out;
}

const nameOf = (path: string) => basename(path, ".wav");
/** Voices and the line, such as `en-voices-phone`. */
const kindOf = (path: string) =>
  nameOf(path)
    .replace(/-\d+(-\d+)?/, "-voices")
    .replace(/^(..)-speech/, "$1-people");

if (!readdirSync(join(folder, ".."), { withFileTypes: true }).some(({ name }) => name === basename(folder)))
  mkdirSync(folder);
if (!readdirSync(folder).some((name) => name.endsWith(".wav")))
  await python("make.py", values.speech === undefined ? [folder] : [folder, values.speech]);
const languages = values.languages.split(",");
const recordings = readdirSync(folder)
  .filter((name) => name.endsWith(".wav") && languages.includes(name.slice(0, 2)))
  .map((name) => join(folder, name));
const saidIn = (path: string) => JSON.parse(readFileSync(path.replace(/wav$/, "json"), "utf8")) as Timed[];

function report(title: string, heard: ReadonlyMap<string, readonly Timed[]>): void {
  const kinds = Map.groupBy(recordings, kindOf);
  console.log(title);
  for (const [kind, paths] of kinds) {
    const errors: Errors = { starts: [], ends: [], said: 0 };
    for (const path of paths) addErrors(errors, saidIn(path), heard.get(path) ?? []);
    console.log(`  ${kind}: ${describe(errors)}`);
  }
}

const precision = values.precision === "exact" ? "exact" : "fast";
const engine = engineOptions({ precision });
const recognizer = openWhisperRecognizer(await extractNativeFiles(""), {
  ...{ backendDirs: [], avoidedVariants: [], engine },
});
const loaded = await recognizer.load({ weights: values.model }, "cpu");
const family = FAMILIES.of("whisper");

async function recognize(
  of: LoadedRecognizer,
  path: string,
  words: boolean,
): Promise<{ words: RecognizedWord[]; text: string; cpuMs: number }> {
  const language = nameOf(path).slice(0, 2);
  const known = { code: language, name: language, modes: ["native" as const], letters: "prompted" as const };
  const delayMs = values["delay-ms"];
  const whisper = {
    ...(values.heads === undefined ? {} : { alignmentHeads: JSON.parse(values.heads) }),
    ...(delayMs === undefined ? {} : { alignmentDelayMs: Number(delayMs) }),
  };
  const settings: RecognizerSettings = {
    ...family.settingsFor(
      { language, mode: "native" },
      { languages: [known], decoding: { tuning: { whisper } } },
    ),
    words,
  };
  const before = process.cpuUsage();
  const { segments } = await of.recognize(samplesOf(path), settings, {
    threads: 1,
    signal: new AbortController().signal,
  });
  const { user, system } = process.cpuUsage(before);
  const text = segments.map((segment) => segment.text).join("");
  return { words: segments.flatMap((segment) => segment.words ?? []), text, cpuMs: (user + system) / 1000 };
}

const heard = new Map<string, Timed[]>();
for (const path of recordings) {
  const { words } = await recognize(loaded, path, true);
  heard.set(
    path,
    words.map(({ text, startMs, endMs }) => ({ text, start: startMs / 1000, end: endMs / 1000 })),
  );
}
report(`${basename(values.model)}, ${precision}`, heard);

// Both ways in turn, after each has run once.
const ratios: number[] = [];
for (let round = 0; round < Number(values.rounds); round++) {
  for (const path of recordings) {
    const without = await recognize(loaded, path, false);
    const withWords = await recognize(loaded, path, true);
    if (without.text !== withWords.text) console.log(`${nameOf(path)}: the text differs`);
    ratios.push(withWords.cpuMs / without.cpuMs);
  }
}
if (ratios.length > 0)
  console.log(
    `Processor time with words, of that without: ${median(ratios).toFixed(3)} (${ratios.length} pairs)`,
  );

if (values.reference !== undefined) {
  const found = new Map<string, Timed[]>();
  for (const language of languages) {
    const own = recordings.filter((path) => nameOf(path).startsWith(language));
    for (const line of (await python("faster_whisper_words.py", [values.reference, language, ...own]))
      .trim()
      .split("\n")) {
      const { recording, words } = JSON.parse(line) as { recording: string; words: Timed[] };
      found.set(recording, words);
    }
  }
  report(`faster-whisper, ${values.reference}`, found);
}
