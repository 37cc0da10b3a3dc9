/**
 * One table of models of all sizes: Shruti beside other programs, with generated weights, on the processor it runs on.
 *
 *   bun scripts/bench/large.ts [--models base-q5_1,medium-q5_0,turbo-q8_0,600m-q8_0] [--cores all,one] [--speech dense,half]
 *                              [--recordings 1,8] [--seconds 120] [--each 30] [--rounds 1] [--words 96] [--minutes 10]
 *                              [--programs shruti,whisper-cli,faster-whisper,parakeet-cli,sherpa-onnx,onnx-asr]
 *                              [--python FILE] [--batch 1] [--folder FOLDER] [--only-make] [--executable dist/shruti]
 *
 * A model is a shape and a type of weights. Whisper's shapes (base, small, medium, turbo, large) have whisper.cpp's types, and write
 * the same words for each window of 30 s (`--words`); whisper-cli has the same weights, and faster-whisper those of the f16 model
 * rounded to 8 bits, where `--python` names a Python that has it. FastConformers with a TDT head (120m, 430m, 600m) have f16, q8_0,
 * q5_0 or q5_1; parakeet-cli has the same weights, sherpa-onnx and onnx-asr the same in ONNX: in 32 bits beside f16, else rounded to
 * 8 bits. FastConformers with a CTC head (ctc120m, ctc600m) are ONNX files that Shruti, sherpa-onnx and onnx-asr read: f32 or int8.
 * `--python` names a Python with these programs, onnx and onnxruntime. FastConformers write what random weights say; with a TDT head
 * each program writes something else, but as many words.
 *
 * `--seconds` is the length of one recording, `--each` that of each of several. Shruti has several at once; the others have
 * them one after the other, as their programs do; `--batch` lets sherpa-onnx and onnx-asr compute several pieces together. `half` is the same speech with silence in half of it. On one core every
 * program is bound to the first one (`taskset`).
 *
 * Time is by the clock, without the loading of the model; × real time is the length of the recordings of it. The share of the peak
 * is that of the best products that the processor has for the weights (peak.cpp): of bytes for rounded ones, of floats or bf16
 * for f16; for dense speech in one recording. Memory is the most that the processes had, mapped files included. Shruti / it is
 * the time of Shruti, of that of the program in the row.
 *
 * `--folder` keeps generated models for the next run (turbo 1.6 GB and as much again rounded); `--only-make` makes them and ends.
 * After `--minutes` no further row begins. Recordings that are too short to fill windows are no measure of a large model.
 */
import { cpus, loadavg } from "node:os";
import { join, resolve } from "node:path";
import { halfSilent, repeated } from "./engine/audio.ts";
import { type Bench, runBench } from "./engine/bench.ts";
import { measurePeak, type Peak } from "./engine/peak.ts";
import { windowOperations } from "./engine/shapes.ts";
import { prepareShruti } from "./engine/shruti.ts";
import { encoderOperations, NEMO_SHAPES, tdtShape } from "./engine/tdt-model.ts";
import { type MadeModel, makeModel } from "./large/models.ts";
import { type LargeModel, readOptions, type Speech } from "./large/options.ts";
import {
  type Cores,
  hasModule,
  openFasterWhisper,
  openOnnxPeer,
  openParakeetCli,
  openShruti,
  openWhisperCli,
  type Program,
  type Spent,
} from "./large/programs.ts";
import { median } from "./median.ts";

const PORT = 18_435;
const WINDOW_SECONDS = 30;
const SECONDS_OF_AN_HOUR = 3_600;
/** The recording with which Shruti loads a model. */
const WARM_UP_SECONDS = 5;

const options = readOptions();
const startedMs = performance.now();
const isLate = () =>
  options.minutes !== undefined && performance.now() - startedMs > options.minutes * 60_000;
const load = () =>
  loadavg()
    .map((value) => value.toFixed(1))
    .join(" ");

