import { dirname, resolve } from "node:path";
import { type AST, getStaticTOMLValue } from "toml-eslint-parser";
import packageJson from "../../package.json" with { type: "json" };
import { nearestName } from "../lib/nearest.ts";
import { readRegularFile } from "../lib/regular-file.ts";
import { readToml, TomlError } from "../lib/toml.ts";
import { unknownVariables, variableOf } from "./environment.ts";
import { resolveConfigPath } from "./paths.ts";
import { ConfigError, type ConfigProblem } from "./problems.ts";
import { CONFIG_SCHEMA, type Config, type Setting } from "./schema.ts";
import { readSecretFiles } from "./secret-files.ts";
import type { MapSetting, TablesSetting } from "./setting.ts";

/** Largest config file that is read, many times the size of a complete one. */
const MAX_CONFIG_BYTES = 256 * 1024;

type Environment = Record<string, string | undefined>;
type Values = Record<string, Record<string, unknown>>;
const SECTIONS: Record<string, Record<string, Setting>> = CONFIG_SCHEMA;

/** A configuration as far as it can be read. */
export type ReadConfig = {
  /** Settings with a problem have their defaults. */
  config: Config;
  problems: ConfigProblem[];
  /** Sentences about settings that work and should be changed. */
  warnings: string[];
  /**
   * Whether `storage.data_dir` is the right one, although there are problems: the file or the environment names
   * it in a form that can be read. A default beside problems may be there because the name was mistyped.
   */
  knowsDataDir: boolean;
  /** The data directory was found through the folder in which the command runs, and no option or variable names it. */
  isDataDirFromWorkingDirectory: boolean;
};

/**
 * Loads the configuration: defaults, then the file, then credentials of systemd, then the variables
 * `SHRUTI_<SECTION>_<NAME>`, and `SHRUTI_<SECTION>_<NAME>_FILE` for secrets (`secret-files.ts`).
 *
 * @param path the config file; undefined: defaults and environment only
 * @throws ConfigError with every mistake: an unreadable file, unknown and ill-typed settings and variables
 */
export function loadConfig(path: string | undefined, environment: Environment = process.env): Config {
  const { config, problems } = readConfig(path, environment);
  if (problems.length > 0) throw new ConfigError(problems);
  return config;
}

/** Reads the configuration like `loadConfig`, and returns its mistakes. */
export function readConfig(path: string | undefined, environment: Environment): ReadConfig {
  const values = defaults();
  const problems: ConfigProblem[] = [];
  const warnings: string[] = [];
  let knowsDataDir = false;
  let isDataDirFromWorkingDirectory = path === undefined;
  if (path !== undefined) {
    const applied = applyFile(values, path);
    problems.push(...applied.problems);
    knowsDataDir = applied.knowsDataDir;
    const former = resolvePaths(values, path, environment);
    warnings.push(...former.values());
    isDataDirFromWorkingDirectory = former.has("storage.data_dir");
  }
  const unknown = unknownVariables(environment);
  problems.push(...unknown.map((message) => ({ where: ENVIRONMENT, message })));
  problems.push(...applyEnvironment(values, environment), ...applySecretFiles(values, environment));
  const given = environment[variableOf("storage", "data_dir")];
  if (given !== undefined) {
    // A value in a wrong form is not taken.
    knowsDataDir = values.storage?.data_dir === given;
    isDataDirFromWorkingDirectory = false;
  }
  // One of them may be a mistyped name of that variable.
  else if (unknown.length > 0) knowsDataDir = false;
  const config = values as unknown as Config;
  return { config, problems, warnings, knowsDataDir, isDataDirFromWorkingDirectory };
}

function defaults(): Values {
  const values: Values = {};
  for (const [section, settings] of Object.entries(SECTIONS)) {
    values[section] = Object.fromEntries(Object.entries(settings).map(([name, s]) => [name, s.default]));
  }
  return values;
}

