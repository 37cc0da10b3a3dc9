import { type Caller, SCOPES, type Scope } from "../domain/api-key.ts";
import { AppError } from "../domain/errors.ts";
import type { Clock } from "../lib/clock.ts";
import { newId } from "../lib/ids.ts";
import { equalsConstantTime, sha256Hex } from "../lib/sha256.ts";
import {
  type ApiKeyRow,
  findApiKey,
  insertApiKey,
  type KeyHolder,
  listApiKeys,
  markApiKeyRevoked,
  markApiKeyUsed,
  prepareKeyHolder,
} from "../store/api-keys.ts";
import { type Database, transaction } from "../store/database.ts";
import { findProject } from "../store/projects.ts";
import { checkName } from "./accounts.ts";

export type ApiKeyServiceDeps = { database: Database; clock: Clock };
export type ApiKeyService = ReturnType<typeof createApiKeyService>;

/** A key as an admin sees it: no hash, no public ID. */
export type ApiKey = Omit<ApiKeyRow, "hash" | "publicId"> & {
  organizationId: string;
  /** Enough of the key to recognise it, none of its secret. */
  hint: string;
};

const BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const PUBLIC_ID_LENGTH = 24;
/** 43 base62 characters carry 256 bits. */
const SECRET_LENGTH = 43;
const KEY = /^shr_([0-9A-Za-z]{24})_[0-9A-Za-z]{49}$/;
const CHECKSUM_LENGTH = 6;

const MAX_CACHED = 10_000;
/** The longest that a change nobody announced stays unseen. */
const CACHED_MS = 1000;
const USED_EVERY_MS = 60_000;
/** Uses are collected for so long before they are written together. */
const FLUSH_AFTER_MS = 5000;

/** Keys of projects: making, listing, revoking, and recognising their bearers (docs/decisions.md section 3). */
export function createApiKeyService({ database, clock }: ApiKeyServiceDeps) {
  const { store } = database;
  const findHolder = prepareKeyHolder(store);
  type Cached = KeyHolder & { caller: Caller; readAtMs: number };
  const cache = new Map<string, Cached>();
  const rates = new WeakMap<Caller, number | null>();
  const uses = openUses(database);

  function holderOf(publicId: string, nowMs: number): Cached | undefined {
    const cached = cache.get(publicId);
    if (cached && nowMs - cached.readAtMs < CACHED_MS && nowMs >= cached.readAtMs) return cached;
    const holder = findHolder(publicId);
    if (!holder) {
      cache.delete(publicId);
      return undefined;
    }
    if (cache.size >= MAX_CACHED) cache.clear();
    const { keyId, projectId, organizationId, scopes } = holder;
    const caller = { keyId, projectId, organizationId, scopes: new Set(scopes) };
    rates.set(caller, holder.requestsPerSecond);
    const fresh = { ...holder, caller, readAtMs: nowMs };
    cache.set(publicId, fresh);
    return fresh;
  }

  /** The valid key's row, organization switched off or not. */
  function recognise(key: string, nowMs: number): Cached {
    const publicId = publicIdOf(key);
    const holder = publicId === undefined ? undefined : holderOf(publicId, nowMs);
    if (!holder || !equalsConstantTime(holder.hash, sha256Hex(key))) throw new AppError("unauthorized");
    if (holder.revokedAt !== null || (holder.expiresAt !== null && holder.expiresAt <= nowMs)) {
      throw new AppError("unauthorized");
    }
    return holder;
  }

  return {
    /**
     * A new key for a project; `key` is the only copy of it there will ever be.
     *
     * @param input `scopes` default to all; `expiresAt` epoch milliseconds
     * @throws AppError `not_found` for an unknown project, `invalid_request`
     */
    createKey(input: {
      projectId: string;
      name: string;
      scopes?: readonly Scope[];
      expiresAt?: number;
    }): ApiKey & { key: string } {
      const nowMs = clock.now();
      const project = findProject(store, input.projectId);
      if (!project) throw new AppError("not_found", { message: `There is no project ${input.projectId}.` });
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
      const stored = transaction(store, (tx) => insertApiKey(tx, row));
      return { ...toApiKey({ ...stored, organizationId: project.organizationId }), key: key.text };
    },

    /** Oldest first, revoked and expired ones included. */
    listKeys(filter: { projectId?: string; organizationId?: string } = {}): ApiKey[] {
      if (filter.projectId !== undefined && !findProject(store, filter.projectId)) {
        throw new AppError("not_found", { message: `There is no project ${filter.projectId}.` });
      }
      return listApiKeys(store, filter).map(toApiKey);
    },

    /** From now on the key is refused; revoking twice changes nothing. @throws AppError `not_found` */
    revokeKey(id: string): ApiKey {
      const row = transaction(store, (tx) => markApiKeyRevoked(tx, id, clock.now())) ?? findApiKey(store, id);
      if (!row) throw new AppError("not_found", { message: `There is no key ${id}.` });
      cache.delete(row.publicId);
      const organizationId = findProject(store, row.projectId)?.organizationId ?? "";
      return toApiKey({ ...row, organizationId });
    },

    /**
     * Who sent a request.
     *
     * @param authorizationHeader the `Authorization` field, as received
     * @throws AppError `unauthorized`; `organization_disabled` for a valid key
     */
    authenticate(authorizationHeader: string | undefined | null): Caller {
      const nowMs = clock.now();
      const key = bearerOf(authorizationHeader);
      if (key === undefined) throw new AppError("unauthorized");
      const holder = recognise(key, nowMs);
      if (holder.organizationDisabledAt !== null) throw new AppError("organization_disabled");
      if (nowMs - (holder.lastUsedAt ?? 0) >= USED_EVERY_MS) {
        holder.lastUsedAt = nowMs;
        uses.note(holder.keyId, nowMs);
      }
      return holder.caller;
    },

    /** The request rate that a caller's organization was given of its own; null: the config's. */
    requestsPerSecondOf: (caller: Caller): number | null => rates.get(caller) ?? null,

    /** Reads everything anew, because somebody else wrote to the database. */
    forgetCached(): void {
      cache.clear();
    },
    /** Writes the uses noted so far. */
    flush: () => uses.flush(),
    /** Writes the uses noted so far, where the store takes them, and stops the timer. */
    close: uses.close,
  };
}

