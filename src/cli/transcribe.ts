import { mkdirSync } from "node:fs";
import { basename, extname, join } from "node:path";
import type { Command } from "commander";
import { MODES, type Mode } from "../domain/transcription.ts";
import { errorMessage } from "../lib/error-message.ts";
import type { Format } from "../pipeline/render.ts";
import { readChannelMode, readFormat, readMode } from "./choices.ts";
import { type CliContext, CommandError } from "./context.ts";
import { describeGaps, withLocalTranscriber } from "./local-work.ts";
import { openProgress } from "./progress.ts";

type Options = {
  language: string;
  mode: Mode;
  model?: string;
  diarization?: true;
  channelMode: "mix" | "separate";
  format: Format;
  output?: string;
};

/** `shruti transcribe`: files on this machine, without server or credit. */
export function registerTranscribe(program: Command, context: CliContext): void {
  program
    .command("transcribe")
    .description("Transcribe local files, without server or credit.")
    .argument("<file...>", "audio or video files")
    .option("--language <code>", "language spoken", "hi")
    .option("--mode <mode>", MODES.join(", "), readMode, "native")
    .option("--model <id>", "model; else the default")
    .option("--diarization", "label speakers")
    .option("--channel-mode <mode>", "mix, separate", readChannelMode, "mix")
    .option("--format <format>", "text, json, srt, vtt", readFormat, "txt")
    .option("--output <dir>", "write one file for each into this directory, instead of standard output")
    .action(async (files: string[], options: Options) => {
      await transcribeFiles(context, files, options);
    });
}

async function transcribeFiles(
  context: CliContext,
  files: readonly string[],
  options: Options,
): Promise<void> {
  if (options.output !== undefined) requireOwnTargets(files, options);
  const { model, language, mode, channelMode } = options;
  const choices = { model, language, mode, channelMode, isDiarized: options.diarization ?? false };
  await withLocalTranscriber(context, choices, async (transcriber, plan) => {
    let failed = 0;
    for (const file of files) {
      const progress = openProgress(context.io, basename(file));
      try {
        const result = await transcriber.transcribe(plan, file, progress.update);
        progress.close();
        await write(context, file, transcriber.render(plan, result, options.format), options);
        if (result.gaps.length > 0) failed++;
        for (const reason of describeGaps(result)) context.note(`error: ${file}: ${reason}`);
      } catch (error) {
        progress.close();
        failed++;
        context.note(`error: ${file}: ${errorMessage(error)}`);
      }
    }
    if (failed > 0)
      throw new CommandError("failed", `${failed} of ${files.length} files could not be transcribed in full`);
  });
}

/** Checks that no output file overwrites another. @throws CommandError */
function requireOwnTargets(files: readonly string[], options: Options): void {
  const targets = new Map<string, string>();
  for (const file of files) {
    const target = targetOf(file, options);
    const other = targets.get(target);
    if (other !== undefined)
      throw new CommandError("usage", `${other} and ${file} would both be written to ${target}`);
    targets.set(target, file);
  }
}

function targetOf(file: string, { output = ".", format }: Options): string {
  return join(output, `${basename(file, extname(file))}.${format}`);
}

async function write(context: CliContext, file: string, rendered: string, options: Options): Promise<void> {
  if (options.output === undefined) {
    context.io.out(rendered.endsWith("\n") ? rendered : `${rendered}\n`);
    return;
  }
  mkdirSync(options.output, { recursive: true });
  const target = targetOf(file, options);
  await Bun.write(target, rendered);
  context.note(target);
}
