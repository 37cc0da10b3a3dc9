import { Database as SqliteDatabase } from "bun:sqlite";
import { createPublicKey } from "node:crypto";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { type Static, type TSchema, Type } from "@sinclair/typebox";
import { Value } from "@sinclair/typebox/value";
import { appendLinesNow, writeDurablyNow } from "../lib/durable-files.ts";
import { readRegularFile, statRegularFile } from "../lib/regular-file.ts";
import { sha256Hex } from "../lib/sha256.ts";
import { KeyError } from "../lib/signatures.ts";
import { toTimestamp } from "../lib/time.ts";
import { type AuditAnchor, auditHead, hasAuditEntry } from "../store/audit-log.ts";
import type { Store } from "../store/database.ts";
import { hasTable, rowsOnce } from "../store/once.ts";
import { findSetting, putSetting, putSettingIn, SETTING_NAMES } from "../store/settings.ts";
import { openApplianceKey, SIGNING_KEY_FILE } from "./signed/appliance-key.ts";
import { signDocument, verifyDocument } from "./signed/signed-documents.ts";

/**
 * Signed heads of the audit log. The log is chained by hash. A person who writes to the database can still remove its end,
 * or compute the whole chain again. A head says which entry was the newest at a moment. It is signed with the appliance's key
 * and lies in a file beside the database: each start of the server, each day and each backup adds one.
 */
export const AUDIT_HEADS_FILE = "audit-heads.jsonl";

/** Some 700 bytes are a line. A head proves all entries before it, so old lines may go. */
const MAX_FILE_BYTES = 1024 * 1024;
const KEPT_LINES = 500;

const HEAD = Type.Object({
  object: Type.Literal("audit_head"),
  created_at: Type.String({ maxLength: 40 }),
  reason: Type.Union([Type.Literal("start"), Type.Literal("day"), Type.Literal("backup")]),
  entry: Type.Integer({ minimum: 1 }),
  hash: Type.String({ pattern: "^[0-9a-f]{64}$" }),
});
/** Where the log of a restored database begins to count: heads up to the line `after` are of the database before. */
const BASE = Type.Object({
  object: Type.Literal("audit_base"),
  created_at: Type.String({ maxLength: 40 }),
  entry: Type.Integer({ minimum: 1 }),
  hash: Type.String({ pattern: "^[0-9a-f]{64}$" }),
  /** SHA-256 of the line. */
  after: Type.String({ pattern: "^[0-9a-f]{64}$" }),
});

/** A head whose signature is right. */
export type SignedHead = AuditAnchor & { createdAt: string };

export type SignedHeads = {
  /** They must all be in the log. */
  heads: SignedHead[];
  /** Lines of the file that this appliance has not signed. */
  foreign: number;
};

/**
 * Signs the head of the log and adds it to the file, unless the newest line there is the same.
 *
 * @returns the head; undefined for an empty log
 * @throws KeyError for a key that cannot be used; the system's error
 */
export function signAuditHead(
  store: Store,
  dataDir: string,
  reason: Static<typeof HEAD>["reason"],
  nowMs: number,
): AuditAnchor | undefined {
  const head = auditHead(store);
  if (head === undefined) return undefined;
  const path = join(dataDir, AUDIT_HEADS_FILE);
  const { lines, current, read } = openHeads(store, dataDir);
  const newest = newestIn(current, read);
  if (newest?.sequence === head.sequence && newest.hash === head.hash) return head;
  const { sequence: entry, hash } = head;
  const document: Static<typeof HEAD> = {
    ...{ object: "audit_head", created_at: toTimestamp(nowMs), reason, entry, hash },
  };
  const line = JSON.stringify(signDocument(document, openApplianceKey(dataDir)));
  if (existsSync(path) && statRegularFile(path).size > MAX_FILE_BYTES)
    writeDurablyNow(path, `${lines.slice(-KEPT_LINES).join("\n")}\n`, 0o600);
  appendLinesNow(path, [line]);
  // So that a copy of the database has it as well.
  putSetting(store, SETTING_NAMES.auditHead, line, nowMs);
  return head;
}

/** Signs the head after a backup. That is made already, so a key or a file that cannot be used does not fail it. */
export function signAuditHeadOfBackup(store: Store, dataDir: string, nowMs: number): void {
  try {
    signAuditHead(store, dataDir, "backup", nowMs);
  } catch {
    // The next start of the server tries again, and logs why it fails.
  }
}

