import { CONFIG_SCHEMA, type Config, PROGRAM_SETTINGS, type Setting } from "../../config/schema.ts";
import type { BackupSignature, KnownKeys } from "../../services/backups/backup-signature.ts";

/**
 * The config that a backup brings to a machine without one. A person who can change a backup could let it name
 * another program, so settings that choose programs come only from a backup whose signer is known.
 */
export type BackupConfig = {
  /** The config for this machine; undefined: the backup has none. */
  text: string | undefined;
  /** Settings that were commented out. */
  notTaken: string[];
  signature: BackupSignature;
};

/**
 * Reads the config of a backup.
 *
 * @param isTrusted whether the admin takes the config from any signer
 * @throws BackupError
 */
export async function configOfBackup(
  path: string,
  { keys, dataDir, isTrusted }: { keys: KnownKeys; dataDir: string; isTrusted: boolean },
): Promise<BackupConfig> {
  const [{ readConfigOf }, { commentOut, withDataDir }] = await Promise.all([
    import("../../services/backups/backup-restore.ts"),
    import("../../services/backups/config-secrets.ts"),
  ]);
  const { text, signature } = await readConfigOf(path, keys);
  if (text === undefined) return { text, notTaken: [], signature };
  const isKnown = signature.by === "this_machine" || signature.by === "given_key";
  const { text: safe, found } =
    isKnown || isTrusted ? { text, found: [] } : commentOut(text, PROGRAM_SETTINGS, NOT_TAKEN);
  return { text: withDataDir(safe, dataDir), notTaken: found, signature };
}

const NOT_TAKEN = "Not taken from the backup, because nothing proves who made the backup:";

/** Settings that are no paths, and decide who reaches this machine and whom it reaches. */
const ADDRESSES: readonly string[] = [
  ...["server.listen", "server.base_url", "server.cors_origins", "server.trusted_proxies"],
  ...["console.admin_from", "webhooks.allowed_networks"],
  ...["fleet.nats", "fleet.listen", "fleet.base_url"],
];

/** Lists the programs, files and addresses that a config names beside the defaults, but for the data directory. */
export function namedPlaces(config: Config): { setting: string; value: string }[] {
  return Object.entries<Record<string, Setting>>(CONFIG_SCHEMA).flatMap(([section, settings]) =>
    Object.entries(settings).flatMap(([name, setting]) => {
      const full = `${section}.${name}`;
      const isPath = setting.type === "text" && setting.isPath === true && full !== "storage.data_dir";
      if (!isPath && !ADDRESSES.includes(full) && !PROGRAM_SETTINGS.includes(full)) return [];
      const value = (config as Record<string, Record<string, unknown>>)[section]?.[name];
      const isDefault = JSON.stringify(value) === JSON.stringify(setting.default);
      return isDefault ? [] : [{ setting: full, value: [value].flat().join(", ") }];
    }),
  );
}
