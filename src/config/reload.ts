import { type Config, RELOADED_SETTINGS } from "./schema.ts";

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
      (RELOADED_SETTINGS.includes(setting) ? changes.reloaded : changes.needRestart).push(setting);
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
