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

/**
 * Measures how exact the times of words are that Whisper models give, and what they cost.
 *
 *     bun scripts/bench/whisper-words.ts FOLDER --model WEIGHTS [--languages en,hi] [--precision fast] [--python PYTHON]
 *         [--speech SHARED] [--reference CT2FOLDER] [--rounds 3]
 *
 * FOLDER gets recordings whose words have known times, if it has none (`whisper-words/make.py`: voices of espeak-ng, and clips of people
 * from `--speech`). A word that was recognized is compared with the one at its place in the text. With `--reference`, the Python
 * package faster-whisper recognizes the same recordings. PYTHON needs numpy, and faster-whisper for the latter.
 */

type Timed = { text: string; start?: number; end?: number };
type Errors = { starts: number[]; ends: number[]; said: number };

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
  },
});
const [folder] = positionals;
if (folder === undefined || values.model === undefined)
  throw new Error("usage: whisper-words.ts FOLDER --model WEIGHTS");
const SCRIPTS = join(import.meta.dirname, "whisper-words");
const LIMIT_MS = 200;

/** A recording of 16-bit mono PCM behind a head of 44 bytes. */
function samplesOf(path: string): Float32Array {
  const bytes = readFileSync(path);
  return Float32Array.from(
    { length: (bytes.length - 44) / 2 },
    (_, i) => bytes.readInt16LE(44 + 2 * i) / 32768,
  );
}

async function python(script: string, args: string[]): Promise<string> {
  const child = Bun.spawn([values.python, join(SCRIPTS, script), ...args], { stderr: "inherit" });
  const out = await child.stdout.text();
  if ((await child.exited) !== 0) throw new Error(`${script} failed`);
  return out;
}

const plain = (text: string) => text.toLowerCase().replaceAll(/[^\p{L}\p{M}\p{N}]/gu, "");

/** Returns pairs of words that are the same in both texts, by the fewest edits. */
function pairsOf(said: readonly Timed[], heard: readonly Timed[]): [Timed, Timed][] {
  const width = heard.length + 1;
  const cost = new Int32Array((said.length + 1) * width);
  const at = (i: number, j: number) => cost[i * width + j] ?? 0;
  const isSame = (i: number, j: number) => plain(said[i - 1]?.text ?? "") === plain(heard[j - 1]?.text ?? "");
  for (let i = 0; i <= said.length; i++)
    for (let j = 0; j < width; j++) {
      if (i === 0 || j === 0) cost[i * width + j] = i + j;
      else
        cost[i * width + j] = Math.min(
          at(i - 1, j) + 1,
          at(i, j - 1) + 1,
          at(i - 1, j - 1) + (isSame(i, j) ? 0 : 2),
        );
    }
  const pairs: [Timed, Timed][] = [];
  for (let i = said.length, j = heard.length; i > 0 && j > 0; ) {
    if (isSame(i, j) && at(i, j) === at(i - 1, j - 1)) {
      pairs.push([said[i - 1] as Timed, heard[j - 1] as Timed]);
      i--;
      j--;
    } else if (at(i, j) === at(i - 1, j) + 1) i--;
    else j--;
  }
  return pairs;
}

function addErrors(errors: Errors, said: readonly Timed[], heard: readonly Timed[]): void {
  errors.said += said.length;
  for (const [one, other] of pairsOf(said, heard)) {
    if (one.start !== undefined && other.start !== undefined)
      errors.starts.push((other.start - one.start) * 1000);
    if (one.end !== undefined && other.end !== undefined) errors.ends.push((other.end - one.end) * 1000);
  }
}

function describe({ starts, ends, said }: Errors): string {
  const sizes = (of: number[]) => of.map(Math.abs).toSorted((a, b) => a - b);
  const part = (of: number[], share: number) => (sizes(of)[Math.floor(share * of.length)] ?? 0).toFixed(0);
  const within = (of: number[]) =>
    ((100 * of.filter((error) => Math.abs(error) <= LIMIT_MS).length) / of.length).toFixed(1);
  const side = (of: number[]) =>
    `${part(of, 0.5)} ms, 95 % ${part(of, 0.95)} ms, ${within(of)} % within ${LIMIT_MS} ms, on the whole ${median(of).toFixed(0)} ms`;
  return `${starts.length} of ${said} words: starts ${side(starts)}; ends ${side(ends)}`;
}

const nameOf = (path: string) => basename(path, ".wav");
/** Voices and the line, such as `en-voices-phone`. */
const kindOf = (path: string) =>
  nameOf(path)
    .replace(/-\d/, "-voices")
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
  const whisper = values.heads === undefined ? {} : { alignmentHeads: JSON.parse(values.heads) };
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
