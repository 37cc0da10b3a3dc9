import { join } from "node:path";
import type { Command } from "commander";
import type { RawFormat } from "../../domain/raw-formats.ts";
import {
  type DiarizationRequest,
  MODES,
  type Mode,
  type Numerals,
  type Task,
  TIMESTAMPS,
  type Timestamps,
} from "../../domain/transcription.ts";
import { errorMessage } from "../../lib/error-message.ts";
import { makeScratch, removeScratch } from "../../lib/scratch.ts";
import type { TextOptions } from "../../pipeline/render.ts";
import { wholeNumber } from "../frame/arguments.ts";
import {
  OUTPUT_FORMATS,
  type OutputFormat,
  readChannelMode,
  readMediaType,
  readMode,
  readNumerals,
  readOutputFormat,
  readTask,
  readTimestamps,
} from "../frame/choices.ts";
import { type CliContext, CommandError } from "../frame/context.ts";
import { commandStyle } from "../frame/error-line.ts";
import { openBatchProgress } from "../frame/progress.ts";
import {
  addSubtitleOptions,
  needsWordTimes,
  type SubtitleOptions,
  textOptionsOf,
} from "../frame/subtitle-options.ts";
import { addDiarizationOption, diarizationOf } from "./diarization-option.ts";
import { describeGaps, type LocalPlan, type LocalTranscriber, withLocalTranscriber } from "./local-work.ts";
import { findInputs, type Input, STANDARD_INPUT, spoolStandardInput } from "./transcribe-inputs.ts";
import {
  chooseDestination,
  type Destination,
  hasTranscript,
  writeFailure,
  writeTranscript,
} from "./transcribe-output.ts";
import { describeWarnings } from "./warning-texts.ts";

type Options = SubtitleOptions & {
  language: string;
  task: Task;
  mode: Mode;
  model?: string;
  mediaType?: RawFormat;
  timestamps?: Timestamps;
  diarization?: DiarizationRequest | true;
  channelMode: "mix" | "separate";
  numerals: Numerals;
  script: string;
  format?: OutputFormat;
  output?: string;
  skipExisting?: true;
  jobs: number;
};

/** `shruti transcribe`: files on this machine, without server or credit. */
export function registerTranscribe(program: Command, context: CliContext): void {
  const command = program
    .command("transcribe")
    .description("Transcribe local files, without server or credit.")
    .argument(
      "<file...>",
      "audio or video files, folders, patterns such as 'calls/*.wav', or - for standard input",
    )
    .option("--language <code>", "language spoken", "hi")
    .option(
      "--task <task>",
      "transcribe, or translate: the text is in English; needs capabilities.translation",
      readTask,
      "transcribe",
    )
    .option("--mode <mode>", MODES.join(", "), readMode, "native")
    .option("--model <id>", "model; else the default")
    .option(
      "--media-type <type>",
      "what files without a header are, such as audio/PCMA or 'audio/L16;rate=16000;endianness=little-endian'; else their names say it",
      readMediaType,
    );
  addDiarizationOption(command)
    .option(
      "--timestamps <kind>",
      `${TIMESTAMPS.join(", ")}; word needs capabilities.word_timestamps (default: segment, or word where it is needed)`,
      readTimestamps,
    )
    .option("--channel-mode <mode>", "mix, separate", readChannelMode, "mix")
    .option(
      "--numerals <form>",
      "spoken, or written: numbers, money and dates in figures",
      readNumerals,
      "spoken",
    )
    .option(
      "--script <name>",
      "native, latin, iso15919, or a script of the language by its ISO 15924 code, such as deva",
      "native",
    )
    .option(
      "--format <format>",
      `${OUTPUT_FORMATS.join(", ")}; jsonl is a line for each recording (default: text, or as --output says)`,
      readOutputFormat,
    )
    .option(
      "--output <path>",
      "write one file for each into this folder, or one file such as call.srt, instead of standard output",
    )
    .option("--skip-existing", "leave out recordings whose file is in --output already")
    .option("--jobs <n>", "recordings that are worked on side by side", wholeNumber(1, 64), 2);
  addSubtitleOptions(command).action(async (files: string[], options: Options) => {
    await transcribe(context, files, options);
  });
}

