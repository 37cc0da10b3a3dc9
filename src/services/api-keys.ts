import { type Caller, SCOPES, type Scope } from "../domain/api-key.ts";
import { AppError } from "../domain/errors.ts";
import type { Clock } from "../lib/clock.ts";
import { newId } from "../lib/ids.ts";
import { startOf } from "../lib/secrets.ts";
import { equalsConstantTime, sha256Hex } from "../lib/sha256.ts";
import { toTimestamp } from "../lib/time.ts";
import {
  type ApiKeyRow,
  findApiKey,
  findKeyHolder,
  insertApiKey,
  type KeyHolder,
  listApiKeys,
  markApiKeyRevoked,
  markApiKeyUsed,
} from "../store/api-keys.ts";
import { recordAct } from "../store/audit-log.ts";
import { type Database, type Store, transaction } from "../store/database.ts";
import { findHeldKeys, type HeldKeys, isHeld, putHeldKeys } from "../store/held-keys.ts";
import { findProject, type ProjectRow } from "../store/projects.ts";
import { checkName } from "./accounts.ts";

export type ApiKeyServiceDeps = {
  database: Database;
  clock: Clock;
  /** Is called when a key is refused because a restore holds it back, once for each key. */
  onHeld?: (keyId: string) => void;
};

/** A key as an admin sees it: no hash, no public ID. */
export type ApiKey = Omit<ApiKeyRow, "hash" | "publicId"> & {
  organizationId: string;
  /** The beginning of the key, by which its owner recognises it. It holds no part of the secret. */
  hint: string;
  /** A restore holds it back: it is refused until an admin confirms it. */
  held: boolean;
};

const BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const PUBLIC_ID_LENGTH = 24;
/** 43 base62 characters carry 256 bits. */
const SECRET_LENGTH = 43;
const PREFIX = startOf("apiKey");
const KEY = new RegExp(`^${PREFIX}([0-9A-Za-z]{24})_[0-9A-Za-z]{49}$`);
const CHECKSUM_LENGTH = 6;

const MAX_CACHED = 10_000;
/** Longest time for which a change that another process made, and nothing announced, is not seen. */
const CACHED_MS = 1000;
const USED_EVERY_MS = 60_000;
/** How long uses are collected before they are written together. */
const FLUSH_AFTER_MS = 5000;

export type NewApiKey = {
  projectId: string;
  name: string;
  /** Left out: all scopes. */
  scopes?: readonly Scope[];
  /** Epoch milliseconds; left out: the key does not expire. */
  expiresAt?: number;
};

/**
 * Keys of projects (docs/decisions/keys.md). Admins create, list and revoke them; the server authenticates the
 * callers of requests with them. A change by another process is seen after a second, or after `forgetCached`.
 */
export type ApiKeyService = {
  /**
   * Creates a key. `key` of the answer is the only copy of its text.
   *
   * @throws AppError `not_found` for an unknown project, `invalid_request` (detail `name`, `scopes` or `expires`)
   */
  createKey(input: NewApiKey): ApiKey & { key: string };
  /** Lists keys, oldest first, including revoked and expired ones. @throws AppError `not_found` for the project */
  listKeys(filter?: { projectId?: string; organizationId?: string }): ApiKey[];
  /** Revokes a key: from now on it is refused. Revoking it again changes nothing. @throws AppError `not_found` */
  revokeKey(id: string): ApiKey;
  /**
   * Accepts keys again that a restore holds back.
   *
   * @param ids identifiers of keys; left out: all
   * @returns those that were held
   * @throws AppError `not_found` for an unknown key; nothing has changed then
   */
  confirmKeys(ids?: readonly string[]): ApiKey[];
  /**
   * Finds the caller that a request's `Authorization` field names, and notes the use of the key.
   *
   * @throws AppError `unauthorized` for a missing, unknown, revoked, expired or held key; `organization_disabled` for a
   *   valid key of a disabled organization
   */
  authenticate(authorizationHeader: string | undefined | null): Caller;
  /**
   * Returns the caller of a key that was recognised earlier, by the key's identifier.
   *
   * @throws AppError `unauthorized` for an unknown, revoked, expired or held key; `organization_disabled`
   */
  callerOf(keyId: string): Caller;
  /** Returns the organization's own limit of requests per second; null: the config's limit applies. */
  requestsPerSecondOf(caller: Caller): number | null;
  /** Reads every key again at its next use, because another process has written to the database. */
  forgetCached(): void;
  /** Writes the noted uses of keys to the database. */
  flush(): void;
  /** Writes the noted uses, drops those that the database does not take, and stops the timer. */
  close(): void;
};

