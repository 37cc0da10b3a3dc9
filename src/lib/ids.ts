import { join } from "node:path";
import { monotonicFactory } from "ulid";

/** Every kind of identifier the program hands out (docs/decisions.md section 1). */
export const ID_PREFIXES = {
  transcription: "tr",
  upload: "up",
  webhookEndpoint: "whe",
  event: "evt",
  usageEvent: "ue",
  organization: "org",
  project: "prj",
  apiKey: "key",
  request: "req",
} as const;

export type IdKind = keyof typeof ID_PREFIXES;

/**
 * How far the time in an identifier can be ahead of the time it was made at: a clock that steps back by more makes
 * identifiers follow it.
 */
export const MAX_ID_AHEAD_MS = 60_000;

let ulid = monotonicFactory();
let newestMs = 0;

/**
 * A new identifier: prefix, `_`, 26-character ULID. Later calls of this process sort after earlier ones,
 * also when the clock steps back by up to a minute.
 *
 * @throws RangeError when `nowMs` is no time
 */
export function newId(kind: IdKind, nowMs: number): string {
  if (!Number.isFinite(nowMs)) throw new RangeError(`no time: ${nowMs}`);
  if (nowMs < newestMs - MAX_ID_AHEAD_MS) {
    ulid = monotonicFactory();
    newestMs = nowMs;
  }
  // The library takes a time of zero for none, and then the system's.
  newestMs = Math.max(newestMs, nowMs, 1);
  return `${ID_PREFIXES[kind]}_${ulid(newestMs)}`;
}

/** Whether a text has the form of an identifier of this kind; says nothing about its existence. */
export function isId(kind: IdKind, text: string): boolean {
  const prefix = `${ID_PREFIXES[kind]}_`;
  return text.startsWith(prefix) && /^[0-7][0-9A-HJKMNP-TV-Z]{25}$/.test(text.slice(prefix.length));
}

/**
 * The path of what lies in a folder under an identifier: the only way from one to the other. A row may have come out
 * of a damaged or forged database, and an identifier with a slash would name a file elsewhere.
 *
 * @throws Error for a text of any other form
 */
export function pathOfId(folder: string, kind: IdKind, id: string): string {
  if (!isId(kind, id))
    throw new Error(`${JSON.stringify(id).slice(0, 80)} is no identifier of this kind: ${kind}`);
  return join(folder, id);
}