async function transcribe(context: CliContext, files: readonly string[], options: Options): Promise<void> {
  if (options.skipExisting && options.output === undefined)
    throw new CommandError("usage", "--skip-existing needs --output");
  const scratch = files.includes(STANDARD_INPUT) ? makeScratch() : undefined;
  try {
    const spool = join(scratch ?? "", "standard-input");
    const inputs = await findInputs(files, spool, context.note);
    const destination = chooseDestination(inputs, options);
    const textOptions = textOptionsOf(options, destination.format);
    const wanted = options.skipExisting
      ? inputs.filter((input) => !hasTranscript(destination, input))
      : inputs;
    if (wanted.length < inputs.length)
      context.note(`${inputs.length - wanted.length} of ${inputs.length} are there already.`);
    if (wanted.length === 0) return;
    const { model, language, mode, channelMode, mediaType: format } = options;
    const speakers = diarizationOf(options.diarization);
    const given = {
      ...{ model, language, mode, channelMode, isDiarized: speakers !== undefined },
      timestamps: timestampsOf(options, destination.format),
      ...(speakers ? { speakers } : {}),
      ...(options.task === "translate" ? { task: options.task } : {}),
      ...(options.numerals === "written" ? { numerals: options.numerals } : {}),
      ...(options.script === "native" ? {} : { script: options.script }),
      ...(format ? { reading: { format } } : {}),
    };
    await withLocalTranscriber(context, given, async (transcriber, plan, config) => {
      if (wanted.some(({ name }) => name === STANDARD_INPUT))
        await spoolStandardInput(spool, config.limits.max_upload_bytes);
      const { jobs } = options;
      await transcribeAll({ context, transcriber, plan, destination, textOptions, inputs: wanted, jobs });
    });
  } finally {
    if (scratch !== undefined) removeScratch(scratch);
  }
}

/** @throws CommandError `usage` for timestamps without which the format has nothing to write */
function timestampsOf(options: Options, format: OutputFormat): Timestamps {
  const needsWords = needsWordTimes(options, format);
  const { timestamps = needsWords ? "word" : "segment" } = options;
  if (needsWords && timestamps !== "word")
    throw new CommandError("usage", `${format} with the times of words needs --timestamps word`);
  return timestamps;
}

type Work = {
  context: CliContext;
  transcriber: LocalTranscriber;
  plan: LocalPlan;
  destination: Destination;
  textOptions: TextOptions;
  inputs: readonly Input[];
  jobs: number;
};

/** Works on several recordings side by side, and prints each when it and those before it are done. */
async function transcribeAll(work: Work): Promise<void> {
  const { context, transcriber, plan, destination, textOptions, inputs, jobs } = work;
  const isOneOfSeveral = inputs.length > 1;
  const progress = openBatchProgress(
    context.io,
    inputs.map(({ name }) => name),
  );
  let failed = 0;

  /** @returns what prints the outcome; it throws nothing */
  async function outcomeOf(input: Input, index: number): Promise<() => Promise<void>> {
    try {
      const result = await transcriber.transcribe(plan, input.path, (done) => progress.update(index, done));
      return async () => {
        await writeTranscript(context, destination, input, isOneOfSeveral, (format) =>
          transcriber.render(plan, result, format, { ...textOptions, name: input.target }),
        );
        for (const warning of describeWarnings(result)) context.note(`warning: ${input.name}: ${warning}`);
        if (result.gaps.length > 0) failed++;
        for (const reason of describeGaps(result)) context.note(`error: ${input.name}: ${reason}`);
      };
    } catch (error) {
      return async () => {
        failed++;
        writeFailure(context, destination, input, isOneOfSeveral, errorMessage(error));
        context.note(`error: ${input.name}: ${commandStyle(errorMessage(error))}`);
      };
    } finally {
      progress.update(index, 1);
    }
  }

  try {
    let printed: Promise<void> = Promise.resolve();
    await runInOrder(inputs, jobs, outcomeOf, (print) => {
      printed = printed.then(() => progress.pause(print));
      return printed;
    });
  } finally {
    progress.close();
  }
  if (failed > 0)
    throw new CommandError("failed", `${failed} of ${inputs.length} files could not be transcribed in full`);
}

/**
 * Runs work for each item, a limited number at a time, and hands the outcomes over in the order of the items.
 *
 * @param handOver is awaited before the outcome of the next item is handed over
 */
async function runInOrder<Item, Outcome>(
  items: readonly Item[],
  atOnce: number,
  work: (item: Item, index: number) => Promise<Outcome>,
  handOver: (outcome: Outcome) => Promise<void>,
): Promise<void> {
  const running: Promise<Outcome>[] = [];
  let next = 0;
  const start = () => {
    const index = next++;
    const item = items[index];
    if (item !== undefined) running.push(work(item, index));
  };
  while (running.length < Math.min(atOnce, items.length)) start();
  for (let outcome = running.shift(); outcome !== undefined; outcome = running.shift()) {
    const done = await outcome;
    start();
    await handOver(done);
  }
}