/** Returns the lines that are not empty. The file is of this program, and a larger one is not. */
function linesOf(path: string): string[] {
  if (!existsSync(path)) return [];
  return readRegularFile(path, 2 * MAX_FILE_BYTES)
    .split("\n")
    .filter((line) => line !== "");
}

/** Reads what the appliance's key has signed; undefined for everything else. */
type ReadSigned = <T extends TSchema>(schema: T, text: unknown) => Static<T> | undefined;

function signedReader(dataDir: string): ReadSigned {
  // Here, no key is made.
  const hasKey = existsSync(join(dataDir, SIGNING_KEY_FILE));
  const key = hasKey ? unlessKeyError(() => createPublicKey(openApplianceKey(dataDir))) : undefined;
  return (schema, text) => {
    if (typeof text !== "string" || key === undefined) return undefined;
    const document = unlessKeyError(() => verifyDocument(text, key).document);
    return Value.Check(schema, document) ? document : undefined;
  };
}

function unlessKeyError<T>(work: () => T): T | undefined {
  try {
    return work();
  } catch (error) {
    if (error instanceof KeyError) return undefined;
    throw error;
  }
}

const toHead = ({ entry, hash, created_at }: Pick<Static<typeof HEAD>, "entry" | "hash" | "created_at">) => ({
  ...{ sequence: entry, hash, createdAt: created_at },
});

function newestIn(lines: readonly string[], read: ReadSigned): SignedHead | undefined {
  for (const line of lines.toReversed()) {
    const head = read(HEAD, line);
    if (head) return toHead(head);
  }
  return undefined;
}

/**
 * Reads all signed heads that the log must still have: those of the file since the last restore, where that restore began,
 * and the one in the database.
 */
export function readSignedHeads(store: Store, dataDir: string): SignedHeads {
  const { current, base, read } = openHeads(store, dataDir);
  const signed = current.map((line) => read(HEAD, line));
  const own = read(HEAD, findSetting(store, SETTING_NAMES.auditHead));
  const found = [base, own, ...signed].filter((head) => head !== undefined);
  // The newest is in the file and in the database.
  const heads = new Map(found.map((head) => [`${head.entry} ${head.hash}`, toHead(head)]));
  return { heads: [...heads.values()], foreign: signed.filter((head) => head === undefined).length };
}

/** Reads the file: all its lines, and the `current` ones, which came after the last restore, whose note is `base`. */
function openHeads(store: Store, dataDir: string) {
  const read = signedReader(dataDir);
  const lines = linesOf(join(dataDir, AUDIT_HEADS_FILE));
  const base = read(BASE, findSetting(store, SETTING_NAMES.auditBase));
  const last = base === undefined ? -1 : lines.findIndex((line) => sha256Hex(line) === base.after);
  return { lines, current: lines.slice(last + 1), base, read };
}

/** Reports whether the log still has the newest signed head. It costs one signature and one row. */
export function holdsNewestHead(store: Store, dataDir: string): boolean {
  const { current, base, read } = openHeads(store, dataDir);
  const newest = newestIn(current, read) ?? (base && toHead(base));
  return newest === undefined || hasAuditEntry(store, newest);
}

/**
 * Notes in a database that is about to be restored where its log ends, signed, so that heads of the database before are
 * not missed. It becomes true in the moment in which the database takes its place. Without heads there is nothing to note.
 *
 * @param copyPath the finished copy, of any version
 */
export function beginAuditHeads(copyPath: string, dataDir: string, nowMs: number): void {
  const last = linesOf(join(dataDir, AUDIT_HEADS_FILE)).at(-1);
  if (last === undefined || !existsSync(join(dataDir, SIGNING_KEY_FILE))) return;
  const sqlite = new SqliteDatabase(copyPath, { readwrite: true, create: false });
  try {
    if (!hasTable(sqlite, "audit_log") || !hasTable(sqlite, "settings")) return;
    const [head] = rowsOnce<AuditAnchor>(
      sqlite,
      "SELECT sequence, hash FROM audit_log ORDER BY sequence DESC LIMIT 1",
    );
    if (!head) return;
    const document: Static<typeof BASE> = {
      ...{ object: "audit_base", created_at: toTimestamp(nowMs), entry: head.sequence, hash: head.hash },
      after: sha256Hex(last),
    };
    const signed = JSON.stringify(signDocument(document, openApplianceKey(dataDir)));
    putSettingIn(sqlite, SETTING_NAMES.auditBase, signed, nowMs);
  } catch (error) {
    // A restore must not fail because of a key. `audit verify` then misses the heads of the database before.
    if (!(error instanceof KeyError)) throw error;
  } finally {
    sqlite.close();
  }
}