/** Writes the file's settings into the values, and returns what is wrong with the others. */
function applyFile(values: Values, path: string): Pick<ReadConfig, "problems" | "knowsDataDir"> {
  let source: string;
  try {
    source = readRegularFile(path, MAX_CONFIG_BYTES);
  } catch (cause) {
    return { problems: [unreadableFile(path, (cause as NodeJS.ErrnoException).code)], knowsDataDir: false };
  }
  const { found, problems } = parseSettings(source);
  let knowsDataDir = false;
  for (const { section, name, value, line } of found) {
    const settings = SECTIONS[section] ?? {};
    // Each object inherits names such as `constructor`, which are not settings.
    const setting = Object.hasOwn(settings, name) ? settings[name] : undefined;
    const problem = setting ? problemWith(name, setting, value) : undefined;
    if (!setting) problems.push({ line, message: unknownSetting(section, name) });
    else if (problem) problems.push({ line, message: `${section}.${name} ${problem}` });
    else Object.assign(values[section] ?? {}, { [name]: setting && filledValue(setting, value) });
    if (section === "storage" && name === "data_dir") knowsDataDir = problem === undefined;
  }
  return {
    problems: problems
      .sort((a, b) => a.line - b.line)
      .map(({ line, message }) => ({ where: `${path}:${line}`, message })),
    knowsDataDir,
  };
}

function unreadableFile(path: string, code: string | undefined): ConfigProblem {
  if (code !== "EACCES" && code !== "EPERM")
    return { where: path, message: `the config file cannot be read (${code ?? "unknown"})` };
  const message = `this user may not read the config file (${code}); run the command with sudo`;
  return { where: path, message, isDenied: true };
}

type Mistake = { line: number; message: string };
type FoundSetting = { section: string; name: string; value: unknown; line: number };

function parseSettings(source: string): { found: FoundSetting[]; problems: Mistake[] } {
  const found: FoundSetting[] = [];
  const problems: Mistake[] = [];
  const tables = new Map<string, FoundSetting & { value: object[] }>();
  try {
    for (const node of readToml(source).body[0].body) {
      const line = node.loc.start.line;
      if (node.type !== "TOMLTable") {
        problems.push({ line, message: "the setting must be in a [section]" });
        continue;
      }
      const section = node.resolvedKey.join(".");
      const [parent = "", name = ""] = node.resolvedKey.map(String);
      if (node.resolvedKey.length === 2 && isMap(parent, name)) {
        const setting = SECTIONS[parent]?.[name] as MapSetting;
        const pairs = pairsOf(node);
        const wrong = pairs.filter((pair) => isWrongEntry(setting, pair));
        for (const [key, , line] of wrong)
          problems.push({ line, message: `${section} ${wrongEntry(setting, key)}` });
        const right = pairs.filter((pair) => !wrong.includes(pair));
        found.push({ section: parent, name, value: Object.fromEntries(right), line });
      } else if (node.kind === "array" && tablesOf(parent, name)) {
        const full = `${parent}.${name}`;
        const all = tables.get(full) ?? { section: parent, name, value: [], line };
        const checked = checkTable(tablesOf(parent, name) as TablesSetting, full, pairsOf(node), line);
        problems.push(...checked.problems);
        // One with a mistake is left out, because its defaults could mean another folder.
        if (checked.problems.length === 0) all.value.push(checked.table);
        if (!tables.has(full)) found.push(all);
        tables.set(full, all);
      } else if (Object.hasOwn(SECTIONS, section)) {
        for (const [name, value, line] of pairsOf(node)) found.push({ section, name, value, line });
      } else problems.push({ line, message: unknownSection(section) });
    }
  } catch (error) {
    if (!(error instanceof TomlError)) throw error;
    problems.push({ line: error.line, message: error.message });
    found.push(...dataDirBeside(source));
  }
  return { found, problems };
}

/** Returns the setting whose value is a list of tables; undefined for any other name. */
function tablesOf(section: string, name: string): TablesSetting | undefined {
  const settings = Object.hasOwn(SECTIONS, section) ? SECTIONS[section] : undefined;
  const setting = settings && Object.hasOwn(settings, name) ? settings[name] : undefined;
  return setting?.type === "tables" ? setting : undefined;
}

/** Checks the fields of one table, and says in which line each mistake is. */
function checkTable(
  { fields, required }: TablesSetting,
  full: string,
  pairs: readonly [name: string, value: unknown, line: number][],
  tableLine: number,
): { table: Record<string, unknown>; problems: Mistake[] } {
  const problems: Mistake[] = [];
  for (const [name, value, line] of pairs) {
    const field = Object.hasOwn(fields, name) ? fields[name] : undefined;
    const problem = field && problemWith(name, field, value);
    const near = nearestName(name, Object.keys(fields));
    const hint = near === undefined ? MAYBE_NEWER : `did you mean ${near}?`;
    if (!field) problems.push({ line, message: `unknown setting ${full}.${name}; ${hint}` });
    else if (problem) problems.push({ line, message: `${full}.${name} ${problem}` });
  }
  const given = Object.fromEntries(pairs);
  const lacking = required.filter((name) => given[name] === undefined);
  for (const name of lacking) problems.push({ line: tableLine, message: `${full}.${name} is missing` });
  return { table: given, problems };
}

