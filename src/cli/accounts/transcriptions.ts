import type { Command } from "commander";
import type { Metadata } from "../../domain/metadata.ts";
import { FINAL_STATES, TRANSCRIPTION_STATES, type TranscriptionState } from "../../domain/transcription.ts";
import { toTranscription } from "../../http/console/views.ts";
import { toSeconds, toTimestamp } from "../../lib/time.ts";
import { FORMATS, type Format, renderResult, type TextOptions } from "../../pipeline/render.ts";
import type { TranscriptionRow } from "../../store/transcriptions.ts";
import { registerMakeEvidence } from "../appliance/evidence.ts";
import { metadataPair } from "../frame/arguments.ts";
import { readFormat } from "../frame/choices.ts";
import { type CliContext, CommandError } from "../frame/context.ts";
import {
  filterOf,
  type ListFilterOptions,
  withOwnerOptions,
  withRangeOptions,
} from "../frame/list-filters.ts";
import { renderFields } from "../frame/output.ts";
import {
  addSubtitleOptions,
  needsWordTimes,
  type SubtitleOptions,
  textOptionsOf,
} from "../frame/subtitle-options.ts";
import { openModels } from "../models/installed-models.ts";

/** `shruti transcriptions …`: admins list, cancel and delete transcriptions of all projects. */
export function registerTranscriptions(program: Command, context: CliContext): void {
  const transcriptions = program.command("transcriptions").description("Transcriptions of all projects");
  registerList(transcriptions, context);
  registerShow(transcriptions, context);
  registerRetry(transcriptions, context);
  registerMakeEvidence(transcriptions, context);

  transcriptions
    .command("cancel")
    .description("cancel unfinished work; a finished transcription stays as it is")
    .argument("<id>")
    .option("--json", "print JSON")
    .action(async (id: string, options: { json?: true }) => {
      const row = (await openTranscriptions(context)).cancelById(id);
      if (options.json) context.printJson(toTranscription(row));
      else context.printLine(`${row.id} is ${row.state}.`);
    });

  transcriptions
    .command("delete")
    .description("delete audio and transcript; the record and its usage stay")
    .argument("<id>")
    .option("--json", "print JSON")
    .action(async (id: string, options: { json?: true }) => {
      const row = await (await openTranscriptions(context)).deleteById(id);
      if (options.json) context.printJson(toTranscription(row));
      else context.printLine(`The content of ${row.id} is deleted.`);
    });
}

type ListOptions = ListFilterOptions & {
  state?: TranscriptionState[];
  failed?: true;
  metadata?: Metadata;
  json?: true;
};

function registerList(transcriptions: Command, context: CliContext): void {
  const list = withOwnerOptions(transcriptions.command("list").description("newest first"))
    .option("--state <states>", "comma-separated states", readStates)
    .option("--failed", "the same as --state failed,partial")
    .option("--metadata <name=value>", "with this in its metadata; may be given again", metadataPair);
  withRangeOptions(list, "accepted")
    .option("--json", "print JSON")
    .action(async (options: ListOptions) => {
      if (options.failed && options.state !== undefined)
        throw new CommandError("usage", "--failed and --state exclude each other");
      const { database } = await context.openServices();
      const { listAllTranscriptions, listAllWithMetadata } = await import("../../store/transcriptions.ts");
      const states = options.failed ? (["failed", "partial"] as const) : options.state;
      const filter = await filterOf(options, states, context);
      const { metadata } = options;
      const rows = metadata
        ? listAllWithMetadata(database.store, { ...filter, metadata })
        : listAllTranscriptions(database.store, filter);
      if (options.json) return context.printJson(rows.map(toTranscription));
      const cells = rows.map((row) => [
        row.id,
        row.state,
        row.language,
        row.mode,
        toSeconds(row.durationMs),
        row.projectId,
        toTimestamp(row.createdAt),
        row.errorCode,
      ]);
      context.printTable(
        ["ID", "STATE", "LANGUAGE", "MODE", "SECONDS", "PROJECT", "CREATED", "REASON"],
        cells,
      );
    });
}