const isAsked = ({ name }: Program) => options.programs.some((one) => one === name.toLowerCase());

/** What a program is measured on. */
type Case = { speech: Speech; count: number; wavs: string[]; seconds: number };
/** A model with its cores, as the table names them. */
type Place = { model: LargeModel; cores: Cores; peak: Peak };

/** Programs that do not know the type of the weights are measured once for each shape. */
const measuredOnce = new Map<string, Spent>();

function casesOf({ speech, write, several }: Bench): Case[] {
  return options.speech.flatMap((kind) =>
    options.recordings.map((count) => {
      const each = count === 1 ? options.seconds : options.each;
      const dense = several(`${kind}-${count}`, count, each);
      const make = (_: string, n: number) => write(`half-${count}-${n}.wav`, halfSilent(speech, each));
      return { speech: kind, count, wavs: kind === "dense" ? dense : dense.map(make), seconds: count * each };
    }),
  );
}

/** Returns the share of the peak of all cores in use that dense speech in one recording reached, or undefined. */
function shareOfPeak({ model, peak }: Place, { speech, count, seconds }: Case, spent: Spent) {
  if (speech !== "dense" || count !== 1) return undefined;
  const windows = Math.ceil(seconds / WINDOW_SECONDS);
  const operations =
    model.kind === "whisper"
      ? windows * windowOperations(model.shape, options.words)
      : seconds * encoderOperations(tdtShape(NEMO_SHAPES[model.shape]));
  const { floats, bf16 = 0, tiles = 0, shorts = 0, bytes = 0, byte_tiles = 0 } = peak;
  const isFloat = model.type === "f16" || model.type === "f32";
  const best = isFloat ? [floats, bf16, tiles] : [floats, shorts, bytes, byte_tiles];
  return operations / spent.processorSeconds / 1e9 / Math.max(...best);
}

function printRow(place: Place, of: Case, name: string, spent: Spent, ours: Spent | undefined): void {
  const share = shareOfPeak(place, of, spent);
  const cells = [
    ...[place.model.name, place.cores, of.speech, of.count, name],
    `${(of.seconds / spent.seconds).toFixed(1)}`,
    Math.round((spent.processorSeconds / of.seconds) * SECONDS_OF_AN_HOUR),
    share === undefined ? "" : `${Math.round(share * 100)} %`,
    `${Math.round(spent.memoryMb)} MB`,
    spent.words,
    ours === undefined || ours === spent ? "" : (ours.seconds / spent.seconds).toFixed(2),
    `${spent.seconds.toFixed(1)} s, load ${load()}`,
  ];
  console.log(`| ${cells.join(" | ")} |`);
}

/** Measures each program in turn, round by round, and prints the row of each after its last round. */
async function measureCase(place: Place, of: Case, programs: readonly Program[]): Promise<void> {
  const runs = new Map<string, Spent[]>(programs.map(({ name }) => [name, []]));
  let ours: Spent | undefined;
  for (let round = 1; round <= options.rounds; round++) {
    for (const program of programs) {
      const all = runs.get(program.name) ?? [];
      try {
        all.push(await measureOnce(place, of, program));
      } catch (error) {
        console.log(`| ${place.model.name} | ${place.cores} | ${program.name} failed: ${error} |`);
      }
      if (round < options.rounds || all.length === 0) continue;
      const spent = medianOf(all);
      if (program.name === "Shruti") ours = spent;
      printRow(place, of, program.name, spent, ours);
    }
  }
}

function medianOf(runs: readonly Spent[]): Spent {
  const middle = (of: (run: Spent) => number) => median(runs.map(of));
  return {
    seconds: middle((run) => run.seconds),
    processorSeconds: middle((run) => run.processorSeconds),
    memoryMb: middle((run) => run.memoryMb),
    words: middle((run) => run.words),
  };
}

