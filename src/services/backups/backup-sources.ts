import type { Database as SqliteDatabase } from "bun:sqlite";
import { existsSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import type { Config } from "../../config/schema.ts";
import { readRegularFile } from "../../lib/regular-file.ts";
import { audioFilePath } from "../../store/audio-files.ts";
import { createModelScanner } from "../models/model-files.ts";
import { modelDirectoryOf } from "../models/model-registry.ts";
import {
  CONFIG,
  DATABASE,
  FLEET,
  isBackupName,
  isWeights,
  MODELS,
  type ModelReference,
  SIGNING_KEY,
  UPLOADS,
} from "./backup-format.ts";
import { withoutSecrets } from "./config-secrets.ts";

/** A file that goes into a backup. */
export type Source = { name: string; recording?: Recording } & ({ path: string } | { text: string });
/** What the database says about a recording; null: it does not know the SHA-256. */
export type Recording = { id: string; bytes: number; sha256: string | null };

export type SourceOptions = {
  config: Config;
  configPath: string | undefined;
  dataDir: string;
  weights: boolean;
  secrets: boolean;
};

const MAX_CONFIG_BYTES = 1024 * 1024;
const PAGE = 1000;

/** Iterates over the files besides the description, in ascending order of their names. */
export function* sourcesOf(
  options: SourceOptions,
  snapshotPath: string,
  snapshot: SqliteDatabase,
): Generator<Source> {
  const { config, configPath, dataDir } = options;
  const keys = options.secrets ? keyFilesIn(dataDir) : [];
  const toSource = (name: string) => ({ name, path: join(dataDir, name) });
  yield* keys.filter((name) => name !== SIGNING_KEY).map(toSource);
  yield* modelFiles(modelDirectoryOf(config, dataDir), options.weights);
  yield { name: DATABASE, path: snapshotPath };
  if (configPath !== undefined) {
    const text = readConfigText(configPath);
    yield { name: CONFIG, text: options.secrets ? text : withoutSecrets(text) };
  }
  yield* keys.filter((name) => name === SIGNING_KEY).map(toSource);
  for (const recording of recordingsIn(snapshot)) {
    yield { name: `${UPLOADS}${recording.id}`, path: audioFilePath(dataDir, recording.id), recording };
  }
}

/** Reads the text of a config file. */
export function readConfigText(path: string): string {
  return readRegularFile(path, MAX_CONFIG_BYTES);
}

function* modelFiles(directory: string, weights: boolean): Generator<Source> {
  const names = filesIn(directory).flatMap(({ name, isFolder }) =>
    isFolder ? filesIn(join(directory, name)).map((file) => `${name}/${file.name}`) : [name],
  );
  for (const name of names.sort()) {
    const full = `${MODELS}${name}`;
    if (isBackupName(full) && (weights || !isWeights(full)))
      yield { name: full, path: join(directory, name) };
  }
}

function filesIn(directory: string): { name: string; isFolder: boolean }[] {
  if (!existsSync(directory)) return [];
  return readdirSync(directory, { withFileTypes: true })
    .filter((entry) => entry.isFile() || entry.isDirectory())
    .map((entry) => ({ name: entry.name, isFolder: entry.isDirectory() }));
}

/**
 * Iterates over the recordings that a copy of the database refers to, page by page. The copy may be of any version. An
 * upload that still waits for bytes has none: after a restore its client sends them again.
 */
export function* recordingsIn(snapshot: SqliteDatabase): Generator<Recording> {
  // Before its verification an upload only has the SHA-256 that its client promised.
  const query = snapshot.query<Recording, [string, number]>(
    `SELECT id, bytes, CASE state WHEN 'complete' THEN ${knownHash(snapshot)} END AS sha256 FROM uploads
     WHERE id > ? AND state IN ('verifying', 'complete') AND deleted_at IS NULL ORDER BY id LIMIT ?`,
  );
  let after = "";
  for (;;) {
    const page = query.all(after, PAGE);
    yield* page;
    const last = page.at(-1);
    if (page.length < PAGE || !last) return;
    after = last.id;
  }
}

/** Returns the SQL for the SHA-256 of a complete upload. Older versions kept only those that clients gave. */
function knownHash(snapshot: SqliteDatabase): string {
  const column = snapshot
    .query("SELECT 1 FROM pragma_table_info('uploads') WHERE name = 'stored_sha256'")
    .get();
  return column === null ? "sha256" : "coalesce(stored_sha256, sha256)";
}

/** Lists the installed models, for a backup without their weights. */
export function modelsIn(directory: string): ModelReference[] {
  return createModelScanner(directory)().models.map(({ id, name, version, sha256, source }) => ({
    ...{ id, name, version, sha256, source },
  }));
}

/** Lists the keys and certificates of a fleet and the key that signs receipts, by their paths in the data directory. */
export function keyFilesIn(dataDir: string): string[] {
  const ofFleet = filesIn(join(dataDir, FLEET))
    .filter(({ isFolder }) => !isFolder)
    .map(({ name }) => FLEET + name)
    .filter(isBackupName)
    .sort();
  return existsSync(join(dataDir, SIGNING_KEY)) ? [...ofFleet, SIGNING_KEY] : ofFleet;
}

/** Lists the GPU backends of a data directory. */
export function backendsIn(dataDir: string): string[] {
  const folder = join(dataDir, "backends");
  if (!statSync(folder, { throwIfNoEntry: false })?.isDirectory()) return [];
  return readdirSync(folder)
    .filter((name) => name.endsWith(".so"))
    .sort()
    .slice(0, 100);
}