function registerShow(transcriptions: Command, context: CliContext): void {
  const show = transcriptions
    .command("show")
    .description("everything that is known about one: states, chunks, means, money, webhook, acts")
    .argument("<id>")
    .option("--format <format>", `its result as ${FORMATS.join(", ")}`, readFormat);
  addSubtitleOptions(show)
    .option("--json", "print JSON")
    .action(async (id: string, options: SubtitleOptions & { format?: Format; json?: true }) => {
      const { format } = options;
      if (format !== undefined && options.json)
        throw new CommandError("usage", "give --format for the result, or --json for the record, not both");
      const textOptions = textOptionsOf(options, format ?? "");
      const { database } = await context.openServices();
      const [{ findTranscription }, { storyOf }, { renderStory, storyJson }] = await Promise.all([
        import("../../store/transcriptions.ts"),
        import("../../services/transcriptions/story.ts"),
        import("./transcription-story.ts"),
      ]);
      const row = findTranscription(database.store, id);
      if (!row) throw new CommandError("not_found", `there is no transcription ${id}`);
      if (format !== undefined) {
        if (needsWordTimes(options, format) && row.timestamps !== "word")
          throw new CommandError(
            "conflict",
            `the words of ${id} have no times: its timestamps are ${row.timestamps}`,
          );
        return printResult(context, row, format, textOptions);
      }
      const story = storyOf(database.store, row, context.clock.now());
      if (options.json) return context.printJson({ ...toTranscription(row), ...storyJson(story) });
      const { error, object: _, ...fields } = toTranscription(row);
      context.io.out(
        renderFields([
          ...Object.entries(fields).map(([name, value]) => [name, textOfField(value)] as const),
          ["error", error && `${error.code}: ${error.message}`],
        ]) + renderStory(story),
      );
    });
}

/** Metadata is written as `--metadata` takes it. */
function textOfField(value: unknown): string | null {
  if (value === null) return null;
  if (typeof value !== "object") return String(value);
  return Object.entries(value)
    .map(([name, one]) => `${name}=${one}`)
    .join(", ");
}

function registerRetry(transcriptions: Command, context: CliContext): void {
  transcriptions
    .command("retry")
    .description(
      "start a new transcription in the place of one that failed or was cancelled; prints its ID. Only this one is charged",
    )
    .argument("<id>")
    .option("--json", "print JSON")
    .action(async (id: string, options: { json?: true }) => {
      const admin = await context.openServices();
      const { database, clock, config, credit, dataDir } = admin;
      const [models, { retryTranscription }, { requireComplete }] = await Promise.all([
        openModels(context),
        import("../../services/transcriptions/retry.ts"),
        import("../../services/uploads/upload-completion.ts"),
      ]);
      const { transcription, hasLostEndpoint } = retryTranscription(
        {
          ...{ database, clock, config, models, credit },
          uploads: {
            requireComplete: (tx, owner, upload) => requireComplete({ dataDir }, tx, owner, upload),
          },
          estimateNextStartSeconds: () => 1,
        },
        id,
      );
      if (options.json) context.printJson(toTranscription(transcription));
      else context.printLine(transcription.id);
      if (hasLostEndpoint)
        context.note("Its webhook endpoint is disabled or removed: no event will be sent.");
    });
}

async function printResult(
  context: CliContext,
  row: TranscriptionRow,
  format: Format,
  textOptions: TextOptions,
): Promise<void> {
  const { database } = await context.openServices();
  const [{ findResult }, { resultInfoOf }] = await Promise.all([
    import("../../store/results.ts"),
    import("../../store/transcriptions.ts"),
  ]);
  const result = findResult(database.store, row.id);
  if (!result) {
    const isOver = (FINAL_STATES as readonly string[]).includes(row.state);
    throw new CommandError("conflict", isOver ? `${row.id} has no result` : `${row.id} is not finished`);
  }
  context.io.out(renderResult(result, format, resultInfoOf(row), textOptions));
}

/** Opens only what cancelling and deleting need. A running server notices the change. */
async function openTranscriptions(context: CliContext) {
  const { openTranscriptionAdmin } = await import("../../services/transcriptions/transcription-admin.ts");
  return openTranscriptionAdmin(await context.openServices());
}

function readStates(text: string): TranscriptionState[] {
  const states = text.split(",").map((state) => state.trim());
  const unknown = states.find((state) => !(TRANSCRIPTION_STATES as readonly string[]).includes(state));
  if (unknown !== undefined) throw new CommandError("usage", `there is no state ${unknown}`);
  return states as TranscriptionState[];
}
