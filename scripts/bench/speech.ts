/**
 * Recognition of recordings with references by Shruti, and by other programs with the same weights: word errors, lost and
 * invented words, time and processor time.
 *
 *   bun scripts/bench/speech.ts [--executable dist/shruti] [--language en] [--rounds 1] [--weights FILE]
 *     [--whisper-cli FILE] [--python FILE --ctranslate2 FOLDER] RECORDING…
 *
 * Beside each recording (a file of any form that the decoder reads, or a folder with several) is `<name>.json`, a list of
 * utterances with `start` and `end` in seconds and `ref`, or `<name>.txt`, its words. Without `--weights` (a ggml file), Shruti
 * uses the model that it carries. `--whisper-cli` names whisper.cpp's program (`bun src/native/build/whisper.ts --peers`
 * builds it). `--python` names a Python with faster-whisper, and `--ctranslate2` its form of the weights.
 *
 * Each round runs all programs in turn on all recordings; times are sums over recordings, of the median round. Those of Shruti
 * and whisper-cli are of whole processes, and include the loading of the model; those of faster-whisper do not. The ratios
 * are to the first batched faster-whisper, else to Shruti. Beside other work, only processor times tell something, because
 * Shruti's processes are less urgent than others: "other work" is the share of all processor time that other programs took
 * meanwhile, in the worst round. whisper-cli's threads wait for each other in loops, so that beside other work its processor
 * time says little, too. Words without speech are found by the times of segments. Those of batched
 * faster-whisper are whole chunks, which may reach over a minute of silence, so its number there says little. Needs a build.
 */
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { availableParallelism, cpus, loadavg, tmpdir } from "node:os";
import { basename, dirname, extname, join } from "node:path";
import { parseArgs } from "node:util";
import { decodeAudio } from "../../src/engine/audio/decode.ts";
import { extractNativeFiles } from "../../src/native/native-files.ts";
import { writeWav } from "./engine/audio.ts";
import { median } from "./median.ts";
import { fasterWhisper, type Program, type Run, shruti, whisperCli } from "./speech/programs.ts";
import { type SpeechScore, scoreSpeech, type Utterance } from "./speech/score.ts";

const ROOT = join(import.meta.dirname, "../..");
const LONGEST_MS = 24 * 3_600_000;

type Recording = { path: string; said: Utterance[] };
type Measured = { runs: Run[][]; scores: SpeechScore[]; otherWork: number[] };

const { values: options, positionals } = parseArgs({
  options: {
    executable: { type: "string", default: join(ROOT, "dist/shruti") },
    language: { type: "string", default: "en" },
    rounds: { type: "string", default: "1" },
    weights: { type: "string" },
    "whisper-cli": { type: "string" },
    python: { type: "string" },
    ctranslate2: { type: "string" },
  },
  allowPositionals: true,
});
const recordings = positionals.flatMap(recordingsAt);
if (recordings.length === 0) throw new Error("usage: bun scripts/bench/speech.ts [options] RECORDING…");
const directory = mkdtempSync(join(tmpdir(), "shruti-bench-"));
try {
  const programs = programsOf(directory);
  const wavs = await decoded(recordings);
  const measured = new Map<Program, Measured>(
    programs.map((one) => [one, { runs: [], scores: [], otherWork: [] }]),
  );
  for (let round = 0; round < Number(options.rounds); round++) {
    for (const [program, found] of measured) {
      const seconds = performance.now() / 1000;
      const before = processorTimes();
      const runs = await program.transcribe(wavs);
      const after = processorTimes();
      const others = after.all - before.all - (after.own - before.own);
      found.otherWork.push(others / (performance.now() / 1000 - seconds) / availableParallelism());
      found.runs.push(runs);
      if (round === 0) found.scores = runs.map(({ heard }, n) => scoreOf(heard, recordings[n]));
    }
  }
  print(measured);
} finally {
  rmSync(directory, { recursive: true, force: true });
}

function programsOf(folder: string): Program[] {
  const { executable, language, weights, python, ctranslate2 } = options;
  const given = { language, threads: availableParallelism() };
  const home = join(folder, "home");
  mkdirSync(home);
  const programs = [shruti(executable, home, given, weights)];
  const cli = options["whisper-cli"];
  if (cli !== undefined) {
    if (weights === undefined) throw new Error("whisper-cli needs --weights");
    for (const beam of [1, 5]) programs.push(whisperCli(cli, weights, given, { beam }));
  }
  if (python !== undefined) {
    if (ctranslate2 === undefined) throw new Error("faster-whisper needs --ctranslate2");
    for (const how of [
      { batched: true, beam: 1 },
      { batched: true, beam: 5 },
      { batched: false, beam: 5 },
    ])
      programs.push(fasterWhisper(python, ctranslate2, given, how));
  }
  return programs;
}

