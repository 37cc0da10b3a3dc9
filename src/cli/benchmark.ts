import type { Command } from "commander";
import type { TranscriptionResult } from "../domain/result.ts";
import { MODES, type Mode } from "../domain/transcription.ts";
import { errorMessage } from "../lib/error-message.ts";
import {
  characterErrors,
  type ErrorRate,
  normalizeForScoring,
  sumErrors,
  wordErrors,
} from "../pipeline/wer.ts";
import { type BenchmarkFile, findBenchmarkFiles } from "./benchmark-files.ts";
import { readChannelMode, readMode } from "./choices.ts";
import { type CliContext, CommandError } from "./context.ts";
import { describeGaps, withLocalTranscriber } from "./local-work.ts";
import { renderTable } from "./output.ts";
import { openProgress } from "./progress.ts";

type Options = {
  language: string;
  mode: Mode;
  model?: string;
  channelMode: "mix" | "separate";
  json?: true;
};

/** The score of one recording. */
type Scored = {
  file: string;
  audioSeconds: number;
  elapsedSeconds: number;
  words: ErrorRate | undefined;
  characters: ErrorRate | undefined;
  warnings: readonly string[];
};
type Failed = { file: string; error: string };

/** `shruti benchmark`: scores an installed model on the customer's own recordings. Nothing leaves the machine. */
export function registerBenchmark(program: Command, context: CliContext): void {
  program
    .command("benchmark")
    .description(
      "Score a model on recordings with transcripts: word and character error rates, and speed. Compared without case and punctuation, in one Unicode form; digits as they are.",
    )
    .argument(
      "<dir>",
      "recordings, each with name.txt beside it, or a transcripts.tsv (columns file, transcript)",
    )
    .requiredOption("--language <code>", "language spoken")
    .option("--mode <mode>", MODES.join(", "), readMode, "native")
    .option("--model <id>", "model; else the default")
    .option("--channel-mode <mode>", "mix, separate", readChannelMode, "mix")
    .option("--json", "print JSON")
    .action(async (directory: string, options: Options) => {
      await benchmark(context, directory, options);
    });
}

async function benchmark(context: CliContext, directory: string, options: Options): Promise<void> {
  const isByChannel = options.channelMode === "separate";
  const { files, leftOut } = findBenchmarkFiles(directory, options.language, isByChannel);
  for (const reason of leftOut) context.note(`left out: ${reason}`);
  const { model, language, mode, channelMode } = options;
  const choices = { model, language, mode, channelMode, isDiarized: false };
  await withLocalTranscriber(context, choices, async (transcriber, plan) => {
    await transcriber.warm(plan);
    const scored: Scored[] = [];
    const failed: Failed[] = [];
    for (const file of files) {
      const progress = openProgress(context.io, file.name);
      try {
        const startedAt = performance.now();
        const result = await transcriber.transcribe(plan, file.path, progress.update);
        const [gap] = describeGaps(result);
        // A gap is a failure of the engine. A score with its words missing would say nothing about the model.
        if (gap !== undefined) throw new Error(gap);
        const elapsedSeconds = (performance.now() - startedAt) / 1000;
        scored.push({ ...score(file, result, options.language), elapsedSeconds });
      } catch (error) {
        failed.push({ file: file.name, error: errorMessage(error) });
      } finally {
        progress.close();
      }
    }
    const { id, version } = plan.model;
    if (options.json) context.printJson({ model: id, version, ...toJson(options, scored, failed) });
    else context.io.out(toTable(scored));
    for (const { file, error } of failed) context.note(`error: ${file}: ${error}`);
    if (failed.length > 0) {
      throw new CommandError("failed", `${failed.length} of ${files.length} files could not be transcribed`);
    }
  });
}

function score(
  file: BenchmarkFile,
  result: TranscriptionResult,
  language: string,
): Omit<Scored, "elapsedSeconds"> {
  // In the order of the reference: one channel after the other.
  const segments = result.segments.toSorted(
    (a, b) => (a.channel ?? 0) - (b.channel ?? 0) || a.startMs - b.startMs,
  );
  const heard = normalizeForScoring(segments.map(({ text }) => text).join(" "), language);
  const said = normalizeForScoring(file.transcript, language);
  return {
    file: file.name,
    audioSeconds: result.durationMs / 1000,
    words: wordErrors(said, heard),
    characters: characterErrors(said, heard),
    warnings: result.warnings,
  };
}

function totalOf(scored: readonly Scored[]) {
  const audioSeconds = scored.reduce((sum, file) => sum + file.audioSeconds, 0);
  const elapsedSeconds = scored.reduce((sum, file) => sum + file.elapsedSeconds, 0);
  const words = scored.map((file) => file.words).filter((rate) => rate !== undefined);
  const characters = scored.map((file) => file.characters).filter((rate) => rate !== undefined);
  return { audioSeconds, elapsedSeconds, words: sumErrors(words), characters: sumErrors(characters) };
}

function toJson(options: Options, scored: readonly Scored[], failed: readonly Failed[]) {
  const { language, mode, channelMode } = options;
  return {
    language,
    mode,
    channel_mode: channelMode,
    files: scored.map(({ file, warnings, ...figures }) => ({ file, ...figuresOf(figures), warnings })),
    failed,
    total: { files: scored.length, ...figuresOf(totalOf(scored)) },
  };
}

type Figures = Pick<Scored, "audioSeconds" | "elapsedSeconds" | "words" | "characters">;

function figuresOf({ audioSeconds, elapsedSeconds, words, characters }: Figures) {
  return {
    audio_seconds: rounded(audioSeconds, 3),
    elapsed_seconds: rounded(elapsedSeconds, 3),
    times_real_time: rounded(audioSeconds / Math.max(elapsedSeconds, 1e-9), 2),
    words: countsOf(words),
    characters: countsOf(characters),
  };
}

/** Renders error rates; null when the texts are too long to be compared. */
function countsOf(rate: ErrorRate | undefined) {
  if (!rate) return null;
  const { total, substitutions, deletions, insertions } = rate;
  return {
    total,
    substitutions,
    deletions,
    insertions,
    error_rate: rate.rate === undefined ? null : rounded(rate.rate, 5),
  };
}

function rounded(value: number, digits: number): number {
  return Number(value.toFixed(digits));
}

function toTable(scored: readonly Scored[]): string {
  const percent = (rate: ErrorRate | undefined) =>
    rate?.rate === undefined ? "–" : (rate.rate * 100).toFixed(1);
  const row = (name: string, { audioSeconds, elapsedSeconds, words, characters }: Figures) => [
    name,
    audioSeconds.toFixed(1),
    words?.total ?? "–",
    percent(words),
    percent(characters),
    (audioSeconds / Math.max(elapsedSeconds, 1e-9)).toFixed(1),
  ];
  const rows = scored.map((file) => row(file.file, file));
  rows.push(row("all", totalOf(scored)));
  return renderTable(["FILE", "SECONDS", "WORDS", "WER %", "CER %", "× REAL TIME"], rows);
}
