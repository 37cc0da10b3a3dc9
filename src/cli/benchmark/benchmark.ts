import { basename, resolve } from "node:path";
import type { Command } from "commander";
import { MODES } from "../../domain/transcription.ts";
import { errorMessage } from "../../lib/error-message.ts";
import { writeOutput } from "../../lib/output-files.ts";
import type { ErrorRate } from "../../pipeline/wer.ts";
import type { StartFigures } from "../../pipeline/word-starts.ts";
import { readChannelMode, readMode, readTimestamps } from "../frame/choices.ts";
import { type CliContext, CommandError } from "../frame/context.ts";
import { commandStyle } from "../frame/error-line.ts";
import { renderTable } from "../frame/output.ts";
import { openProgress } from "../frame/progress.ts";
import { describeGaps, withLocalTranscriber } from "../transcribe/local-work.ts";
import { comparisonJson, comparisonTable } from "./benchmark-comparison.ts";
import { type BenchmarkFile, findBenchmarkFiles } from "./benchmark-files.ts";
import type { BenchmarkOptions } from "./benchmark-options.ts";
import { renderReport } from "./benchmark-report.ts";
import {
  type Failed,
  type Figures,
  figuresOf,
  type ModelScore,
  reliabilityJson,
  type Scored,
  score,
  startsJson,
  startsOfAll,
  timesJson,
  totalOf,
  warningCounts,
} from "./benchmark-scores.ts";

/** `shruti benchmark`: scores installed models on the customer's own recordings. Nothing leaves the machine. */
export function registerBenchmark(program: Command, context: CliContext): void {
  program
    .command("benchmark")
    .description(
      "Score models on recordings with transcripts: word and character error rates, and speed. Compared without case and punctuation, in one Unicode form; digits as they are.",
    )
    .argument(
      "<dir>",
      "recordings, each with name.txt beside it, or a transcripts.tsv (columns file, transcript)",
    )
    .requiredOption("--language <code>", "language spoken")
    .option("--mode <mode>", MODES.join(", "), readMode, "native")
    .option("--model <id>", "model; else the default")
    .option("--models <ids>", "compare several models, separated by commas", readModels)
    .option(
      "--timestamps <kind>",
      "word: the words with their times in --json and --report, and how exact their starts are where name.ctm beside a recording has them",
      readTimestamps,
      "segment",
    )
    .option("--channel-mode <mode>", "mix, separate", readChannelMode, "mix")
    .option("--name <text>", "name of the data, for the models' cards (default: the directory's)")
    .option("--report <file>", "write a page that shows every transcript beside its reference")
    .option("--json", "print JSON")
    .action(async (directory: string, options: BenchmarkOptions) => {
      if (options.model !== undefined && options.models) {
        throw new CommandError("usage", "give --model or --models, not both");
      }
      await benchmark(context, directory, options);
    });
}

function readModels(text: string): string[] {
  const ids = text.split(",").map((id) => id.trim());
  if (ids.includes("") || new Set(ids).size < ids.length) {
    throw new CommandError("usage", "--models takes several models, each once, separated by commas");
  }
  return ids;
}

async function benchmark(context: CliContext, directory: string, options: BenchmarkOptions): Promise<void> {
  const isByChannel = options.channelMode === "separate";
  const { files, leftOut } = findBenchmarkFiles(directory, options.language, isByChannel);
  for (const reason of leftOut) context.note(`left out: ${reason}`);
  const scores: ModelScore[] = [];
  for (const model of options.models ?? [options.model]) {
    scores.push(await scoreModel(context, files, { ...options, name: nameOf(directory, options) }, model));
  }
  if (options.report !== undefined) {
    const about = {
      name: nameOf(directory, options),
      date: new Date(context.clock.now()),
      path: options.report,
    };
    const page = renderReport(about, options, scores);
    await writeOutput(options.report, page);
    context.note(`report: ${options.report}`);
  }
  print(context, options, scores);
  const failed = scores.flatMap((one) => one.failed.map((failure) => ({ ...failure, model: one.model })));
  for (const { file, model, error } of failed) {
    context.note(`error: ${options.models ? `${model}: ` : ""}${file}: ${commandStyle(error)}`);
  }
  if (failed.length > 0) {
    const count = files.length * scores.length;
    throw new CommandError("failed", `${failed.length} of ${count} files could not be transcribed`);
  }
}

