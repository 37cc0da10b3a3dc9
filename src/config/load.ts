import { existsSync } from "node:fs";
import { type AST, getStaticTOMLValue } from "toml-eslint-parser";
import { readRegularFile } from "../lib/regular-file.ts";
import { readToml, TomlError } from "../lib/toml.ts";
import { unknownVariable, variableOf } from "./environment.ts";
import { CONFIG_SCHEMA, type Config, SECRET_SETTINGS, type Setting } from "./schema.ts";

/** A setting that cannot be used. The message names file, line and setting. */
export class ConfigError extends Error {}

/** Largest config file that is read, many times the size of a complete one. */
const MAX_CONFIG_BYTES = 1024 * 1024;

type Environment = Record<string, string | undefined>;
type Values = Record<string, Record<string, unknown>>;
const SECTIONS: Record<string, Record<string, Setting>> = CONFIG_SCHEMA;

/** Finds the config file when no option names one (docs/decisions.md section 11). */
export function findConfigFile(environment: Environment): string | undefined {
  if (environment.SHRUTI_CONFIG) return environment.SHRUTI_CONFIG;
  return ["./shruti.toml", "/etc/shruti/shruti.toml"].find((path) => existsSync(path));
}

/**
 * Loads the configuration: defaults, then the file, then the variables `SHRUTI_<SECTION>_<NAME>`.
 *
 * @param path the config file; undefined: defaults and environment only
 * @throws ConfigError for an unreadable file, an unknown or ill-typed setting
 */
export function loadConfig(path: string | undefined, environment: Environment = process.env): Config {
  const values = defaults();
  if (path !== undefined) applyFile(values, path);
  applyEnvironment(values, environment);
  return values as unknown as Config;
}

function defaults(): Values {
  const values: Values = {};
  for (const [section, settings] of Object.entries(SECTIONS)) {
    values[section] = Object.fromEntries(Object.entries(settings).map(([name, s]) => [name, s.default]));
  }
  return values;
}

function applyFile(values: Values, path: string): void {
  let source: string;
  try {
    source = readRegularFile(path, MAX_CONFIG_BYTES);
  } catch (cause) {
    const reason = (cause as NodeJS.ErrnoException).code ?? "unknown";
    throw new ConfigError(`${path}: the config file cannot be read (${reason})`, { cause });
  }
  for (const { section, name, value, line } of parseSettings(source, path)) {
    const settings = SECTIONS[section] ?? {};
    // Each object inherits names such as `constructor`, which are not settings.
    const setting = Object.hasOwn(settings, name) ? settings[name] : undefined;
    if (!setting) throw new ConfigError(`${path}:${line}: unknown setting ${section}.${name}`);
    const problem = problemWith(setting, value);
    if (problem) throw new ConfigError(`${path}:${line}: ${section}.${name} ${problem}`);
    Object.assign(values[section] ?? {}, { [name]: value });
  }
}

type FoundSetting = { section: string; name: string; value: unknown; line: number };

function parseSettings(source: string, path: string): FoundSetting[] {
  try {
    const found: FoundSetting[] = [];
    for (const node of readToml(source).body[0].body) {
      const line = node.loc.start.line;
      if (node.type !== "TOMLTable")
        throw new ConfigError(`${path}:${line}: the setting must be in a [section]`);
      const section = node.resolvedKey.join(".");
      const [parent = "", name = ""] = node.resolvedKey.map(String);
      if (node.resolvedKey.length === 2 && isMap(parent, name)) {
        found.push({
          section: parent,
          name,
          value: Object.fromEntries(pairsOf(node).map(([key, text]) => [key, text])),
          line,
        });
        continue;
      }
      if (!Object.hasOwn(SECTIONS, section))
        throw new ConfigError(`${path}:${line}: unknown section [${section}]`);
      for (const [name, value, line] of pairsOf(node)) found.push({ section, name, value, line });
    }
    return found;
  } catch (error) {
    if (error instanceof TomlError) throw new ConfigError(`${path}:${error.line}: ${error.message}`);
    throw error;
  }
}

/** Returns names, values and lines of a table. */
function pairsOf({ body }: Pick<AST.TOMLTable, "body">): [name: string, value: unknown, line: number][] {
  return body.map((pair) => {
    const name = pair.key.keys.map((key) => (key.type === "TOMLBare" ? key.name : key.value)).join(".");
    return [name, getStaticTOMLValue(pair.value), pair.loc.start.line];
  });
}