/** Fills the defaults into the tables of a list. Other values stay as they are. */
function filledValue(setting: Setting, value: unknown): unknown {
  if (setting.type !== "tables") return value;
  const defaults = Object.fromEntries(
    Object.entries(setting.fields).map(([name, one]) => [name, one.default]),
  );
  return (value as object[]).map((table) => ({ ...defaults, ...table }));
}

/**
 * Finds the data directory in a text that is not valid TOML: in the section `[storage]` alone, where there is one such
 * line and its section can be parsed.
 */
function dataDirBeside(source: string): FoundSetting[] {
  const lines = source.split("\n");
  const headers = lines.flatMap((line, at) => (/^\s*\[/.test(line) ? [at] : []));
  const [from, ...others] = headers.filter((at) => /^\s*\[\s*storage\s*\]/.test(lines[at] ?? ""));
  if (from === undefined || others.length > 0) return [];
  const to = headers.find((at) => at > from) ?? lines.length;
  try {
    const [table] = readToml(lines.slice(from, to).join("\n")).body[0].body;
    if (table?.type !== "TOMLTable") return [];
    return pairsOf(table)
      .filter(([name]) => name === "data_dir")
      .map(([name, value, line]) => ({ section: "storage", name, value, line: from + line }));
  } catch (error) {
    if (error instanceof TomlError) return [];
    throw error;
  }
}

/** A config file may come from a newer version, whose settings an older one does not know. */
const MAYBE_NEWER = `Shruti ${packageJson.version} has no such setting; a newer version may have it`;

function unknownSection(section: string): string {
  const near = nearestName(section, Object.keys(SECTIONS));
  return `unknown section [${section}]; ${near === undefined ? MAYBE_NEWER.replace("setting", "section") : `did you mean [${near}]?`}`;
}

function unknownSetting(section: string, name: string): string {
  const near = nearestName(name, Object.keys(SECTIONS[section] ?? {}));
  const elsewhere = Object.keys(SECTIONS).find((other) => Object.hasOwn(SECTIONS[other] ?? {}, name));
  const hint =
    elsewhere !== undefined
      ? `it belongs into [${elsewhere}]`
      : near !== undefined
        ? `did you mean ${near}?`
        : MAYBE_NEWER;
  return `unknown setting ${section}.${name}; ${hint}`;
}

/**
 * Resolves the relative paths that come from the file or are defaults. Those of variables belong to the working directory.
 *
 * @returns a warning for each setting that is read from the working directory as by earlier versions
 */
function resolvePaths(values: Values, file: string, environment: Environment): Map<string, string> {
  const warnings = new Map<string, string>();
  for (const [section, settings] of Object.entries(SECTIONS)) {
    for (const [name, setting] of Object.entries(settings)) {
      const value = values[section]?.[name];
      if (environment[variableOf(section, name)] !== undefined) continue;
      if (setting.type === "tables") {
        const tables = (value as Values[string][]).map((table) => withPaths(setting, table, file));
        Object.assign(values[section] ?? {}, { [name]: tables });
      }
      if (setting.type !== "text" || !setting.isPath || typeof value !== "string" || value === "") continue;
      const { path, warning } = resolveConfigPath(`${section}.${name}`, value, file);
      Object.assign(values[section] ?? {}, { [name]: path });
      if (warning !== undefined) warnings.set(`${section}.${name}`, warning);
    }
  }
  return warnings;
}

/** Resolves the relative paths of a table. No earlier version read those from the working directory. */
function withPaths({ fields }: TablesSetting, table: Values[string], file: string): Values[string] {
  const resolved = Object.entries(table).map(([name, value]) => {
    const field = fields[name];
    const isPath = field?.type === "text" && field.isPath === true && value !== "";
    return [name, isPath ? resolve(dirname(resolve(file)), String(value)) : value] as const;
  });
  return Object.fromEntries(resolved);
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

/** Where a mistake of a variable is. */
const ENVIRONMENT = "environment";

/** Writes the values of variables into the settings, and returns what is wrong with the others. */
function applyEnvironment(values: Values, environment: Environment): ConfigProblem[] {
  const problems: ConfigProblem[] = [];
  for (const [section, settings] of Object.entries(SECTIONS)) {
    for (const [name, setting] of Object.entries(settings)) {
      const variable = variableOf(section, name);
      const raw = environment[variable];
      if (raw === undefined) continue;
      const value = fromText(setting, raw);
      const problem = problemWith(name, setting, value);
      if (problem) problems.push({ where: ENVIRONMENT, message: `${variable} ${problem}` });
      else Object.assign(values[section] ?? {}, { [name]: filledValue(setting, value) });
    }
  }
  return problems;
}

/** Writes the secrets that are in files of their own into the settings, and returns what is wrong with the others. */
function applySecretFiles(values: Values, environment: Environment): ConfigProblem[] {
  const { found, problems } = readSecretFiles(environment);
  for (const { section, name, text, origin } of found) {
    const setting = SECTIONS[section]?.[name];
    const problem = setting && problemWith(name, setting, text);
    if (problem)
      problems.push({
        where: ENVIRONMENT,
        message: `${origin} has a wrong value: ${section}.${name} ${problem}`,
      });
    else Object.assign(values[section] ?? {}, { [name]: text });
  }
  return problems;
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
    case "tables":
      try {
        return JSON.parse(raw);
      } catch {
        return raw;
      }
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

/**
 * Says what is wrong with a value and what the correct form is, as the end of a sentence that begins with the setting;
 * undefined: nothing.
 */
function problemWith(name: string, setting: Setting, value: unknown): string | undefined {
  const problem = mistakeIn(setting, value);
  if (problem === undefined) return undefined;
  const example = exampleOf(setting);
  return example === undefined ? problem : `${problem}; for example ${name} = ${JSON.stringify(example)}`;
}

function exampleOf(setting: Setting): unknown {
  if (setting.type === "list") return setting.example === undefined ? undefined : [setting.example];
  if (setting.type === "map" || setting.type === "tables") return undefined;
  const example = setting.type === "text" ? (setting.example ?? setting.default) : setting.default;
  return example === "" ? undefined : example;
}

function mistakeIn(setting: Setting, value: unknown): string | undefined {
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
      return value.every((item) => setting.pattern?.test(item) ?? true) ? undefined : wrongForm(setting);
    case "tables": {
      if (!Array.isArray(value) || !value.every(isTable)) return "must be a list of tables";
      const pairsOfEach = value.map((table) => Object.entries(table).map(([k, v]) => [k, v, 0] as const));
      const mistakes = pairsOfEach.flatMap(
        (pairs) =>
          checkTable(
            setting,
            "",
            pairs.map(([k, v, line]) => [k, v, line]),
            0,
          ).problems,
      );
      return mistakes[0] && `has a wrong table: ${mistakes[0].message.replaceAll(/(^|\s)\./g, "$1")}`;
    }
    case "map": {
      if (!isTable(value)) return "must be a table of texts";
      const wrong = Object.entries(value).find((entry) => isWrongEntry(setting, entry));
      return wrong && wrongEntry(setting, wrong[0]);
    }
    case "choice":
      return setting.choices.includes(value as string)
        ? undefined
        : `must be one of ${setting.choices.join(", ")}`;
    case "text":
      if (typeof value !== "string") return "must be a text";
      return setting.pattern && !setting.pattern.test(value) ? wrongForm(setting) : setting.problem?.(value);
  }
}

const isTable = (value: unknown): value is object =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Reports whether an entry of a map has the wrong form. Further items of the entry do not matter. */
const isWrongEntry = (setting: MapSetting, [key, text]: readonly [string, unknown, ...unknown[]]) =>
  !setting.keyPattern.test(key) || typeof text !== "string" || !setting.pattern.test(text);

const wrongEntry = ({ help }: MapSetting, key: string) => `has a wrong entry ${key}: ${help}`;

const wrongForm = ({ help }: Setting) => `does not match the required format: ${help.replace(/\.$/, "")}`;

function isWithin(value: unknown, bounds: { min: number; max: number }): boolean {
  return Number.isSafeInteger(value) && (value as number) >= bounds.min && (value as number) <= bounds.max;
}
