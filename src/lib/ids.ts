import { join } from "node:path";
import { encodeTime, monotonicFactory } from "ulid";

/** The kinds of identifiers (docs/decisions/conventions.md). */
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
  receipt: "rcp",
} as const;

export type IdKind = keyof typeof ID_PREFIXES;

/**
 * How far the time in an identifier can be ahead of the clock, milliseconds. When the clock steps back by more, new
 * identifiers follow it.
 */
export const MAX_ID_AHEAD_MS = 60_000;

let ulid = monotonicFactory();
let newestMs = 0;

/**
 * Makes an identifier: prefix, `_`, 26-character ULID. It sorts after the earlier ones of this process, even when the
 * clock steps back by up to a minute.
 *
 * @throws RangeError when `nowMs` is not a finite number
 */
export function newId(kind: IdKind, nowMs: number): string {
  if (!Number.isFinite(nowMs)) throw new RangeError(`no time: ${nowMs}`);
  if (nowMs < newestMs - MAX_ID_AHEAD_MS) {
    ulid = monotonicFactory();
    newestMs = nowMs;
  }
  // The library would replace a time of zero by the system's time.
  newestMs = Math.max(newestMs, nowMs, 1);
  return `${ID_PREFIXES[kind]}_${ulid(newestMs)}`;
}

/** Returns a text that sorts before each identifier of this kind that is made from a time on. */
export function firstIdAt(kind: IdKind, atMs: number): string {
  return `${ID_PREFIXES[kind]}_${encodeTime(Math.max(Math.floor(atMs), 0), 10)}`;
}

/** Reports whether a text has the form of an identifier of this kind. The resource need not exist. */
export function isId(kind: IdKind, text: string): boolean {
  const prefix = `${ID_PREFIXES[kind]}_`;
  return text.startsWith(prefix) && /^[0-7][0-9A-HJKMNP-TV-Z]{25}$/.test(text.slice(prefix.length));
}

/**
 * Returns the path of the file in a folder that an identifier names. All code uses this function for it: a row may come
 * from a damaged or forged database, and an identifier with a slash would name a file elsewhere.
 *
 * @throws Error for a text of another form
 */
export function pathOfId(folder: string, kind: IdKind, id: string): string {
  if (!isId(kind, id))
    throw new Error(`${JSON.stringify(id).slice(0, 80)} is not an identifier of this kind: ${kind}`);
  return join(folder, id);
}
