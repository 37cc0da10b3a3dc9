import { type Dirent, existsSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import type { Config } from "../config/schema.ts";
import { freeBytesOf } from "../lib/disk-space.ts";
import { modelDirectoryOf } from "./models/model-registry.ts";

/** What a part of the data directory is for. */
export type StorageKind =
  | "database"
  | "earlier databases"
  | "recordings"
  | "models"
  | "work"
  | "program"
  | "ballast"
  | "other";
export type StorageUse = { kind: StorageKind; path: string; files: number; bytes: number };

/** Folders and files of the data directory by what they are for. The first that fits counts. */
const KINDS: readonly [pattern: RegExp, kind: StorageKind][] = [
  [/^shruti\.db(-wal|-shm|-journal)?$/, "database"],
  [/^shruti\.db\./, "earlier databases"],
  [/^uploads$/, "recordings"],
  [/^(work|incoming)$/, "work"],
  [/^(native|embedded-models|backends)$/, "program"],
  [/^models$/, "models"],
  [/^ballast$/, "ballast"],
];

/** Measures the parts of a data directory, and the directory of models where it is elsewhere. */
export function measureStorage(config: Config, dataDir: string): { uses: StorageUse[]; freeBytes: number } {
  const uses = new Map<StorageKind, StorageUse>();
  const add = (kind: StorageKind, path: string, { files, bytes }: Size) => {
    const use = uses.get(kind) ?? { kind, path, files: 0, bytes: 0 };
    uses.set(kind, {
      kind,
      path: use.path === path ? path : placeOf(kind, dataDir),
      files: use.files + files,
      bytes: use.bytes + bytes,
    });
  };
  for (const entry of readdirSync(dataDir, { withFileTypes: true })) {
    const kind = KINDS.find(([pattern]) => pattern.test(entry.name))?.[1] ?? "other";
    const path = join(dataDir, entry.name);
    add(kind, kind === "other" ? dataDir : path, sizeOf(path, entry));
  }
  const models = modelDirectoryOf(config, dataDir);
  if (models !== join(dataDir, "models") && existsSync(models)) add("models", models, sizeOfFolder(models));
  return { uses: [...uses.values()].sort((a, b) => b.bytes - a.bytes), freeBytes: freeBytesOf(dataDir) };
}

/** The place of a kind that is in several files or folders. The database has its log and its index beside it. */
const placeOf = (kind: StorageKind, dataDir: string) =>
  kind === "database" ? join(dataDir, "shruti.db") : dataDir;

type Size = { files: number; bytes: number };

function sizeOf(path: string, entry: Dirent): Size {
  if (entry.isDirectory()) return sizeOfFolder(path);
  // Files come and go beside a running server.
  const facts = entry.isFile() ? statSync(path, { throwIfNoEntry: false }) : undefined;
  return { files: facts ? 1 : 0, bytes: facts?.size ?? 0 };
}

function sizeOfFolder(folder: string): Size {
  const total = { files: 0, bytes: 0 };
  for (const entry of readEntries(folder)) {
    const { files, bytes } = sizeOf(join(folder, entry.name), entry);
    total.files += files;
    total.bytes += bytes;
  }
  return total;
}

function readEntries(folder: string): Dirent[] {
  try {
    return readdirSync(folder, { withFileTypes: true });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
    throw error;
  }
}