const nameOf = (directory: string, { name }: BenchmarkOptions): string =>
  name ?? basename(resolve(directory));

function print(context: CliContext, options: BenchmarkOptions, scores: readonly ModelScore[]): void {
  const [only] = scores;
  if (options.models || !only) {
    if (options.json) context.printJson(comparisonJson(options, scores));
    else context.io.out(comparisonTable(scores));
    return;
  }
  const { model, version, scored, failed } = only;
  if (options.json) context.printJson({ model, version, ...toJson(options, scored, failed) });
  else {
    context.io.out(toTable(scored));
    const starts = startsOfAll(scored);
    if (starts) context.note(startSentence(starts));
  }
}

/** Transcribes all files with one model. Each model has the machine for itself. */
async function scoreModel(
  context: CliContext,
  files: readonly BenchmarkFile[],
  options: BenchmarkOptions & { name: string },
  model: string | undefined,
): Promise<ModelScore> {
  const { language, mode, channelMode, timestamps } = options;
  const choices = { model, language, mode, channelMode, timestamps, isDiarized: false };
  const how = { language, isWordTimed: timestamps === "word" };
  const scored: Scored[] = [];
  const failed: Failed[] = [];
  let found: Pick<ModelScore, "model" | "version" | "device" | "memoryBytes"> | undefined;
  await withLocalTranscriber(context, choices, async (transcriber, plan) => {
    await transcriber.warm(plan);
    for (const file of files) {
      const progress = openProgress(context.io, `${plan.model.id} ${file.name}`);
      try {
        const startedAt = performance.now();
        const result = await transcriber.transcribe(plan, file.path, progress.update);
        const [gap] = describeGaps(result);
        // A gap is a failure of the engine. A score with its words missing would say nothing about the model.
        if (gap !== undefined) throw new Error(gap);
        const elapsedSeconds = (performance.now() - startedAt) / 1000;
        scored.push({ ...score(file, result, how), elapsedSeconds });
      } catch (error) {
        failed.push({ file: file.name, error: errorMessage(error) });
      } finally {
        progress.close();
      }
    }
    const { id, version } = plan.model;
    found = { model: id, version, ...transcriber.usage() };
    if (scored.length === 0) return;
    await transcriber
      .record(plan, cardFigures(context, options, { ...found, scored, failed }))
      .catch((error: unknown) => context.note(`the model's card was not written: ${errorMessage(error)}`));
  });
  if (!found) throw new Error("No model was measured.");
  return { ...found, scored, failed };
}

/** The figures that the model's card keeps. */
function cardFigures(
  context: CliContext,
  { name, language, mode }: BenchmarkOptions & { name: string },
  { scored, memoryBytes, device }: ModelScore,
) {
  const { words, characters, audioSeconds, elapsedSeconds } = totalOf(scored);
  return {
    date: new Date(context.clock.now()).toISOString().slice(0, 10),
    data: name,
    language,
    mode,
    recordings: scored.length,
    audioSeconds,
    words: words.total,
    wordErrorRate: words.rate,
    characterErrorRate: characters.rate,
    timesRealTime: audioSeconds / Math.max(elapsedSeconds, 1e-9),
    memoryBytes,
    device,
  };
}

function toJson(options: BenchmarkOptions, scored: readonly Scored[], failed: readonly Failed[]) {
  const { language, mode, channelMode } = options;
  return {
    language,
    mode,
    channel_mode: channelMode,
    files: scored.map(({ file, warnings, ...figures }) => ({
      ...{ file, ...figuresOf(figures), warnings },
      ...timesJson(figures),
    })),
    failed,
    total: {
      files: scored.length,
      ...figuresOf(totalOf(scored)),
      reliability: reliabilityJson(scored),
      warnings: warningCounts(scored),
      ...startsJson(scored),
    },
  };
}

const startSentence = ({ words, medianMs, p95Ms }: StartFigures): string =>
  `starts of ${words} words: half are within ${Math.round(medianMs)} ms, and 95 % within ${Math.round(p95Ms)} ms`;

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