/** Finds recordings with references. The others are named and left out. */
function recordingsAt(path: string): Recording[] {
  if (statSync(path).isDirectory()) {
    const inside = readdirSync(path)
      .sort()
      .map((name) => join(path, name));
    return inside.filter((file) => ![".json", ".txt"].includes(extname(file))).flatMap(recordingsAt);
  }
  const stem = join(dirname(path), basename(path, extname(path)));
  if (existsSync(`${stem}.json`)) {
    const stretches = JSON.parse(readFileSync(`${stem}.json`, "utf8")) as {
      start: number;
      end: number;
      ref?: string;
    }[];
    const said = stretches.flatMap(({ ref, start, end }) => (ref ? [{ start, end, text: ref }] : []));
    return [{ path, said }];
  }
  if (existsSync(`${stem}.txt`)) {
    const text = readFileSync(`${stem}.txt`, "utf8");
    return [{ path, said: [{ start: 0, end: LONGEST_MS / 1000, text }] }];
  }
  console.error(`${path} has no reference, and is left out`);
  return [];
}

/** Writes each recording as WAV of 16 kHz, the same for all programs. */
async function decoded(of: readonly Recording[]): Promise<string[]> {
  const native = await extractNativeFiles(directory);
  const wavs: string[] = [];
  for (const [n, { path }] of of.entries()) {
    const output = join(directory, `${n}.pcm`);
    await decodeAudio(native, path, { output, maxDurationMs: LONGEST_MS, timeoutMs: LONGEST_MS });
    const wav = join(directory, `${n}.wav`);
    writeWav(wav, new Int16Array(await Bun.file(output).arrayBuffer()));
    wavs.push(wav);
  }
  return wavs;
}

/** Returns the processor time of the machine since its start, and of this process and its ended children, seconds. */
function processorTimes(): { all: number; own: number } {
  const TICKS = 100;
  const numbers = (text: string) => text.trim().split(/\s+/).map(Number);
  const [, line = ""] = /^cpu (.*)$/m.exec(readFileSync("/proc/stat", "utf8")) ?? [];
  const [user = 0, nice = 0, system = 0, , , hardware = 0, soft = 0] = numbers(line);
  // The name of the program, in brackets, may have spaces.
  const own = readFileSync("/proc/self/stat", "utf8").replace(/^.*\) /, "");
  const used = numbers(own).slice(11, 15);
  return {
    all: (user + nice + system + hardware + soft) / TICKS,
    own: used.reduce((sum, one) => sum + one, 0) / TICKS,
  };
}

function scoreOf(heard: Run["heard"], recording: Recording | undefined): SpeechScore {
  return scoreSpeech(recording?.said ?? [], heard, options.language);
}

function print(measured: ReadonlyMap<Program, Measured>): void {
  const load = loadavg().map((value) => value.toFixed(1));
  console.log(`${availableParallelism()} × ${cpus()[0]?.model ?? "?"}, load ${load.join(" ")}`);
  console.log(
    "| program | words | errors | of them lost | invented | lost utterances | words without speech | time | processor time | ratio of times | other work |",
  );
  console.log("|---|---|---|---|---|---|---|---|---|---|---|");
  const all = [...measured];
  const [, base] = all.find(([{ name }]) => name.includes("batched")) ?? all[0] ?? [];
  const secondsOf = ({ runs }: Measured, of: (run: Run) => number) =>
    median(runs.map((round) => round.reduce((sum, one) => sum + of(one), 0)));
  for (const [{ name }, found] of all) {
    const sum = (of: (score: SpeechScore) => number) =>
      found.scores.reduce((total, score) => total + of(score), 0);
    const words = sum((score) => score.words);
    const errors = sum(({ replaced, lost, invented }) => replaced + lost + invented);
    const seconds = secondsOf(found, (one) => one.seconds);
    const processor = secondsOf(found, (one) => one.processorSeconds);
    const ratio = (own: number, of: (run: Run) => number) =>
      (own / (base ? secondsOf(base, of) : Number.NaN)).toFixed(2);
    const cells = [
      ...[name, words, `${errors} (${((errors / words) * 100).toFixed(2)} %)`],
      ...[sum(({ lost }) => lost), sum(({ invented }) => invented)],
      ...[sum(({ lostUtterances }) => lostUtterances), sum(({ inSilence }) => inSilence)],
      ...[`${seconds.toFixed(1)} s`, `${processor.toFixed(1)} s`],
      `${ratio(seconds, (one) => one.seconds)}, processor ${ratio(processor, (one) => one.processorSeconds)}`,
      `${Math.round(100 * Math.max(...found.otherWork))} %`,
    ];
    console.log(`| ${cells.join(" | ")} |`);
  }
}
