import type { Command } from "commander";
import { FINAL_STATES, TRANSCRIPTION_STATES, type TranscriptionState } from "../domain/transcription.ts";
import { toSeconds, toTimestamp } from "../lib/time.ts";
import { FORMATS, type Format, renderResult } from "../pipeline/render.ts";
import type { TranscriptionRow } from "../store/transcriptions.ts";
import { wholeNumber } from "./arguments.ts";
import { readFormat } from "./choices.ts";
import { type CliContext, CommandError } from "./context.ts";
import { renderFields } from "./output.ts";

/** `shruti transcriptions …`: admins list, cancel and delete transcriptions of all projects. */
export function registerTranscriptions(program: Command, context: CliContext): void {
  const transcriptions = program.command("transcriptions").description("Transcriptions of all projects");
  registerList(transcriptions, context);
  registerShow(transcriptions, context);

  transcriptions
    .command("cancel")
    .description("cancel unfinished work; a finished transcription stays as it is")
    .argument("<id>")
    .option("--json", "print JSON")
    .action(async (id: string, options: { json?: true }) => {
      const row = (await openTranscriptions(context)).cancelById(id);
      if (options.json) context.printJson(toJson(row));
      else context.printLine(`${row.id} is ${row.state}.`);
    });

  transcriptions
    .command("delete")
    .description("delete audio and transcript; the record and its usage stay")
    .argument("<id>")
    .option("--json", "print JSON")
    .action(async (id: string, options: { json?: true }) => {
      const row = await (await openTranscriptions(context)).deleteById(id);
      if (options.json) context.printJson(toJson(row));
      else context.printLine(`The content of ${row.id} is deleted.`);
    });
}

function registerList(transcriptions: Command, context: CliContext): void {
  transcriptions
    .command("list")
    .description("newest first")
    .option("--project <id>", "only of this project")
    .option("--state <states>", "comma-separated states", readStates)
    .option("--limit <n>", "how many", wholeNumber(1, 1000), 50)
    .option("--json", "print JSON")
    .action(
      async (options: { project?: string; state?: TranscriptionState[]; limit: number; json?: true }) => {
        const { database } = await context.openServices();
        const { listAllTranscriptions } = await import("../store/transcriptions.ts");
        const rows = listAllTranscriptions(database.store, {
          limit: options.limit,
          ...(options.project === undefined ? {} : { projectId: options.project }),
          ...(options.state === undefined ? {} : { states: options.state }),
        });
        if (options.json) return context.printJson(rows.map(toJson));
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
      },
    );
}

function registerShow(transcriptions: Command, context: CliContext): void {
  transcriptions
    .command("show")
    .argument("<id>")
    .option("--format <format>", `its result as ${FORMATS.join(", ")}`, readFormat)
    .option("--json", "print JSON")
    .action(async (id: string, options: { format?: Format; json?: true }) => {
      const { database } = await context.openServices();
      const { findTranscription } = await import("../store/transcriptions.ts");
      const row = findTranscription(database.store, id);
      if (!row) throw new CommandError("not_found", `There is no transcription ${id}.`);
      if (options.format !== undefined) return printResult(context, row, options.format);
      if (options.json) return context.printJson(toJson(row));
      const { error, ...fields } = toJson(row);
      context.io.out(
        renderFields([
          ...Object.entries(fields).map(
            ([name, value]) => [name, value === null ? null : String(value)] as const,
          ),
          ["error", error && `${error.code}: ${error.message}`],
        ]),
      );
    });
}

async function printResult(context: CliContext, row: TranscriptionRow, format: Format): Promise<void> {
  const { database } = await context.openServices();
  const { findResult } = await import("../store/results.ts");
  const result = findResult(database.store, row.id);
  if (!result) {
    const isOver = (FINAL_STATES as readonly string[]).includes(row.state);
    throw new CommandError("conflict", isOver ? `${row.id} has no result.` : `${row.id} is not finished.`);
  }
  const facts = {
    id: row.id,
    model: row.modelId,
    version: row.modelVersion,
    mode: row.mode,
    timestamps: row.timestamps,
  };
  context.io.out(renderResult(result, format, facts));
}

/** Opens only what cancelling and deleting need. A running server notices the change. */
async function openTranscriptions(context: CliContext) {
  const { openTranscriptionAdmin } = await import("../services/transcriptions/transcription-admin.ts");
  return openTranscriptionAdmin(await context.openServices());
}

function toJson(row: TranscriptionRow) {
  return {
    id: row.id,
    organization_id: row.organizationId,
    project_id: row.projectId,
    upload_id: row.uploadId,
    state: row.state,
    entrance: row.submission,
    model: row.modelId,
    version: row.modelVersion,
    language: row.language,
    mode: row.mode,
    timestamps: row.timestamps,
    diarization: row.diarization,
    channel_mode: row.channelMode,
    duration_seconds: toSeconds(row.durationMs),
    channels: row.channels,
    reserved_paise: row.reservedPaise,
    created_at: toTimestamp(row.createdAt),
    started_at: row.startedAt === null ? null : toTimestamp(row.startedAt),
    finished_at: row.finishedAt === null ? null : toTimestamp(row.finishedAt),
    content_deleted_at: row.contentDeletedAt === null ? null : toTimestamp(row.contentDeletedAt),
    error: row.errorCode === null ? null : { code: row.errorCode, message: row.errorMessage ?? "" },
  };
}

function readStates(text: string): TranscriptionState[] {
  const states = text.split(",").map((state) => state.trim());
  const unknown = states.find((state) => !(TRANSCRIPTION_STATES as readonly string[]).includes(state));
  if (unknown !== undefined) throw new CommandError("usage", `There is no state ${unknown}.`);
  return states as TranscriptionState[];
}