async function measureOnce({ model, cores }: Place, of: Case, program: Program): Promise<Spent> {
  if (!program.isOnceForAShape) return program.transcribe(of.wavs);
  const key = [program.name, model.shape, cores, of.speech, of.count].join(" ");
  const found = measuredOnce.get(key) ?? (await program.transcribe(of.wavs));
  measuredOnce.set(key, found);
  return found;
}

/** Opens the programs beside Shruti that have a model. */
function openPeers(bench: Bench, model: LargeModel, made: MadeModel, cores: Cores): Program[] {
  const { peersFolder } = bench;
  const { python, batch } = options;
  const programs: Program[] = [];
  if (made.peer !== undefined)
    programs.push(
      model.kind === "whisper"
        ? openWhisperCli(peersFolder, made.peer, cores)
        : openParakeetCli(peersFolder, made.peer, cores, bench),
    );
  if (python === undefined) return programs;
  if (made.ctranslate2 !== undefined) programs.push(openFasterWhisper(python, made.ctranslate2, cores));
  if (made.onnx !== undefined && model.kind !== "whisper") {
    const onnx = { folder: made.onnx, head: model.kind, batch };
    if (hasModule(python, "sherpa_onnx")) programs.push(openOnnxPeer("sherpa-onnx", python, onnx, cores));
    if (hasModule(python, "onnx_asr")) programs.push(openOnnxPeer("onnx-asr", python, onnx, cores));
  }
  return programs;
}

async function measureModel(bench: Bench, model: LargeModel, cases: readonly Case[], peak: Peak) {
  const made = makeModel(model, modelPlace(bench));
  const folder = bench.subfolder(model.name);
  const executable = resolve(options.executable);
  const own = { id: model.name.replace("_", "-"), path: made.own, isWhisper: model.kind === "whisper" };
  const prepared = prepareShruti({ executable, folder, port: PORT, synchronousWorkers: 1 }, [own]);
  const warmUp = bench.write("warm-up.wav", repeated(bench.speech, WARM_UP_SECONDS));
  for (const cores of options.cores) {
    const given = { executable, folder, prepared, model: own.id, warmUp, port: PORT };
    const shruti = await openShruti(given, cores);
    try {
      const programs = [shruti, ...openPeers(bench, model, made, cores)].filter(isAsked);
      for (const each of cases) if (!isLate()) await measureCase({ model, cores, peak }, each, programs);
    } finally {
      await shruti.stop();
    }
  }
}

function modelPlace({ folder, peersFolder }: Bench) {
  const kept = options.folder === undefined ? join(folder, "models") : resolve(options.folder);
  return { folder: kept, peersFolder, words: options.words, python: options.python };
}

await runBench("large", { names: "", words: options.words }, async (bench) => {
  if (options.onlyMakes) {
    for (const model of options.models)
      console.log(Object.values(makeModel(model, modelPlace(bench))).join(" "));
    return;
  }
  const peak = measurePeak(bench.folder);
  const cases = casesOf(bench);
  const { seconds, each, rounds, words } = options;
  console.log(
    `${cpus().length} × ${cpus()[0]?.model ?? "?"}, load ${load()}; ${JSON.stringify(peak)} GF/s a core`,
  );
  console.log(
    `one recording of ${seconds} s, several of ${each} s; ${rounds} rounds; ${words} words a window\n`,
  );
  const head = ["Model", "Cores", "Speech", "Recordings", "Program", "× real time", "Core seconds an hour"];
  const rest = ["Of the peak", "Memory", "Words", "Shruti / it", "Time"];
  console.log(`| ${[...head, ...rest].join(" | ")} |\n|${"---|".repeat(head.length + rest.length)}`);
  const left: string[] = [];
  for (const model of options.models) {
    if (isLate()) left.push(model.name);
    else await measureModel(bench, model, cases, peak);
  }
  if (left.length > 0) console.log(`\nleft out, for want of time: ${left.join(", ")}`);
});
