import { Database as SqliteDatabase } from "bun:sqlite";
import { closeSync } from "node:fs";
import { hostname } from "node:os";
import { toTimestamp } from "../../lib/time.ts";
import { backupDatabase, type Database } from "../../store/database.ts";
import { makePrivateFile } from "../../store/private-file.ts";
import { modelDirectoryOf } from "../models/model-registry.ts";
import { openPlainFile } from "./backup-bytes.ts";
import { type BackupDescription, DESCRIPTION, FORMAT } from "./backup-format.ts";
import {
  backendsIn,
  keyFilesIn,
  modelsIn,
  type Recording,
  readConfigText,
  type Source,
  type SourceOptions,
  sourcesOf,
} from "./backup-sources.ts";
import { secretsIn } from "./config-secrets.ts";

export type BackupRequest = SourceOptions & {
  /** The live database, of any version. */
  database: Pick<Database, "sqlite">;
  /** Version of this program. */
  version: string;
  /** Names of variables that overrode settings. */
  variables: readonly string[];
  nowMs: number;
};

/** What is written into: an archive or a store. Files come in ascending order of their names. */
export type BackupSink = {
  layout: BackupDescription["layout"];
  /** Where the copy of the database is made. */
  snapshotPath: string;
  /** Adds a small file. */
  addText(name: string, text: string): void;
  /** Adds a file that is open. @returns its SHA-256 */
  addFile(name: string, file: NonNullable<ReturnType<typeof openPlainFile>>): Promise<string>;
};

/** What a backup holds, and what it could not hold. */
export type BackupContents = {
  files: number;
  bytes: number;
  recordings: number;
  /** Recordings that were deleted while the backup was made. */
  deletedMeanwhile: number;
  /** Recordings that the database has and the disk has not. */
  missing: Names;
  /** Recordings whose size or SHA-256 is not what the database has. They are in the backup as they are. */
  damaged: Names;
};

/** A number of things, and the first of them. */
export type Names = { count: number; first: string[] };
const MAX_NAMES = 20;

export const noNames = (): Names => ({ count: 0, first: [] });

export function addName(names: Names, name: string): void {
  names.count += 1;
  if (names.first.length < MAX_NAMES) names.first.push(name);
}

/**
 * Writes everything: first a copy of the database, which is one moment, then the files that this copy refers to.
 * Recordings never change once they are complete. One that is deleted meanwhile is left out.
 */
export async function writeContents(request: BackupRequest, sink: BackupSink): Promise<BackupContents> {
  const contents: BackupContents = {
    ...{ files: 0, bytes: 0, recordings: 0, deletedMeanwhile: 0 },
    ...{ missing: noNames(), damaged: noNames() },
  };
  // The copy has the secrets that sign webhooks. SQLite gives its journal the mode of the database file.
  makePrivateFile(sink.snapshotPath);
  backupDatabase(request.database, sink.snapshotPath);
  const snapshot = new SqliteDatabase(sink.snapshotPath, { readonly: true });
  try {
    sink.addText(DESCRIPTION, `${JSON.stringify(descriptionOf(request, sink.layout), null, 2)}\n`);
    contents.files += 1;
    for (const source of sourcesOf(request, sink.snapshotPath, snapshot)) {
      await addSource(request, sink, source, contents);
    }
  } finally {
    snapshot.close();
  }
  return contents;
}

async function addSource(
  request: BackupRequest,
  sink: BackupSink,
  source: Source,
  contents: BackupContents,
): Promise<void> {
  if ("text" in source) {
    sink.addText(source.name, source.text);
    contents.files += 1;
    contents.bytes += Buffer.byteLength(source.text);
    return;
  }
  const file = openPlainFile(source.path);
  if (!file) {
    if (source.recording) noteAbsent(request, source.recording, contents);
    return;
  }
  try {
    const sha256 = await sink.addFile(source.name, file);
    contents.files += 1;
    contents.bytes += file.facts.size;
    const { recording } = source;
    if (!recording) return;
    contents.recordings += 1;
    const isRight = recording.bytes === file.facts.size && (recording.sha256 ?? sha256) === sha256;
    if (!isRight) addName(contents.damaged, recording.id);
  } finally {
    closeSync(file.descriptor);
  }
}

/** A recording without a file was deleted since the copy of the database was made, or is lost. */
function noteAbsent({ database }: BackupRequest, { id }: Recording, contents: BackupContents): void {
  const now = database.sqlite
    .query<{ deleted_at: number | null }, [string]>("SELECT deleted_at FROM uploads WHERE id = ?")
    .get(id);
  if (now && now.deleted_at === null) addName(contents.missing, id);
  else contents.deletedMeanwhile += 1;
}

function descriptionOf(request: BackupRequest, layout: BackupDescription["layout"]): BackupDescription {
  const { config, configPath, dataDir } = request;
  return {
    format: FORMAT,
    layout,
    created_at: toTimestamp(request.nowMs),
    version: request.version,
    host: hostname(),
    data_dir: dataDir,
    config: { path: configPath ?? null, emptied: emptiedOf(request), variables: [...request.variables] },
    models: { weights: request.weights, installed: modelsIn(modelDirectoryOf(config, dataDir)) },
    keys_left_out: request.secrets ? [] : keyFilesIn(dataDir),
    backends: backendsIn(dataDir),
  };
}

function emptiedOf({ configPath, secrets }: BackupRequest): string[] {
  return secrets || configPath === undefined ? [] : secretsIn(readConfigText(configPath));
}
