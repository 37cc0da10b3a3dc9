import { readdirSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import type { RecognizerSettings } from "../../src/domain/recognition.ts";
import { openWhisperRecognizer } from "../../src/engine/whisper/whisper-recognizer.ts";
import { FAMILIES } from "../../src/families/families.ts";
import { extractNativeFiles } from "../../src/native/native-files.ts";
import { engineOptions } from "../../src/testing/kits/test-config.ts";
import { median } from "./median.ts";
import { samplesOf } from "./whisper-words/errors.ts";

/**
 * Measures what times of words cost where chunks of a Whisper model make their decoding steps together.
 *
 *     bun scripts/bench/word-cost.ts FOLDER --model WEIGHTS [--pairs 6] [--chunks 6] [--groups 2] [--prefix en-] [--rounds 2]
 *
 * FOLDER is one of `whisper-words.ts`. Each run is a process of its own, which recognizes the longest recordings of FOLDER, so many
 * side by side, `--rounds` times each. Runs without and with words come in turn, in the other order each time. What counts
 * is the processor time of the recognition alone, and where `perf` may count, the instructions of the whole process.
 */

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: {
    model: { type: "string" },
    pairs: { type: "string", default: "6" },
    chunks: { type: "string", default: "6" },
    groups: { type: "string", default: "2" },
    rounds: { type: "string", default: "2" },
    prefix: { type: "string", default: "en-" },
    // What a run of its own does.
    run: { type: "string" },
  },
});
const [folder] = positionals;
if (folder === undefined || values.model === undefined)
  throw new Error("usage: word-cost.ts FOLDER --model WEIGHTS");
const { model } = values;
const chunks = Number(values.chunks);

type Run = { cpuMs: number; text: string; words: number };

async function recognizeAll(words: boolean): Promise<Run> {
  const engine = engineOptions();
  const code = { backendDirs: [], avoidedVariants: [], engine };
  const recognizer = openWhisperRecognizer(await extractNativeFiles(""), code);
  const loaded = await recognizer.load({ weights: model }, "cpu");
  const language = values.prefix.slice(0, 2);
  const known = { code: language, name: language, modes: ["native" as const] };
  const request = { language, mode: "native" as const };
  const settings: RecognizerSettings = {
    ...FAMILIES.of("whisper").settingsFor(request, { languages: [known], decoding: {} }),
    ...(words ? { words } : {}),
  };
  const sounds = readdirSync(folder as string)
    .filter((name) => name.startsWith(values.prefix) && name.endsWith(".wav"))
    .map((name) => samplesOf(join(folder as string, name)))
    .toSorted((a, b) => b.length - a.length)
    .slice(0, chunks);
  const options = { threads: 1, threadGroups: Number(values.groups), groupThreads: Number(values.groups) };
  const hear = (sound: Float32Array) =>
    loaded.recognize(sound, settings, { ...options, signal: new AbortController().signal });
  // States are made once.
  await Promise.all(sounds.map(hear));
  const before = process.cpuUsage();
  const found = [];
  for (let round = 0; round < Number(values.rounds); round++)
    found.push(...(await Promise.all(sounds.map(hear))));
  const { user, system } = process.cpuUsage(before);
  const segments = found.flatMap((each) => each.segments);
  return {
    cpuMs: (user + system) / 1000,
    text: segments.map(({ text }) => text).join(""),
    words: segments.reduce((sum, segment) => sum + (segment.words?.length ?? 0), 0),
  };
}

/** Returns what a run has cost, and its instructions; undefined where `perf` cannot count them. */
async function runOnce(words: boolean): Promise<Run & { instructions: number | undefined }> {
  const command = [
    process.execPath,
    import.meta.filename,
    ...Bun.argv.slice(2),
    "--run",
    words ? "words" : "text",
  ];
  const perf = Bun.which("perf");
  const counted = perf ? [perf, "stat", "-x,", "-e", "instructions:u", "--", ...command] : command;
  const child = Bun.spawn(counted, { stderr: "pipe" });
  const [out, errors] = await Promise.all([child.stdout.text(), child.stderr.text()]);
  if ((await child.exited) !== 0) throw new Error(errors);
  const count = Number(errors.match(/^(\d+),.*instructions/m)?.[1] ?? Number.NaN);
  return { ...(JSON.parse(out) as Run), instructions: Number.isNaN(count) ? undefined : count };
}

if (values.run !== undefined) {
  console.log(JSON.stringify(await recognizeAll(values.run === "words")));
  process.exit(0);
}
const times: number[] = [];
const counts: number[] = [];
for (let pair = 0; pair < Number(values.pairs); pair++) {
  const order = pair % 2 === 0 ? [false, true] : [true, false];
  const runs = new Map<boolean, Awaited<ReturnType<typeof runOnce>>>();
  for (const words of order) runs.set(words, await runOnce(words));
  const [without, withWords] = [runs.get(false), runs.get(true)];
  if (!without || !withWords) continue;
  if (without.text !== withWords.text) console.log("the text differs");
  times.push(withWords.cpuMs / without.cpuMs);
  if (without.instructions !== undefined && withWords.instructions !== undefined)
    counts.push(withWords.instructions / without.instructions);
  console.log(
    `${(without.cpuMs / 1000).toFixed(2)} s without, ${(withWords.cpuMs / 1000).toFixed(2)} s with ${withWords.words} words: ${times.at(-1)?.toFixed(3)}; instructions ${counts.at(-1)?.toFixed(4) ?? "not counted"}`,
  );
}
console.log(
  `with words, of that without: processor time ${median(times).toFixed(3)}${counts.length > 0 ? `, instructions ${median(counts).toFixed(4)}` : ""} (${times.length} pairs of ${chunks} chunks, ${values.rounds} times each)`,
);