/** Reports whether a setting has a table of its own. */
function isMap(section: string, name: string): boolean {
  const settings = Object.hasOwn(SECTIONS, section) ? SECTIONS[section] : undefined;
  return settings !== undefined && Object.hasOwn(settings, name) && settings[name]?.type === "map";
}

function applyEnvironment(values: Values, environment: Environment): void {
  const unknown = unknownVariable(environment);
  if (unknown !== undefined) throw new ConfigError(`environment: ${unknown}`);
  for (const [section, settings] of Object.entries(SECTIONS)) {
    for (const [name, setting] of Object.entries(settings)) {
      const variable = variableOf(section, name);
      const raw = environment[variable];
      if (raw === undefined) continue;
      const value = fromText(setting, raw);
      const problem = problemWith(setting, value);
      if (problem) throw new ConfigError(`environment: ${variable} ${problem}`);
      Object.assign(values[section] ?? {}, { [name]: value });
    }
  }
}

function fromText(setting: Setting, raw: string): unknown {
  switch (setting.type) {
    case "integer":
      return /^-?\d+$/.test(raw) ? Number(raw) : raw;
    case "auto":
      return /^\d+$/.test(raw) ? Number(raw) : raw;
    case "boolean":
      return raw === "true" ? true : raw === "false" ? false : raw;
    case "list":
      return raw === "" ? [] : raw.split(",").map((item) => item.trim());
    case "map":
      return Object.fromEntries(
        raw
          .split(",")
          .filter((item) => item.trim() !== "")
          .map((item) => [item.split("=")[0]?.trim() ?? "", item.split("=").slice(1).join("=").trim()]),
      );
    default:
      return raw;
  }
}

/** Says what is wrong with a value, as the end of a sentence that begins with the setting; undefined: nothing. */
function problemWith(setting: Setting, value: unknown): string | undefined {
  switch (setting.type) {
    case "integer":
      return isWithin(value, setting)
        ? undefined
        : `must be a whole number from ${setting.min} to ${setting.max}`;
    case "auto":
      if (value === "auto" || isWithin(value, setting)) return undefined;
      return `must be "auto" or a whole number from ${setting.min} to ${setting.max}`;
    case "boolean":
      return typeof value === "boolean" ? undefined : "must be true or false";
    case "list":
      if (!Array.isArray(value) || !value.every((item) => typeof item === "string"))
        return "must be a list of texts";
      return value.every((item) => setting.pattern?.test(item) ?? true)
        ? undefined
        : `does not match the required format: ${setting.help}`;
    case "map": {
      if (typeof value !== "object" || value === null || Array.isArray(value))
        return "must be a table of texts";
      const wrong = Object.entries(value).find(
        ([key, text]) =>
          !setting.keyPattern.test(key) || typeof text !== "string" || !setting.pattern.test(text),
      );
      return wrong && `has a wrong entry ${wrong[0]}: ${setting.help}`;
    }
    case "choice":
      return setting.choices.includes(value as string)
        ? undefined
        : `must be one of ${setting.choices.join(", ")}`;
    case "text":
      if (typeof value !== "string") return "must be a text";
      return setting.pattern && !setting.pattern.test(value)
        ? `does not match the required format: ${setting.help}`
        : undefined;
  }
}

function isWithin(value: unknown, bounds: { min: number; max: number }): boolean {
  return Number.isSafeInteger(value) && (value as number) >= bounds.min && (value as number) <= bounds.max;
}

/** Renders a whole config file with comments: the given values, and defaults for all others. */
export function renderConfig(
  values: { [S in keyof Config]?: Partial<Config[S]> } = {},
  hideSecrets = false,
): string {
  const given = values as Values;
  const lines: string[] = [];
  for (const [section, settings] of Object.entries(SECTIONS)) {
    lines.push(`[${section}]`);
    for (const [name, setting] of Object.entries(settings)) {
      const value = given[section]?.[name] ?? setting.default;
      const isHidden = hideSecrets && SECRET_SETTINGS.includes(`${section}.${name}`) && value !== "";
      if (setting.type === "map") {
        const entries = Object.entries(value as Record<string, string>);
        lines.push(`# ${setting.help}`, `[${section}.${name}]`);
        lines.push(...entries.map(([key, text]) => `${key} = ${JSON.stringify(text)}`), "");
        continue;
      }
      const choices = setting.type === "choice" ? ` One of: ${setting.choices.join(", ")}.` : "";
      lines.push(
        `# ${setting.help}${choices}`,
        `${name} = ${JSON.stringify(isHidden ? "(hidden)" : value)}`,
        "",
      );
    }
  }
  return `${lines.join("\n").trimEnd()}\n`;
}
