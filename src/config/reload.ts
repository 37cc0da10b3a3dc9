import { CONFIG_SCHEMA, type Config } from "./schema.ts";

/**
 * Settings that a running server takes over when it reloads its config. All other settings need a restart. Code that uses
 * one of these reads it each time.
 */
export const RELOADED: readonly string[] = [
  ...["base_url", "tls_cert", "tls_key", "cors_origins", "trusted_proxies", "drain_seconds"].map(
    (name) => `server.${name}`,
  ),
  "storage.reserve_bytes",
  "storage.ballast_bytes",
  "engine.doubtful_text",
  "engine.chunk_attempts",
  ...["default", "languages"].map((name) => `models.${name}`),
  ...Object.keys(CONFIG_SCHEMA.limits)
    .filter((name) => name !== "synchronous_max_receiving")
    .map((name) => `limits.${name}`),
  ...["price_paise_per_audio_hour", "daily_spend_limit_paise", "low_credit_paise"].map(
    (name) => `billing.${name}`,
  ),
  "webhooks.keep_days",
  ...Object.keys(CONFIG_SCHEMA.retention).map((name) => `retention.${name}`),
  ...Object.keys(CONFIG_SCHEMA.backup).map((name) => `backup.${name}`),
  "console.admin_from",
  "log.level",
  "metrics.token",
];

/** Settings that differ, by their dotted names. */
export type ConfigChanges = {
  reloaded: string[];
  /** They keep their old values until a restart. */
  needRestart: string[];
};

/** Compares two configs. */
export function changesBetween(running: Config, wanted: Config): ConfigChanges {
  const changes: ConfigChanges = { reloaded: [], needRestart: [] };
  for (const [section, settings] of Object.entries(wanted)) {
    for (const [name, value] of Object.entries(settings)) {
      const old = (running as unknown as Record<string, Record<string, unknown>>)[section]?.[name];
      if (Bun.deepEquals(old, value)) continue;
      const setting = `${section}.${name}`;
      (RELOADED.includes(setting) ? changes.reloaded : changes.needRestart).push(setting);
    }
  }
  return changes;
}

/**
 * Gives settings of a running server their new values. The objects of the config and of its sections stay the same, so
 * that all who hold them see the change.
 */
export function takeOver(running: Config, wanted: Config, settings: readonly string[]): void {
  for (const setting of settings) {
    const [section = "", name = ""] = setting.split(".");
    const value = (wanted as unknown as Record<string, Record<string, unknown>>)[section]?.[name];
    Object.assign((running as unknown as Record<string, object>)[section] ?? {}, { [name]: value });
  }
}