/** Times of last use, written in batches so that no request waits for the disk. */
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

  /** From the timer nobody could catch a busy database; the uses stay noted for the next round. */
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

/** The public ID of a text that has a key's form and checksum; undefined for anything else. */
export function publicIdOf(key: string): string | undefined {
  const publicId = KEY.exec(key)?.[1];
  if (publicId === undefined) return undefined;
  const body = key.slice(0, -CHECKSUM_LENGTH);
  return key.endsWith(checksumOf(body)) ? publicId : undefined;
}

function newKey(): { publicId: string; text: string } {
  const publicId = randomBase62(PUBLIC_ID_LENGTH);
  const body = `shr_${publicId}_${randomBase62(SECRET_LENGTH)}`;
  return { publicId, text: body + checksumOf(body) };
}

/** CRC-32 (IEEE 802.3) of everything before it, six base62 digits, most significant first. */
function checksumOf(body: string): string {
  let rest = Bun.hash.crc32(body);
  let digits = "";
  for (let index = 0; index < CHECKSUM_LENGTH; index++) {
    digits = BASE62.charAt(rest % 62) + digits;
    rest = Math.floor(rest / 62);
  }
  return digits;
}

/** Random characters, each of the 62 equally likely: bytes from 248 up, which would favour some, are drawn again. */
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
    throw new AppError("invalid_request", {
      message: `Unknown scope ${unknown ?? "(none)"}; there are ${SCOPES.join(", ")}.`,
      detail: "scopes",
    });
  }
  return SCOPES.filter((scope) => scopes.includes(scope));
}

function toApiKey({ hash: _, publicId, ...row }: ApiKeyRow & { organizationId: string }): ApiKey {
  return { ...row, hint: `shr_${publicId.slice(0, 6)}…` };
}
