import { Database as SqliteDatabase } from "bun:sqlite";
import { closeSync } from "node:fs";
import { hostname } from "node:os";
import { asUser } from "../../lib/rights.ts";
import { toTimestamp } from "../../lib/time.ts";
import { noteMoment } from "../../store/copy-moment.ts";
import { backupDatabase, type Database } from "../../store/database.ts";
import { makePrivateFile } from "../../store/private-file.ts";
import { ownerOfData } from "../data-owner.ts";
import { modelDirectoryOf } from "../models/model-registry.ts";
import { ChangedError, openPlainFile, UnreadableError, writeWhole } from "./backup-bytes.ts";
import { type BackupDescription, DESCRIPTION, FORMAT, isWeights, WITHOUT } from "./backup-format.ts";
import { type BackupSigner, signatureText } from "./backup-signature.ts";
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
  signer: () => BackupSigner;
  nowMs: number;
};

/** What is written into: an archive or a store. Files come in ascending order of their names. */
export type BackupSink = {
  layout: BackupDescription["layout"];
  /** Where the copy of the database is made. */
  snapshotPath: string;
  /** Adds a small file. */
  addText(name: string, text: string): void;
  /**
   * Adds a file that is open.
   *
   * @param recording what the file should be; undefined: it is not a recording
   * @returns its SHA-256
   * @throws UnreadableError, and nothing of the file is in the sink then; ChangedError for a recording that is not what it
   *   should be, where the newest backup has the right one
   */
  addFile(name: string, file: PlainFile, recording: Recording | undefined): Promise<string>;
  /** Adds the copy of a recording from the newest backup, whose file cannot be read. @returns whether there is one */
  addEarlier?(name: string, recording: Recording): boolean;
};
type PlainFile = NonNullable<ReturnType<typeof openPlainFile>>;

/** What a backup holds, and what it could not hold. */
export type BackupContents = {
  files: number;
  bytes: number;
  recordings: number;
  /** Recordings that were deleted while the backup was made. */
  deletedMeanwhile: number;
  /** Recordings that the database has and the disk has not. */
  missing: Names;
  /** Recordings and weights of models that cannot be read, with the reasons. */
  unreadable: Names;
  /** Recordings whose size or SHA-256 is not what the database has. */
  damaged: Names;
  /**
   * Missing, unreadable or damaged files that no earlier backup has intact. If there are any, the backup is incomplete.
   * Damaged recordings are in it as they are.
   */
  lacking: Names;
};

/** A number of things, and the first of them. */
export type Names = { count: number; first: string[] };
const MAX_NAMES = 20;

export const noNames = (): Names => ({ count: 0, first: [] });

/** Joins several lists of names. */
export function joinNames(...lists: Names[]): Names {
  return {
    count: lists.reduce((sum, { count }) => sum + count, 0),
    first: lists.flatMap(({ first }) => first).slice(0, MAX_NAMES),
  };
}

export function addName(names: Names, name: string): void {
  names.count += 1;
  if (names.first.length < MAX_NAMES) names.first.push(name);
}

/**
 * Writes everything: first a copy of the database, which is one moment, then the files that this copy refers to.
 * Recordings never change once they are complete. One that is deleted meanwhile is left out. What cannot be read is named,
 * and everything else is in the backup.
 */
export async function writeContents(request: BackupRequest, sink: BackupSink): Promise<BackupContents> {
  const contents: BackupContents = {
    ...{ files: 0, bytes: 0, recordings: 0, deletedMeanwhile: 0 },
    ...{ missing: noNames(), unreadable: noNames(), lacking: noNames(), damaged: noNames() },
  };
  // Before the keys of this machine are listed.
  request.signer();
  // The copy has the secrets that sign webhooks. SQLite gives its journal the mode of the database file.
  makePrivateFile(sink.snapshotPath);
  backupDatabase(request.database, sink.snapshotPath);
  noteMoment(sink.snapshotPath, request.nowMs);
  const snapshot = new SqliteDatabase(sink.snapshotPath, { readonly: true });
  try {
    const owner = ownerOfData(request.dataDir);
    const description = asUser(owner, () => descriptionOf(request, sink.layout));
    sink.addText(DESCRIPTION, `${JSON.stringify(description, null, 2)}\n`);
    contents.files += 1;
    const sources = sourcesOf(request, sink.snapshotPath, snapshot);
    const next = () => asUser(owner, () => sources.next().value);
    for (let source = next(); source; source = next()) await addSource(request, sink, source, contents);
    if (contents.lacking.count > 0) {
      sink.addText(WITHOUT, `${JSON.stringify(contents.lacking, null, 2)}\n`);
      contents.files += 1;
    }
  } finally {
    snapshot.close();
  }
  return contents;
}