export function createApiKeyService({ database, clock, onHeld }: ApiKeyServiceDeps): ApiKeyService {
  const { store } = database;
  const holders = openHolders(store);
  const uses = openUses(database);
  const reported = new Set<string>();

  /** @throws AppError `unauthorized` */
  function requireValid({ keyId, revokedAt, expiresAt, isHeld }: CachedHolder, nowMs: number): void {
    if (revokedAt !== null || (expiresAt !== null && expiresAt <= nowMs)) throw new AppError("unauthorized");
    if (!isHeld) return;
    if (!reported.has(keyId)) onHeld?.(keyId);
    reported.add(keyId);
    throw new AppError("unauthorized", { message: HELD_MESSAGE });
  }

  return {
    createKey: (input) => createKey(store, input, clock.now()),
    listKeys(filter = {}) {
      if (filter.projectId !== undefined) requireProject(store, filter.projectId);
      const held = findHeldKeys(store);
      return listApiKeys(store, filter).map((row) => toApiKey(row, held));
    },
    revokeKey(id) {
      const row = revokeKey(store, id, clock.now()) ?? findApiKey(store, id);
      if (!row) throw new AppError("not_found", { message: `There is no key ${id}.` });
      holders.forget(row.publicId);
      const organizationId = findProject(store, row.projectId)?.organizationId ?? "";
      return toApiKey({ ...row, organizationId }, findHeldKeys(store));
    },
    confirmKeys(ids) {
      const confirmed = confirmKeys(store, ids, clock.now());
      holders.forgetAll();
      return confirmed;
    },
    authenticate(authorizationHeader) {
      const nowMs = clock.now();
      const key = bearerOf(authorizationHeader);
      if (key === undefined) throw new AppError("unauthorized");
      const holder = recognise(holders, key, nowMs);
      requireValid(holder, nowMs);
      if (holder.organizationDisabledAt !== null) throw new AppError("organization_disabled");
      if (nowMs - (holder.lastUsedAt ?? 0) >= USED_EVERY_MS) {
        holder.lastUsedAt = nowMs;
        uses.note(holder.keyId, nowMs);
      }
      return holder.caller;
    },
    callerOf(keyId) {
      const row = findApiKey(store, keyId);
      const holder = row && holders.find(row.publicId, clock.now());
      if (!holder) throw new AppError("unauthorized");
      requireValid(holder, clock.now());
      if (holder.organizationDisabledAt !== null) throw new AppError("organization_disabled");
      return holder.caller;
    },
    requestsPerSecondOf: holders.rateOf,
    forgetCached: holders.forgetAll,
    flush: uses.flush,
    close: uses.close,
  };
}

function createKey(store: Store, input: NewApiKey, nowMs: number): ApiKey & { key: string } {
  const project = requireProject(store, input.projectId);
  if (input.expiresAt !== undefined && input.expiresAt <= nowMs) {
    throw new AppError("invalid_request", {
      message: "The expiry must be in the future.",
      detail: "expires",
    });
  }
  const key = newKey();
  const row = {
    id: newId("apiKey", nowMs),
    projectId: project.id,
    name: checkName(input.name),
    publicId: key.publicId,
    hash: sha256Hex(key.text),
    scopes: checkScopes(input.scopes ?? SCOPES),
    createdAt: nowMs,
    expiresAt: input.expiresAt ?? null,
  };
  const stored = transaction(store, (tx) => {
    const { organizationId } = project;
    const { id, name, scopes, expiresAt } = row;
    const expires_at = expiresAt === null ? null : toTimestamp(expiresAt);
    const after = { project_id: project.id, name, scopes: scopes.join(","), expires_at };
    recordAct(tx, { action: "key.create", object: id, organizationId, after }, nowMs);
    const held = findHeldKeys(tx);
    // A clock that was ahead has made keys of later times than this one.
    if (held && isHeld(held, row)) confirm(tx, held, [id], nowMs);
    return insertApiKey(tx, row);
  });
  return { ...toApiKey({ ...stored, organizationId: project.organizationId }), key: key.text };
}

