import { resolve } from "node:path";
import type { Command } from "commander";
import type { FolderState } from "../../intake/folders/folders.ts";
import { toTimestamp } from "../../lib/time.ts";
import { readServerStatus } from "../../server/status-file.ts";
import type { Admin } from "../../services/admin.ts";
import type { WatchedFileRow } from "../../store/watched-files.ts";
import { type CliContext, CommandError } from "../frame/context.ts";
import { renderFields } from "../frame/output.ts";

/** `shruti folder …`: what the watched folders of the config are doing. */
export function registerFolder(program: Command, context: CliContext): void {
  const folder = program.command("folder").description("Watched folders, from which recordings are taken.");
  registerStatus(folder, context);
  registerRetry(folder, context);
}

/** Failed files that are named. */
const MOST_FAILED = 50;

type Report = {
  path: string;
  pattern: string;
  project: string;
  /** What the server says; null while it does not run, or has not looked yet. */
  now: FolderState | null;
  done: number;
  failed: number;
  failed_files: { file: number; name: string; reason: string | null; failed_at: string }[];
};

function registerStatus(folder: Command, context: CliContext): void {
  folder
    .command("status")
    .description("each watched folder: problems, files that wait, are worked on, are done or have failed")
    .option("--json", "print JSON")
    .action(async (options: { json?: true }) => {
      const reports = await reportsOf(await context.openServices());
      if (options.json) return context.printJson(reports);
      if (reports.length === 0) context.printLine("The config has no [[intake.folder]].");
      context.io.out(reports.map(render).join("\n"));
    });
}

async function reportsOf({ config, database, dataDir }: Admin): Promise<Report[]> {
  const { countWatchedFiles, listFailedFiles } = await import("../../store/watched-files.ts");
  const running = readServerStatus(dataDir);
  const counts = countWatchedFiles(database.store);
  return config.intake.folder.map(({ path, pattern, project }) => {
    const countOf = (wanted: string) =>
      counts.find((each) => each.folder === resolve(path) && each.state === wanted)?.count ?? 0;
    const failed = listFailedFiles(database.store, MOST_FAILED, resolve(path));
    // A server of an older version has no folders in its status.
    const now = running?.folders?.find((each) => each.path === path && each.pattern === pattern) ?? null;
    return {
      ...{ path, pattern, project, now, done: countOf("done"), failed: countOf("failed") },
      failed_files: failed.map(({ number, name, reason, updatedAt }) => ({
        ...{ file: number, name, reason, failed_at: toTimestamp(updatedAt) },
      })),
    };
  });
}

function render({ path, pattern, project, now, done, failed, failed_files }: Report): string {
  const fields: [string, string | number | null][] = [
    ["folder", path],
    ["pattern", pattern === "" ? "recordings" : pattern],
    ["project", project],
    ["problem", now === null ? "not known: no server runs" : (now.problem ?? "none")],
  ];
  if (now !== null) {
    fields.push(["looked at", now.looked_at], ["being written", now.resting], ["waiting", now.waiting]);
    // A server of an older version does not say it.
    if (now.without_sidecar) fields.push(["without sidecar", now.without_sidecar]);
    for (const name of now.without_sidecar_files ?? []) fields.push(["  without sidecar", name]);
    fields.push(["in hand", now.in_hand]);
    for (const { file, name, state, waits_for } of now.files)
      fields.push([`  file ${file}`, `${name}: ${waits_for ?? state}`]);
    fields.push(["unusable", now.unusable]);
    for (const { name, reason } of now.unusable_files) fields.push(["  unusable", `${name}: ${reason}`]);
  }
  fields.push(["done", done], ["failed", failed]);
  for (const { file, name, reason } of failed_files) fields.push([`  file ${file}`, `${name}: ${reason}`]);
  return renderFields(fields.map(([name, value]) => [name, value === null ? null : String(value)]));
}

function registerRetry(folder: Command, context: CliContext): void {
  folder
    .command("retry")
    .description("take failed files again; the running server puts them back where they were")
    .argument("<file...>", "number, path in the folder, or path; all: every failed file")
    .option("--json", "print JSON")
    .action(async (files: string[], options: { json?: true }) => {
      const admin = await context.openServices();
      const rows = await failedOf(admin, files);
      for (const row of rows) await retry(admin, row);
      const retried = rows.map(({ number, folder: path, name }) => ({ file: number, folder: path, name }));
      if (options.json) return context.printJson(retried);
      for (const { file, name } of retried) context.printLine(`file ${file}: ${name} is taken again`);
      if (rows.length === 0) context.note("no file has failed");
    });
}

/** Finds failed files. @throws CommandError `not_found` when a text names none */
async function failedOf({ database }: Admin, files: readonly string[]): Promise<WatchedFileRow[]> {
  const { listFailedFiles } = await import("../../store/watched-files.ts");
  const failed = listFailedFiles(database.store, Number.MAX_SAFE_INTEGER);
  if (files.length === 1 && files[0] === "all") return failed;
  const found = files.flatMap((file) => {
    const rows = failed.filter(
      ({ number, folder, name, movedTo }) =>
        [String(number), name].includes(file) || [resolve(folder, name), movedTo].includes(resolve(file)),
    );
    if (rows.length === 0)
      throw new CommandError("not_found", `no failed file is ${file}; \`shruti folder status\` lists them`);
    return rows;
  });
  return [...new Set(found)];
}

async function retry({ database, clock }: Admin, row: WatchedFileRow): Promise<void> {
  const [{ moveWatchedFile }, { recordAct }, { transaction }] = await Promise.all([
    import("../../store/watched-files.ts"),
    import("../../store/audit-log.ts"),
    import("../../store/database.ts"),
  ]);
  transaction(database.store, (tx) => {
    if (!moveWatchedFile(tx, row, "retrying", clock.now())) return;
    const { number, organizationId } = row;
    const act = { action: "watched_file.retry", object: `watched file ${number}`, organizationId } as const;
    recordAct(tx, act, clock.now());
  });
}
