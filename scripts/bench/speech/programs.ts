import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Heard } from "./score.ts";

/** What a program wrote, and what that took: seconds by the clock, and of processors in all its processes. */
export type Run = { heard: Heard[]; seconds: number; processorSeconds: number };

/** Transcribes WAV files of 16 kHz, each by itself, and returns a run for each. */
export type Program = { name: string; transcribe(wavs: readonly string[]): Promise<Run[]> };

const PEER = join(import.meta.dirname, "peer.py");
const MILLISECONDS = 1000;

type Given = { language: string; threads: number };

/** Shruti as its executable, with the weights of a file, or with the model that it carries. */
export function shruti(
  executable: string,
  folder: string,
  { language }: Given,
  weights: string | undefined,
): Program {
  const config = join(folder, "shruti.toml");
  const call = async (...args: string[]) => run([executable, ...args, "--config", config]);
  const prepared = (async () => {
    await call("init", "--data", join(folder, "data"));
    if (weights === undefined) return "whisper-base";
    const named = ["--licence", "none", "--source", "benchmark", "--languages", language];
    await call("models", "add", weights, "--id", "measured", "--no-trial", ...named);
    return "measured";
  })();
  return {
    name: "Shruti",
    async transcribe(wavs) {
      const model = await prepared;
      return eachOf(wavs, async (wav) => {
        const asked = ["--language", language, "--model", model, "--format", "json"];
        const { output, ...spent } = await call("transcribe", wav, ...asked);
        const { segments } = JSON.parse(output) as {
          segments: { start_ms: number; end_ms: number; text: string }[];
        };
        return { ...spent, heard: segments.map(inSeconds) };
      });
    },
  };
}

const inSeconds = (segment: { start_ms: number; end_ms: number; text: string }): Heard => ({
  start: segment.start_ms / MILLISECONDS,
  end: segment.end_ms / MILLISECONDS,
  text: segment.text,
});

/** whisper.cpp's own program. Without other settings it has five beams and five samples, and text of earlier windows as prompt. */
export function whisperCli(
  path: string,
  weights: string,
  { language, threads }: Given,
  how: { beam: number },
): Program {
  return {
    name: `whisper-cli, beam ${how.beam}`,
    transcribe: (wavs) =>
      eachOf(wavs, async (wav) => {
        const folder = mkdtempSync(join(tmpdir(), "shruti-bench-"));
        try {
          const written = join(folder, "out");
          const beams = ["-bs", String(how.beam), "-bo", String(how.beam)];
          const asked = ["-l", language, "-t", String(threads), ...beams, "-oj", "-of", written];
          const { output: _output, ...spent } = await run([path, "-m", weights, "-f", wav, ...asked]);
          const { transcription } = JSON.parse(readFileSync(`${written}.json`, "utf8")) as {
            transcription: { offsets: { from: number; to: number }; text: string }[];
          };
          const heard = transcription.map(({ offsets, text }) =>
            inSeconds({ start_ms: offsets.from, end_ms: offsets.to, text }),
          );
          return { ...spent, heard };
        } finally {
          rmSync(folder, { recursive: true, force: true });
        }
      }),
  };
}

/** faster-whisper in a Python that has it, with weights of 8 bits. Its times leave the loading of the model out. */
export function fasterWhisper(
  python: string,
  model: string,
  { language, threads }: Given,
  how: { batched: boolean; beam: number },
): Program {
  return {
    name: `faster-whisper int8${how.batched ? " batched" : ""}, beam ${how.beam}`,
    async transcribe(wavs) {
      const settings = { ...how, model, language, threads, compute_type: "int8" };
      const { output } = await run([python, PEER, JSON.stringify(settings), ...wavs]);
      const lines = output.trim().split("\n");
      return lines.map((line) => {
        const found = JSON.parse(line) as { segments: Heard[]; seconds: number; processor: number };
        return { heard: found.segments, seconds: found.seconds, processorSeconds: found.processor };
      });
    },
  };
}

async function eachOf(wavs: readonly string[], one: (wav: string) => Promise<Run>): Promise<Run[]> {
  const runs: Run[] = [];
  for (const wav of wavs) runs.push(await one(wav));
  return runs;
}

async function run(command: string[]) {
  const startedMs = performance.now();
  const child = Bun.spawn(command, { stdin: "ignore", stdout: "pipe", stderr: "pipe" });
  const [output, errors] = await Promise.all([child.stdout.text(), child.stderr.text()]);
  if ((await child.exited) !== 0) throw new Error(`${command.join(" ")}: ${errors.slice(-1000)}`);
  const spent = child.resourceUsage()?.cpuTime.total ?? 0n;
  return {
    output,
    seconds: (performance.now() - startedMs) / MILLISECONDS,
    processorSeconds: Number(spent) / 1e6,
  };
}