function confirmKeys(store: Store, ids: readonly string[] | undefined, nowMs: number): ApiKey[] {
  return transaction(store, (tx) => {
    const keys = listApiKeys(tx);
    const unknown = ids?.find((id) => !keys.some((key) => key.id === id));
    if (unknown !== undefined) throw new AppError("not_found", { message: `There is no key ${unknown}.` });
    const held = findHeldKeys(tx);
    const waiting = keys.filter((key) => isHeld(held, key));
    const confirmed = waiting.filter(({ id }) => ids?.includes(id) ?? true);
    for (const { id, organizationId, name } of confirmed) {
      recordAct(tx, { action: "key.confirm", object: id, organizationId, after: { name } }, nowMs);
    }
    if (confirmed.length === waiting.length) putHeldKeys(tx, undefined, nowMs);
    else if (held)
      confirm(
        tx,
        held,
        confirmed.map(({ id }) => id),
        nowMs,
      );
    return confirmed.map((key) => toApiKey(key));
  });
}

function confirm(tx: Store, held: HeldKeys, ids: readonly string[], nowMs: number): void {
  putHeldKeys(tx, { ...held, confirmed: new Set([...held.confirmed, ...ids]) }, nowMs);
}

function revokeKey(store: Store, id: string, nowMs: number): ApiKeyRow | undefined {
  return transaction(store, (tx) => {
    const row = markApiKeyRevoked(tx, id, nowMs);
    if (!row) return undefined;
    const organizationId = findProject(tx, row.projectId)?.organizationId;
    const act = { action: "key.revoke", object: id, before: { name: row.name } } as const;
    recordAct(tx, organizationId === undefined ? act : { ...act, organizationId }, nowMs);
    return row;
  });
}

function requireProject(store: Store, id: string): ProjectRow {
  const project = findProject(store, id);
  if (!project) throw new AppError("not_found", { message: `There is no project ${id}.` });
  return project;
}

/** Finds the row of a key, whether it is valid or not. @throws AppError `unauthorized` */
function recognise(holders: Holders, key: string, nowMs: number): CachedHolder {
  const publicId = publicIdOf(key);
  const holder = publicId === undefined ? undefined : holders.find(publicId, nowMs);
  if (!holder || !equalsConstantTime(holder.hash, sha256Hex(key))) throw new AppError("unauthorized");
  return holder;
}

/** Only who has the whole key reads it. */
export const HELD_MESSAGE =
  "This key is held back since a backup was restored. An admin of the server can confirm it.";

type CachedHolder = KeyHolder & { caller: Caller; isHeld: boolean; readAtMs: number };
type Holders = ReturnType<typeof openHolders>;

/** Rows of keys with their project and organization, kept in memory for `CACHED_MS`. */
function openHolders(store: Store) {
  const cache = new Map<string, CachedHolder>();
  const rates = new WeakMap<Caller, number | null>();
  const held = openHeldKeys(store);
  return {
    find(publicId: string, nowMs: number): CachedHolder | undefined {
      const cached = cache.get(publicId);
      if (cached && nowMs - cached.readAtMs < CACHED_MS && nowMs >= cached.readAtMs) return cached;
      const holder = findKeyHolder(store, publicId);
      if (!holder) {
        cache.delete(publicId);
        return undefined;
      }
      if (cache.size >= MAX_CACHED) cache.clear();
      const { keyId, projectId, organizationId, scopes } = holder;
      const caller = { keyId, projectId, organizationId, scopes: new Set(scopes) };
      rates.set(caller, holder.requestsPerSecond);
      const key = { id: keyId, createdAt: holder.createdAt };
      const fresh = { ...holder, caller, isHeld: isHeld(held.find(nowMs), key), readAtMs: nowMs };
      cache.set(publicId, fresh);
      return fresh;
    },
    rateOf: (caller: Caller): number | null => rates.get(caller) ?? null,
    forget(publicId: string): void {
      cache.delete(publicId);
    },
    forgetAll(): void {
      cache.clear();
      held.forget();
    },
  };
}

