import { readFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { basename, join } from "node:path";
import { RATE } from "../engine/audio.ts";
import type { Bench } from "../engine/bench.ts";
import { runWhisperCli } from "../engine/peers.ts";
import type { PreparedShruti } from "../engine/shruti.ts";
import { onProcessor, type Shruti, serveShruti, wordsIn } from "../engine/shruti.ts";

const MILLISECONDS = 1000;
/** The processor of measurements on one. */
const ONE = 0;

/** What recordings took: seconds by the clock and of processors, without the loading of the model, and the most memory. */
export type Spent = { seconds: number; processorSeconds: number; memoryMb: number; words: number };

/** A program with a loaded model. */
export type Program = {
  name: string;
  /** It has the same weights whatever type the model's name says. */
  isOnceForAShape?: boolean;
  /** Transcribes all recordings as fast as it can: Shruti at once, the others one after the other. */
  transcribe(wavs: readonly string[]): Promise<Spent>;
  stop(): Promise<void>;
};

/** How many cores a program may use. */
export type Cores = "one" | "all";
export const coresIn = (cores: Cores): number => (cores === "one" ? 1 : availableParallelism());
const processorOf = (cores: Cores): { processor?: number } => (cores === "one" ? { processor: ONE } : {});

/** The executable, a prepared folder with one model, and a short recording with which that is loaded. */
export type ShrutiPlace = {
  executable: string;
  folder: string;
  prepared: PreparedShruti;
  model: string;
  warmUp: string;
  port: number;
};

/** Starts Shruti, and loads its model. Uploads are not measured: the others read files of the disk. */
export async function openShruti(place: ShrutiPlace, cores: Cores): Promise<Program> {
  const { executable, folder, prepared, model, warmUp, port } = place;
  const options = { executable, folder, port, synchronousWorkers: 1, ...processorOf(cores) };
  const shruti = await serveShruti(options, prepared);
  try {
    await shruti.transcribe(await shruti.upload(warmUp), model);
  } catch (error) {
    await shruti.stop();
    throw error;
  }
  const uploads = new Map<string, string>();
  return {
    name: "Shruti",
    async transcribe(wavs) {
      for (const wav of wavs) if (!uploads.has(wav)) uploads.set(wav, await shruti.upload(wav));
      shruti.forgetMemory();
      const before = allSeconds(shruti);
      const runs = await Promise.all(wavs.map((wav) => shruti.transcribe(uploads.get(wav) ?? "", model)));
      return {
        seconds: Math.max(...runs.map(({ wallMs }) => wallMs)) / MILLISECONDS,
        processorSeconds: allSeconds(shruti) - before,
        memoryMb: shruti.mostMemory(),
        words: runs.reduce((sum, { words }) => sum + words, 0),
      };
    },
    stop: () => shruti.stop(),
  };
}

function allSeconds(shruti: Shruti): number {
  const { server, workers } = shruti.cpuSeconds();
  return [...workers.values()].reduce((sum, seconds) => sum + seconds, server);
}

/** whisper-cli of the same source, with the settings of engine/peers.ts. Its time of loading is subtracted. */
export function openWhisperCli(peersFolder: string, model: string, cores: Cores): Program {
  const options = { folder: peersFolder, model, threads: coresIn(cores), ...processorOf(cores) };
  return {
    name: "whisper-cli",
    async transcribe(wavs) {
      const runs: Spent[] = [];
      for (const wav of wavs) {
        const { wallMs, loadMs, cpuMs, ...rest } = await runWhisperCli(options, wav);
        const seconds = (wallMs - loadMs) / MILLISECONDS;
        runs.push({ ...rest, seconds, processorSeconds: (cpuMs - loadMs) / MILLISECONDS });
      }
      return inTurn(runs);
    },
    stop: async () => {},
  };
}

/** faster-whisper in a Python that has it: weights of 8 bits, batched, greedy. */
export function openFasterWhisper(python: string, model: string, cores: Cores): Program {
  const settings = { model, language: "en", threads: coresIn(cores), compute_type: "int8" };
  const asked = JSON.stringify({ ...settings, batched: true, beam: 1 });
  const command = [python, join(import.meta.dirname, "../speech/peer.py"), asked];
  return { ...linesOf("faster-whisper", command, cores), isOnceForAShape: true };
}

/** Programs that compute a sound at once are given pieces as long as a chunk. */
const PIECE_SECONDS = 20;

/** A folder with a CTC or TDT model in ONNX, and how many pieces are computed together. */
export type OnnxModel = { folder: string; head: "ctc" | "tdt"; batch: number };

/** sherpa-onnx or onnx-asr in a Python that has it, greedy, on onnxruntime with as many threads as there are cores. */
export function openOnnxPeer(
  program: "sherpa-onnx" | "onnx-asr",
  python: string,
  { folder, head, batch }: OnnxModel,
  cores: Cores,
): Program {
  const settings = { program, head, model: folder, threads: coresIn(cores), piece: PIECE_SECONDS, batch };
  const command = [python, join(import.meta.dirname, "onnx_peer.py"), JSON.stringify(settings)];
  return linesOf(program, command, cores);
}

/** Reports whether a Python has a module. */
export const hasModule = (python: string, module: string): boolean =>
  Bun.spawnSync([python, "-c", `import ${module}`], { stdout: "ignore", stderr: "ignore" }).success;

/**
 * whisper.cpp's program for TDT models. What it takes for a second of sound is subtracted: that is the loading of the model.
 *
 * @param bench to write the pieces of the recordings
 */
export function openParakeetCli(
  peersFolder: string,
  model: string,
  cores: Cores,
  bench: Pick<Bench, "write">,
): Program {
  const settings = ["-ng", "-np", "-t", String(coresIn(cores)), "-m", model];
  const command = [
    ...onProcessor(processorOf(cores).processor),
    join(peersFolder, "parakeet-cli"),
    ...settings,
  ];
  const run = async (wavs: readonly string[]): Promise<Spent> => {
    const startedMs = performance.now();
    const child = Bun.spawn([...command, ...wavs.flatMap((wav) => ["-f", wav])], {
      ...{ stdin: "ignore", stdout: "pipe", stderr: "pipe" },
    });
    const [output, errors] = await Promise.all([child.stdout.text(), child.stderr.text()]);
    if ((await child.exited) !== 0) throw new Error(`parakeet-cli: ${errors.slice(-1000)}`);
    const used = child.resourceUsage();
    return {
      seconds: (performance.now() - startedMs) / MILLISECONDS,
      processorSeconds: Number(used?.cpuTime.total ?? 0n) / 1e6,
      memoryMb: (used?.maxRSS ?? 0) / 2 ** 20,
      words: wordsIn(output),
    };
  };
  return {
    name: "parakeet-cli",
    async transcribe(wavs) {
      const pieces = wavs.flatMap((wav) => piecesOf(wav, bench));
      const short = bench.write("second.wav", samplesOf(pieces[0] ?? "").subarray(0, RATE));
      const least = await run([short]);
      const all = await run(pieces);
      return {
        ...all,
        seconds: all.seconds - least.seconds,
        processorSeconds: all.processorSeconds - least.processorSeconds,
      };
    },
    stop: async () => {},
  };
}

const WAV_HEAD_BYTES = 44;
const samplesOf = (wav: string): Int16Array =>
  new Int16Array(new Uint8Array(readFileSync(wav)).buffer.slice(WAV_HEAD_BYTES));

function piecesOf(wav: string, { write }: Pick<Bench, "write">): string[] {
  const samples = samplesOf(wav);
  const length = PIECE_SECONDS * RATE;
  return Array.from({ length: Math.ceil(samples.length / length) }, (_, n) =>
    write(`${basename(wav)}-piece-${n}.wav`, samples.subarray(n * length, (n + 1) * length)),
  );
}

/** A program that takes files as arguments, and prints a line of JSON for each or for all. */
export function linesOf(name: string, command: readonly string[], cores: Cores): Program {
  return {
    name,
    async transcribe(wavs) {
      const { processor } = processorOf(cores);
      const child = Bun.spawn([...onProcessor(processor), ...command, ...wavs], {
        ...{ stdin: "ignore", stdout: "pipe", stderr: "pipe" },
      });
      const [output, errors] = await Promise.all([child.stdout.text(), child.stderr.text()]);
      if ((await child.exited) !== 0) throw new Error(`${name}: ${errors.slice(-1000)}`);
      type Line = { segments: { text: string }[]; seconds: number; processor: number; memory: number };
      const lines = output
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line) as Line);
      return inTurn(
        lines.map(({ segments, seconds, processor: processorSeconds, memory }) => ({
          ...{ seconds, processorSeconds, memoryMb: memory },
          words: wordsIn(segments.map(({ text }) => text).join(" ")),
        })),
      );
    },
    stop: async () => {},
  };
}

/** Joins recordings that were transcribed one after the other. */
function inTurn(runs: readonly Spent[]): Spent {
  const sum = (of: (run: Spent) => number) => runs.reduce((total, run) => total + of(run), 0);
  return {
    seconds: sum(({ seconds }) => seconds),
    processorSeconds: sum(({ processorSeconds }) => processorSeconds),
    memoryMb: Math.max(...runs.map(({ memoryMb }) => memoryMb)),
    words: sum(({ words }) => words),
  };
}
