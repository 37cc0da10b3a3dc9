import { readdir, stat } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { Type } from "@sinclair/typebox";
import { Value } from "@sinclair/typebox/value";
import type { Config } from "../../config/schema.ts";
import { asOwnerOf } from "../../lib/rights.ts";
import { fromFileStamp, toTimestamp } from "../../lib/time.ts";
import type { Store } from "../../store/database.ts";
import { findSetting, putSetting, SETTING_NAMES } from "../../store/settings.ts";
import { STORE_BACKUPS } from "./backup-format.ts";

/** Backups that this machine has made, as far as it remembers: what a purge cannot reach. */

const KnownBackup = Type.Object({
  /** Absolute path of the file, or of the folder of backups. */
  path: Type.String(),
  kind: Type.Union([Type.Literal("database"), Type.Literal("archive"), Type.Literal("store")]),
  /** When the last one was made there, epoch milliseconds. */
  at_ms: Type.Number(),
});
const KnownBackups = Type.Array(KnownBackup);
type KnownBackup = { path: string; kind: "database" | "archive" | "store"; at_ms: number };

/** The oldest are forgotten first. */
const MAX_KNOWN = 200;

/** Notes a backup, in the transaction that records it. @param path of the file, or of the backup in its folder */
export function noteKnownBackup(tx: Store, backup: KnownBackup): void {
  const path = backup.kind === "store" ? dirname(dirname(backup.path)) : backup.path;
  const others = read(tx).filter((other) => other.path !== path);
  const known = [...others, { ...backup, path }].slice(-MAX_KNOWN);
  putSetting(tx, SETTING_NAMES.knownBackups, known, backup.at_ms);
}

function read(store: Store): KnownBackup[] {
  const value = findSetting(store, SETTING_NAMES.knownBackups);
  return Value.Check(KnownBackups, value) ? value : [];
}

/** Lists the folders of backups: that of the config, and those that commands have used. */
export function knownStores(store: Store, { backup }: Pick<Config, "backup">): string[] {
  const used = read(store)
    .filter(({ kind }) => kind === "store")
    .map(({ path }) => path);
  return [...new Set([...(backup.to === "" ? [] : [resolve(backup.to)]), ...used])];
}

/** A backup that holds what was there at its time. */
export type EarlierBackup = {
  path: string;
  /** When it was made; null: not known. */
  made_at: string | null;
  /** False: this machine does not find it now. It may be elsewhere. */
  found: boolean;
};

/** Lists the backups that this machine has made until now, each of a folder by itself. */
export async function earlierBackups(store: Store, config: Pick<Config, "backup">): Promise<EarlierBackup[]> {
  const found: EarlierBackup[] = [];
  for (const path of knownStores(store, config)) found.push(...(await inStore(path)));
  for (const { path, at_ms, kind } of read(store)) {
    if (kind === "store") continue;
    const isThere = await asOwnerOf(path, () => stat(path)).then(
      () => true,
      () => false,
    );
    found.push({ path, made_at: toTimestamp(at_ms), found: isThere });
  }
  return found;
}

async function inStore(store: string): Promise<EarlierBackup[]> {
  const folder = join(store, STORE_BACKUPS);
  const names = await asOwnerOf(folder, () => readdir(folder)).catch(() => undefined);
  if (names === undefined) return [{ path: store, made_at: null, found: false }];
  return names.sort().flatMap((name) => {
    const made_at = fromFileStamp(name);
    return made_at === undefined ? [] : [{ path: join(folder, name), made_at, found: true }];
  });
}
