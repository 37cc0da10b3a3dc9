import type { Command } from "commander";
import { UPLOAD_STATES, type UploadState } from "../../domain/upload.ts";
import { toUpload } from "../../http/console/views.ts";
import { toSeconds, toTimestamp } from "../../lib/time.ts";
import type { TranscriptionRow } from "../../store/transcriptions.ts";
import type { UploadRow } from "../../store/uploads.ts";
import { type CliContext, CommandError } from "../frame/context.ts";
import {
  filterOf,
  type ListFilterOptions,
  withOwnerOptions,
  withRangeOptions,
} from "../frame/list-filters.ts";
import { renderFields, renderTable } from "../frame/output.ts";

/** `shruti uploads …`: admins see the uploads of all projects, and why one was rejected. */
export function registerUploads(program: Command, context: CliContext): void {
  const uploads = program.command("uploads").description("uploads of all projects");
  registerList(uploads, context);
  registerShow(uploads, context);

  uploads
    .command("delete")
    .description(
      "delete a recording for good; transcripts of it stay, and unfinished work must be cancelled first",
    )
    .argument("<id>")
    .option("--json", "print JSON")
    .action(async (id: string, options: { json?: true }) => {
      const admin = await context.openServices();
      const { deleteUpload } = await import("../../services/uploads/upload-admin.ts");
      const row = await deleteUpload(admin, id);
      if (options.json) context.printJson(toUpload(row));
      else context.printLine(`The recording of ${row.id} is deleted.`);
    });
}

type ListOptions = ListFilterOptions & { state?: UploadState[]; rejected?: true; json?: true };

function registerList(uploads: Command, context: CliContext): void {
  const list = withOwnerOptions(uploads.command("list").description("newest first"))
    .option("--state <states>", "comma-separated states", readStates)
    .option("--rejected", "the same as --state rejected");
  withRangeOptions(list, "created")
    .option("--json", "print JSON")
    .action(async (options: ListOptions) => {
      if (options.rejected && options.state !== undefined)
        throw new CommandError("usage", "--rejected and --state exclude each other");
      const { database } = await context.openServices();
      const { listAllUploads } = await import("../../store/uploads.ts");
      const states = options.rejected ? (["rejected"] as const) : options.state;
      const filter = await filterOf(options, states, context);
      const rows = listAllUploads(database.store, filter);
      if (options.json) return context.printJson(rows.map(toUpload));
      const cells = rows.map((row) => [
        ...[row.id, stateOf(row), row.bytes, row.durationMs === null ? null : toSeconds(row.durationMs)],
        ...[row.projectId, toTimestamp(row.createdAt), reasonOf(row)],
      ]);
      context.printTable(["ID", "STATE", "BYTES", "SECONDS", "PROJECT", "CREATED", "REASON"], cells);
    });
}

function registerShow(uploads: Command, context: CliContext): void {
  uploads
    .command("show")
    .description("everything that is known about one: states, bytes, recording, the work that uses it, acts")
    .argument("<id>")
    .option("--json", "print JSON")
    .action(async (id: string, options: { json?: true }) => {
      const { database, dataDir } = await context.openServices();
      const [{ findUpload }, { listAllTranscriptions }, { audioFilePath, fileBytes }, { listAudit }] =
        await Promise.all([
          import("../../store/uploads.ts"),
          import("../../store/transcriptions.ts"),
          import("../../store/audio-files.ts"),
          import("../../store/audit-log.ts"),
        ]);
      const row = findUpload(database.store, id);
      if (!row) throw new CommandError("not_found", `there is no upload ${id}`);
      const stored = (await fileBytes(audioFilePath(dataDir, id))) ?? 0;
      const uses = listAllTranscriptions(database.store, { uploadId: id, limit: 1000 });
      const acts = listAudit(database.store, { object: id }, { limit: 100 }).data.reverse();
      if (options.json) {
        context.printJson({
          ...toUpload(row),
          stored_bytes: stored,
          history: movesOf(row),
          transcriptions: uses.map(({ id: use, state }) => ({ id: use, state })),
          acts: acts.map(({ sequence, createdAt, source, actor, via, action }) => ({
            ...{ entry: sequence, created_at: toTimestamp(createdAt), source, actor, via, action },
          })),
        });
        return;
      }
      const fields = Object.entries({ ...toUpload(row), error: reasonOf(row), stored_bytes: stored });
      context.io.out(
        renderFields(fields.map(([name, value]) => [name, value === null ? null : String(value)])),
      );
      context.io.out(
        `\nHistory\n${movesOf(row)
          .map(({ state, at }) => `  ${at}  ${state}\n`)
          .join("")}`,
      );
      if (uses.length > 0) context.io.out(`\nTranscriptions\n${usesTable(uses)}`);
      const rows = acts.map((act) => [toTimestamp(act.createdAt), act.action, `${act.source}: ${act.actor}`]);
      if (rows.length > 0) context.io.out(`\nActs\n${renderTable(["TIME", "ACT", "WHO"], rows)}`);
    });
}

function usesTable(uses: readonly TranscriptionRow[]): string {
  return renderTable(
    ["ID", "STATE", "CREATED", "REASON"],
    uses.map(({ id, state, createdAt, errorCode }) => [id, state, toTimestamp(createdAt), errorCode]),
  );
}

function movesOf({ createdAt, history }: UploadRow) {
  return [[createdAt, "allocated"] as const, ...history].map(([atMs, state]) => ({
    state,
    at: toTimestamp(atMs),
  }));
}

const stateOf = ({ state, deletedAt }: UploadRow) =>
  state === "complete" && deletedAt !== null ? "complete, deleted" : state;

const reasonOf = ({ errorCode, errorMessage }: UploadRow) =>
  errorCode === null ? null : `${errorCode}: ${errorMessage ?? ""}`;

function readStates(text: string): UploadState[] {
  const states = text.split(",").map((state) => state.trim());
  const unknown = states.find((state) => !(UPLOAD_STATES as readonly string[]).includes(state));
  if (unknown !== undefined) throw new CommandError("usage", `there is no state ${unknown}`);
  return states as UploadState[];
}