/** What a restore holds back, kept in memory for `CACHED_MS`: it may name thousands of keys. */
function openHeldKeys(store: Store) {
  let kept: { held: HeldKeys | undefined; readAtMs: number } | undefined;
  return {
    find(nowMs: number): HeldKeys | undefined {
      if (!kept || nowMs - kept.readAtMs >= CACHED_MS || nowMs < kept.readAtMs)
        kept = { held: findHeldKeys(store), readAtMs: nowMs };
      return kept.held;
    },
    forget(): void {
      kept = undefined;
    },
  };
}

/** Collects times of last use and writes them in batches, so that no request waits for the disk. */
function openUses(database: Database) {
  const noted = new Map<string, number>();
  let timer: ReturnType<typeof setTimeout> | undefined;

  function flush(): void {
    clearTimeout(timer);
    timer = undefined;
    if (noted.size === 0) return;
    transaction(database.store, (tx) => {
      for (const [keyId, usedAt] of noted) markApiKeyUsed(tx, keyId, usedAt);
    });
    noted.clear();
  }

  /** Tries again later when the database is busy: no caller would catch an error of the timer. */
  function flushLater(): void {
    try {
      flush();
    } catch {
      schedule();
    }
  }

  /** A full disk must not keep the program from closing what comes after. */
  function close(): void {
    try {
      flush();
    } catch {
      noted.clear();
    }
  }

  function schedule(): void {
    timer ??= setTimeout(flushLater, FLUSH_AFTER_MS);
    timer.unref();
  }

  return {
    note(keyId: string, usedAt: number): void {
      noted.set(keyId, usedAt);
      schedule();
    },
    flush,
    close,
  };
}

/** The token of `Authorization: Bearer <token>` (RFC 6750); undefined where there is none of that form. */
export function bearerOf(header: string | undefined | null): string | undefined {
  return /^Bearer +(\S+)$/i.exec(header ?? "")?.[1];
}

/** Returns the public ID of a text that has a key's form and checksum; undefined for any other text. */
export function publicIdOf(key: string): string | undefined {
  const publicId = KEY.exec(key)?.[1];
  if (publicId === undefined) return undefined;
  const body = key.slice(0, -CHECKSUM_LENGTH);
  return key.endsWith(checksumOf(body)) ? publicId : undefined;
}

function newKey(): { publicId: string; text: string } {
  const publicId = randomBase62(PUBLIC_ID_LENGTH);
  const body = `${PREFIX}${publicId}_${randomBase62(SECRET_LENGTH)}`;
  return { publicId, text: body + checksumOf(body) };
}

/** Returns the CRC-32 (IEEE 802.3) of a key without its checksum: six base62 digits, most significant first. */
function checksumOf(body: string): string {
  let rest = Bun.hash.crc32(body);
  let digits = "";
  for (let index = 0; index < CHECKSUM_LENGTH; index++) {
    digits = BASE62.charAt(rest % 62) + digits;
    rest = Math.floor(rest / 62);
  }
  return digits;
}

/** Draws random characters, each of the 62 equally likely: bytes of 248 and more would favour some, and are left out. */
function randomBase62(length: number): string {
  let text = "";
  while (text.length < length) {
    for (const byte of crypto.getRandomValues(new Uint8Array(length))) {
      if (byte < 248 && text.length < length) text += BASE62.charAt(byte % 62);
    }
  }
  return text;
}

function checkScopes(scopes: readonly string[]): Scope[] {
  const unknown = scopes.find((scope) => !(SCOPES as readonly string[]).includes(scope));
  if (unknown !== undefined || scopes.length === 0) {
    const wrong = unknown === undefined ? "A key needs at least one scope" : `Unknown scope ${unknown}`;
    throw new AppError("invalid_request", {
      message: `${wrong}; there are ${SCOPES.join(", ")}.`,
      detail: "scopes",
    });
  }
  return SCOPES.filter((scope) => scopes.includes(scope));
}

function toApiKey(key: ApiKeyRow & { organizationId: string }, held?: HeldKeys): ApiKey {
  const { hash: _, publicId, ...row } = key;
  return { ...row, hint: `${PREFIX}${publicId.slice(0, 6)}…`, held: isHeld(held, row) };
}
