import { loadConfig } from "../../config/load.ts";
import type { Config } from "../../config/schema.ts";
import type { EngineOptions } from "../../domain/engine-options.ts";

/** Returns the default configuration with single settings replaced. Nothing of the environment is read. */
export function testConfig(overrides: { [S in keyof Config]?: Partial<Config[S]> } = {}): Config {
  const defaults = loadConfig(undefined, {});
  const sections = Object.entries(defaults).map(([name, settings]) => [
    name,
    { ...settings, ...overrides[name as keyof Config] },
  ]);
  return Object.fromEntries(sections) as Config;
}

/** Returns the default settings of the engine with single ones replaced. */
export const engineOptions = (changes: Partial<EngineOptions> = {}): EngineOptions => ({
  ...testConfig().engine,
  ...changes,
});