/** Writes the list of a backup to an empty file. */
export function listWriter(descriptor: number) {
  const hasher = new Bun.CryptoHasher("sha256");
  let bytes = 0;
  return {
    /** Adds a file of the backup. */
    note(name: string, sha256: string): void {
      const line = Buffer.from(`${sha256}  ${name}\n`);
      writeWhole(descriptor, line);
      hasher.update(line);
      bytes += line.length;
    },
    /** Returns size and SHA-256 of the whole list. It is called once. */
    end: () => ({ bytes, sha256: hasher.digest("hex") }),
  };
}

/** Signs the list of a backup, which is whole. @returns the text of the signature; undefined where there is no key */
export function signList({ signer, nowMs }: BackupRequest, listSha256: string): string | undefined {
  const created = { format: 1 as const, created_at: toTimestamp(nowMs) };
  return signatureText(signer(), { object: "backup_signature", ...created, list_sha256: listSha256 });
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
  try {
    const file = openPlainFile(source.path);
    if (!file) {
      if (source.recording) noteAbsent(request, sink, source.recording, source.name, contents);
      return;
    }
    await addOpenFile(sink, source, file, contents).finally(() => closeSync(file.descriptor));
  } catch (error) {
    const { name, recording } = source;
    // Without database, config or keys it would not be a backup.
    if (!(error instanceof UnreadableError) || !(recording || isWeights(name))) throw error;
    if (error instanceof ChangedError && recording) addName(contents.damaged, recording.id);
    else addName(contents.unreadable, `${recording?.id ?? name} (${error.message})`);
    addEarlier(sink, name, recording, contents);
  }
}

async function addOpenFile(
  sink: BackupSink,
  { name, recording }: Source,
  file: PlainFile,
  contents: BackupContents,
): Promise<void> {
  const sha256 = await sink.addFile(name, file, recording);
  contents.files += 1;
  contents.bytes += file.facts.size;
  if (!recording) return;
  contents.recordings += 1;
  if (isRight(recording, file.facts.size, sha256)) return;
  addName(contents.damaged, recording.id);
  addName(contents.lacking, name);
}

/** Reports whether a file is the recording that was verified. */
export function isRight(recording: Recording, bytes: number, sha256: string): boolean {
  return recording.bytes === bytes && (recording.sha256 ?? sha256) === sha256;
}

/** Takes the copy of the newest backup, where there is one. */
function addEarlier(
  sink: BackupSink,
  name: string,
  recording: Recording | undefined,
  contents: BackupContents,
): void {
  if (!recording || !sink.addEarlier?.(name, recording)) {
    addName(contents.lacking, name);
    return;
  }
  contents.files += 1;
  contents.recordings += 1;
  contents.bytes += recording.bytes;
}

/** A recording without a file was deleted since the copy of the database was made, or is lost. */
function noteAbsent(
  { database }: BackupRequest,
  sink: BackupSink,
  recording: Recording,
  name: string,
  contents: BackupContents,
): void {
  const now = database.sqlite
    .query<{ deleted_at: number | null }, [string]>("SELECT deleted_at FROM uploads WHERE id = ?")
    .get(recording.id);
  if (!now || now.deleted_at !== null) {
    contents.deletedMeanwhile += 1;
    return;
  }
  addName(contents.missing, recording.id);
  addEarlier(sink, name, recording, contents);
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
