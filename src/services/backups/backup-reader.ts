import { closeSync, existsSync, fstatSync, readdirSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import { MAX_DIFFERENCE_MS } from "../../domain/clock-trust.ts";
import { AppError } from "../../domain/errors.ts";
import { type Checksum, parseChecksum } from "../../lib/checksums.ts";
import { openRegularFile } from "../../lib/regular-file.ts";
import { asOwnerOf } from "../../lib/rights.ts";
import { fromFileStamp, toFileStamp } from "../../lib/time.ts";
import {
  hashNow,
  linesOf,
  openPlainFile,
  type Region,
  readRegion,
  readWhole,
  ShortFileError,
} from "./backup-bytes.ts";
import {
  type BackupDescription,
  BackupError,
  DESCRIPTION,
  isBackupName,
  LIST,
  MAX_DESCRIPTION_BYTES,
  MAX_LINE_BYTES,
  MAX_SIGNATURE_BYTES,
  parseDescription,
  SIGNATURE,
  STORE_BACKUPS,
  STORE_OBJECTS,
} from "./backup-format.ts";
import {
  type BackupSignature,
  changedSinceSigned,
  type KnownKeys,
  readSignature,
  SIGNED_LIST,
} from "./backup-signature.ts";
import { isArchive, type TarEntry, tarEntries } from "./backup-tar.ts";

/** A file of a backup. */
export type BackupFile = {
  name: string;
  sha256: string;
  bytes: number;
  /**
   * Reads the file to its end and compares it with its SHA-256.
   *
   * @throws BackupError when it is damaged
   */
  read(use?: (block: Uint8Array) => void): Promise<void>;
};

/** One open backup of any form (backup-format.ts). */
export type BackupReader = {
  /** Absolute path. */
  path: string;
  description: BackupDescription;
  /**
   * Iterates over the files in ascending order of their names. Memory does not grow with their number.
   *
   * @throws BackupError where the list and the files differ, or a name is not one of a backup; at the end, when the list is
   *   not the one any more that was signed
   */
  files(): Generator<BackupFile>;
  /** Finds out who has signed the list. @throws BackupError for a wrong signature, and any other key than a demanded one */
  signature(keys: KnownKeys): BackupSignature;
  close(): void;
};

/** What a path holds. `other` includes a copy of the database alone. */
export type BackupKind = "archive" | "folder" | "store" | "other";

/** @throws AppError `not_found` when there is nothing; the system's error */
export function kindOfBackup(path: string): BackupKind {
  const facts = statSync(path, { throwIfNoEntry: false });
  if (!facts) throw new AppError("not_found", { message: `There is no file ${path}.` });
  if (facts.isDirectory()) {
    if (existsSync(join(path, DESCRIPTION))) return "folder";
    return existsSync(join(path, STORE_BACKUPS)) ? "store" : "other";
  }
  if (!facts.isFile()) return "other";
  const descriptor = openRegularFile(path);
  try {
    return isArchive(descriptor, facts.size) ? "archive" : "other";
  } finally {
    closeSync(descriptor);
  }
}

/**
 * Explains what cannot even be a copy of the database alone.
 *
 * @param path of the kind `other`
 * @throws BackupError for a folder without a backup, and for a file that another program has packed
 */
export function refuseOther(path: string): void {
  if (statSync(path).isDirectory())
    throw new BackupError(
      `it is a folder without a backup: it has neither ${DESCRIPTION} nor ${STORE_BACKUPS}/`,
    );
  const descriptor = openRegularFile(path);
  try {
    const { size } = fstatSync(descriptor);
    const first = Buffer.from(readWhole({ descriptor, offset: 0, bytes: Math.min(size, 4) })).toString("hex");
    const [, program] = PACKED.find(([begin]) => first.startsWith(begin)) ?? [];
    if (program !== undefined) throw new BackupError(`it is packed by ${program}: unpack it first`);
  } finally {
    closeSync(descriptor);
  }
}

/** How packed files begin, in hex. */
const PACKED = [
  ["1f8b", "gzip"],
  ["28b52ffd", "zstd"],
  ["fd377a58", "xz"],
  ["504b0304", "zip"],
  ["425a68", "bzip2"],
] as const;

/**
 * Returns the names of the complete backups of a store, oldest first. Those from the future were made under a clock that was
 * ahead, so they come before all that were made under a right one: pruning must not prefer them to the present backup.
 */
export function backupsIn(store: string, nowMs = Date.now()): string[] {
  const folder = join(store, STORE_BACKUPS);
  if (!existsSync(folder)) return [];
  const newest = toFileStamp(nowMs + MAX_DIFFERENCE_MS);
  const isAhead = (name: string) => name > newest;
  return readdirSync(folder)
    .filter((name) => fromFileStamp(name) !== undefined)
    .sort((one, other) => Number(isAhead(other)) - Number(isAhead(one)) || (one < other ? -1 : 1));
}

/**
 * Opens a backup; of a store, the newest.
 *
 * @throws BackupError when it is none; AppError `not_found`
 */
export function openBackup(given: string): BackupReader {
  const path = resolve(given);
  const kind = kindOfBackup(path);
  if (kind === "archive") return openArchive(path);
  if (kind === "folder") return openFolder(path);
  if (kind === "other") throw new BackupError("it is not a backup of everything");
  const newest = backupsIn(path).at(-1);
  if (newest === undefined) throw new BackupError("it holds no complete backup");
  return openFolder(join(path, STORE_BACKUPS, newest));
}

function openArchive(path: string): BackupReader {
  const descriptor = openRegularFile(path);
  try {
    const { size } = fstatSync(descriptor);
    const { list, description, signature: sealed } = partsOf(descriptor, size);
    const { listed, signature } = signedList(list, sealed && readText(sealed));
    return {
      path,
      description: describe(description),
      signature,
      *files() {
        const entries = tarEntries(descriptor, size);
        for (const { name, sha256 } of listed(list)) {
          const entry = entries.next().value;
          if (!entry || entry.name !== name) throw differs(name, entry?.name);
          yield backupFile(name, sha256, entry);
        }
        const last = entries.next().value;
        if (last?.name !== LIST) throw differs(LIST, last?.name);
      },
      close: () => closeSync(descriptor),
    };
  } catch (error) {
    closeSync(descriptor);
    throw error;
  }
}

/** Finds the list of an archive, and what belongs to it. */
function partsOf(descriptor: number, size: number) {
  const found = new Map<string, TarEntry>();
  for (const entry of tarEntries(descriptor, size)) {
    const isLate = found.has(SIGNATURE) || (found.has(LIST) && entry.name !== SIGNATURE);
    if (isLate) throw new BackupError(`${JSON.stringify(entry.name)} comes after ${LIST}`);
    if ([LIST, DESCRIPTION, SIGNATURE].includes(entry.name) && !found.has(entry.name))
      found.set(entry.name, entry);
  }
  const [list, description, signature] = [LIST, DESCRIPTION, SIGNATURE].map((name) => found.get(name));
  if (!list || !description) throw new BackupError(`it lacks ${LIST} or ${DESCRIPTION}`);
  return { list, description, signature };
}

const differs = (wanted: string, found: string | undefined) =>
  new BackupError(`${LIST} has ${wanted} where the archive has ${JSON.stringify(found ?? "its end")}`);

function openFolder(path: string): BackupReader {
  const description = withFile(join(path, DESCRIPTION), describe);
  const objects = join(path, "../..", STORE_OBJECTS);
  // An admin may have made a plain folder of a backup in a store.
  const pathOf = (name: string, sha256: string) =>
    description.layout === "files" || asOwnerOf(path, () => existsSync(join(path, name)))
      ? join(path, name)
      : objectPath(objects, sha256);
  const listPath = join(path, LIST);
  const signaturePath = join(path, SIGNATURE);
  const { listed, signature } = withFile(listPath, (region) =>
    signedList(region, existsSync(signaturePath) ? withFile(signaturePath, readText) : undefined),
  );
  return {
    path,
    description,
    signature,
    *files() {
      const list = openPlainFile(listPath);
      if (!list) throw new BackupError(`it lacks ${LIST}`);
      try {
        const region = { descriptor: list.descriptor, offset: 0, bytes: list.facts.size };
        for (const { name, sha256 } of listed(region)) yield storedFile(name, sha256, pathOf(name, sha256));
      } finally {
        closeSync(list.descriptor);
      }
    },
    close() {},
  };
}

/** Returns the path of an object of a store. */
export function objectPath(objects: string, sha256: string): string {
  return join(objects, sha256.slice(0, 2), sha256);
}

function storedFile(name: string, sha256: string, path: string): BackupFile {
  const found = openPlainFile(path);
  if (!found) throw new BackupError(`${name} is missing: there is no file ${path}`);
  const bytes = found.facts.size;
  closeSync(found.descriptor);
  const read: BackupFile["read"] = (use) =>
    withFile(path, (region) => backupFile(name, sha256, { ...region, bytes }).read(use));
  return { name, sha256, bytes, read };
}

function withFile<T>(path: string, work: (region: Region) => T): T {
  const file = openPlainFile(path);
  if (!file) throw new BackupError(`there is no file ${path}`);
  const close = () => closeSync(file.descriptor);
  try {
    const outcome = work({ descriptor: file.descriptor, offset: 0, bytes: file.facts.size });
    if (outcome instanceof Promise) return outcome.finally(close) as T;
    close();
    return outcome;
  } catch (error) {
    close();
    throw error;
  }
}

function backupFile(name: string, sha256: string, region: Region): BackupFile {
  const { bytes } = region;
  const read: BackupFile["read"] = async (use) => {
    const hasher = new Bun.CryptoHasher("sha256");
    try {
      await readRegion(region, (block) => {
        hasher.update(block);
        use?.(block);
      });
    } catch (error) {
      if (error instanceof ShortFileError) throw new BackupError(`${name} is damaged: it is too short`);
      throw error;
    }
    if (hasher.digest("hex") !== sha256) throw new BackupError(`${name} is damaged: its SHA-256 is another`);
  };
  return { name, sha256, bytes, read };
}

function describe(region: Region): BackupDescription {
  if (region.bytes > MAX_DESCRIPTION_BYTES) throw new BackupError(`its ${DESCRIPTION} is too large`);
  return parseDescription(readWhole(region));
}

function readText(region: Region): string {
  if (region.bytes > MAX_SIGNATURE_BYTES) throw new BackupError(`its ${SIGNATURE} is too large`);
  return Buffer.from(readWhole(region)).toString();
}

/** The list of a backup with its signature. What is read of the list must be what was signed, also the second time. */
function signedList(region: Region, text: string | undefined) {
  const sha256 = hashNow(region);
  return {
    signature(keys: KnownKeys): BackupSignature {
      const { statement, signature } = readSignature(text, SIGNED_LIST, keys);
      if (statement && statement.list_sha256 !== sha256) throw changedSinceSigned();
      return signature;
    },
    *listed(again: Region): Generator<Checksum> {
      const hasher = new Bun.CryptoHasher("sha256");
      yield* listed(again, (block) => void hasher.update(block));
      if (hasher.digest("hex") !== sha256) throw new BackupError(`its ${LIST} changed while it was read`);
    },
  };
}

/** Reads the list. Ascending names also mean that no file comes twice. */
function* listed(region: Region, see: (block: Uint8Array) => void): Generator<Checksum> {
  let previous = "";
  for (const line of checkedLines(region, see)) {
    const checksum = parseChecksum(line);
    if (!checksum || !isBackupName(checksum.name)) {
      throw new BackupError(`its ${LIST} has an unusable line: ${JSON.stringify(line.slice(0, 200))}`);
    }
    const { name } = checksum;
    if (name <= previous) throw new BackupError(`its ${LIST} is not in order at ${name}`);
    previous = name;
    yield checksum;
  }
}

function* checkedLines(region: Region, see: (block: Uint8Array) => void): Generator<string> {
  try {
    yield* linesOf(region, MAX_LINE_BYTES, see);
  } catch (error) {
    throw error instanceof BackupError ? error : new BackupError(`its ${LIST} is damaged`);
  }
}
