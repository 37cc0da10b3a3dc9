import { getStaticTOMLValue } from "toml-eslint-parser";
import { languageOf } from "../../domain/languages.ts";
import type { ModelDecoding, ModelLanguage, ModelManifest, ModelPart } from "../../domain/model.ts";
import { MODES, type Mode } from "../../domain/transcription.ts";
import { TRIAL_VERDICTS, type TrialVerdict } from "../../domain/trial.ts";
import { type Check, matching, oneOf, text, within } from "../../families/checks.ts";
import type { ManifestKey, ModelFamily } from "../../families/contract.ts";
import { FAMILIES, type Families } from "../../families/families.ts";
import { readToml, TomlError } from "../../lib/toml.ts";

/** A manifest that cannot be used. The message names file, line and key. */
export class ManifestError extends Error {}

/** Largest manifest that is read. That of IndicConformer lists 370 files in 60 KB. */
export const MAX_MANIFEST_BYTES = 256 * 1024;

/** The form of model ids. They name files and appear in requests. */
export const MODEL_ID_PATTERN = /^[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?$/;

/** The form of the names of a model's files. */
const PART_NAME = /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$/;

const topKeys = ({ list }: Families): Record<string, Check> => ({
  id: matching(MODEL_ID_PATTERN, "1 to 64 of a to z, 0 to 9, dot, dash and underscore"),
  name: text,
  version: text,
  sha256: matching(/^[0-9a-f]{64}$/, "64 lower-case hex digits"),
  licence: text,
  source: text,
  notice: text,
  engine: oneOf([...new Set(list.map(({ engine }) => engine))]),
  family: oneOf(list.map(({ name }) => name)),
});
/** The role of files of weights that the model itself names. A model may have any number of them. */
const WEIGHTS = "weights";
const rolesOf = ({ roles }: ModelFamily): string[] => (roles ? [roles.main, ...roles.others] : []);
const optionalRolesOf = ({ roles }: ModelFamily): readonly string[] => roles?.optional ?? [];
const partKeys = ({ list }: Families): Record<string, Check> => ({
  role: oneOf([...new Set([...list.flatMap(rolesOf), WEIGHTS, ...list.flatMap(optionalRolesOf)])]),
  name: matching(PART_NAME, "a plain file name"),
  sha256: matching(/^[0-9a-f]{64}$/, "64 lower-case hex digits"),
});
const LANGUAGE_KEYS: Record<string, Check> = {
  code: matching(/^[a-z]{2,3}$/, "a language code of two or three letters"),
  name: text,
  modes: (value) => {
    const isRight = Array.isArray(value) && value.length > 0 && value.every((mode) => MODES.includes(mode));
    return isRight && new Set(value).size === value.length
      ? undefined
      : `must be a list of ${MODES.join(", ")}, each once`;
  },
  trial: oneOf(TRIAL_VERDICTS),
};
const DECODING_KEYS: Record<string, Check> = {
  unknown_token: text,
  unknown_below: within(0, 1, false),
  max_chunk_seconds: within(1, 30, false),
};
const OPTIONAL = new Set(["notice", "family", "engine"]);

/** The tables that have keys of families. */
type FamilyTable = "decoding" | "languages";

/** Returns the checks of a table: those of all families, and those of each. */
function checksOf(
  table: FamilyTable,
  shared: Record<string, Check>,
  { list }: Families,
): Record<string, Check> {
  const own = list.flatMap(({ keys }) => Object.entries(keys[table]));
  return { ...shared, ...Object.fromEntries(own.map(([key, { check }]) => [key, check])) };
}

/** Returns the keys of a table that the models of a family do not have, with the engine of those that have them. */
function foreignKeys(table: FamilyTable, family: ModelFamily, { list }: Families): Map<string, string> {
  const others = list.flatMap(({ keys, engine }) =>
    Object.keys(keys[table]).map((key) => [key, engine] as const),
  );
  return new Map(others.filter(([key]) => !Object.hasOwn(family.keys[table], key)));
}

/** Reads the fields of a family from a table whose values are valid. */
function readFields(
  keys: Readonly<Record<string, ManifestKey>>,
  table: Record<string, unknown>,
): Record<string, unknown> {
  const given = Object.entries(keys).filter(([key]) => Object.hasOwn(table, key));
  return Object.fromEntries(
    given.map(([key, { field, read }]) => [field, read ? read(table[key]) : table[key]]),
  );
}

/** All keys of a manifest. The keys of tables begin with the table's name. */
export const MANIFEST_KEYS: readonly string[] = [
  ...Object.keys(topKeys(FAMILIES)),
  ...Object.keys(partKeys(FAMILIES)).map((key) => `files.${key}`),
  ...Object.keys(checksOf("languages", LANGUAGE_KEYS, FAMILIES)).map((key) => `languages.${key}`),
  ...Object.keys(checksOf("decoding", DECODING_KEYS, FAMILIES)).map((key) => `decoding.${key}`),
];

/**
 * Parses a manifest. Each key must be known and have a valid value, and no required key may be missing.
 *
 * @param source TOML
 * @param path only for messages
 * @throws ManifestError
 */
export function parseManifest(source: string, path: string, families: Families = FAMILIES): ModelManifest {
  const { values, lineOf } = parse(source, path);
  const reader: Reader = {
    fail(key, problem) {
      throw new ManifestError(`${path}:${lineOf(key)}: ${key} ${problem}`);
    },
    checkTable(table, checks, prefix) {
      for (const [key, value] of Object.entries(table)) {
        const check = Object.hasOwn(checks, key) ? checks[key] : undefined;
        const problem = check ? check(value) : "is unknown";
        if (problem) reader.fail(prefix + key, problem);
      }
    },
  };
  const { languages, decoding, files, ...top } = values;
  const checks = topKeys(families);
  reader.checkTable(top, checks, "");
  const parts = files === undefined ? undefined : readParts(files, reader, families);
  for (const key of Object.keys(checks)) {
    const isRequired = !OPTIONAL.has(key) && !(key === "sha256" && parts);
    if (!Object.hasOwn(top, key) && isRequired) reader.fail(key, "is missing");
  }
  const family = readFamily(top, parts, reader, families);
  const known = readLanguages(languages, family, reader, families);
  const tuning = asTable(decoding ?? {});
  reader.checkTable(tuning, checksOf("decoding", DECODING_KEYS, families), "decoding.");
  for (const [key, engine] of foreignKeys("decoding", family, families)) {
    if (Object.hasOwn(tuning, key)) reader.fail(`decoding.${key}`, `is only for the engine ${engine}`);
  }
  const strings = top as Record<"id" | "name" | "version" | "sha256" | "licence" | "source", string>;
  const { id, name, version, licence, source: origin } = strings;
  return {
    id,
    name,
    version,
    family: family.name,
    sha256: parts?.find(({ role }) => role === family.roles?.main)?.sha256 ?? strings.sha256,
    ...(parts ? { parts } : {}),
    languages: known,
    licence,
    source: origin,
    ...(typeof top.notice === "string" ? { notice: top.notice } : {}),
    decoding: toDecoding(tuning, family),
  };
}

/** Reads tables, and refuses them with a line of the manifest. */
type Reader = {
  /** @throws ManifestError */
  fail(key: string, problem: string): never;
  checkTable(table: Record<string, unknown>, checks: Record<string, Check>, prefix: string): void;
};

/** Returns the family, which has to fit the engine and the files. */
function readFamily(
  top: Record<string, unknown>,
  parts: ModelPart[] | undefined,
  { fail }: Reader,
  families: Families,
): ModelFamily {
  const family = top.family === undefined ? families.standard : families.of(String(top.family));
  const { name, engine, roles } = family;
  if (top.engine !== undefined && top.engine !== engine)
    fail("engine", `must be ${engine} for the family ${name}`);
  if (!roles && parts) fail("files", `is not for ${name}, which has one file and sha256`);
  if (roles && !parts) fail("files", `must be given as [[files]] for the family ${name}`);
  if (parts && top.sha256 !== undefined) fail("sha256", "is given by [[files]]");
  const single = rolesOf(family);
  for (const role of roles ? single : []) {
    if (parts?.filter((part) => part.role === role).length !== 1)
      fail("files", `must have the role ${role} exactly once`);
  }
  const stray =
    roles && parts?.find(({ role }) => ![WEIGHTS, ...single, ...optionalRolesOf(family)].includes(role));
  if (stray) fail("files", `must not have the role ${stray.role} for the family ${name}`);
  return family;
}

function readParts(files: unknown, reader: Reader, families: Families): ModelPart[] {
  const checks = partKeys(families);
  if (!Array.isArray(files)) return reader.fail("files", "must be given as [[files]]");
  const parts: ModelPart[] = [];
  for (const [index, value] of files.entries()) {
    const prefix = `files.${index}.`;
    const table = asTable(value);
    reader.checkTable(table, checks, prefix);
    for (const key of Object.keys(checks)) {
      if (!Object.hasOwn(table, key)) reader.fail(prefix + key, "is missing");
    }
    const part = table as ModelPart;
    if (parts.some(({ name }) => name === part.name)) reader.fail(`${prefix}name`, "is given twice");
    parts.push({ role: part.role, name: part.name, sha256: part.sha256 });
  }
  return parts;
}

function readLanguages(
  languages: unknown,
  family: ModelFamily,
  reader: Reader,
  families: Families,
): ModelLanguage[] {
  if (!Array.isArray(languages) || languages.length === 0)
    return reader.fail("languages", "must be given as [[languages]]");
  const checks = checksOf("languages", LANGUAGE_KEYS, families);
  const foreign = foreignKeys("languages", family, families);
  const known: ModelLanguage[] = [];
  for (const [index, value] of languages.entries()) {
    const prefix = `languages.${index}.`;
    const table = asTable(value);
    reader.checkTable(table, checks, prefix);
    const fail = (key: string, problem: string) => reader.fail(prefix + key, problem);
    const language = toLanguage(table, family, fail);
    for (const [key, engine] of foreign) if (Object.hasOwn(table, key)) fail(key, `is only for ${engine}`);
    const fault = family.keys.languageFault?.(language);
    if (fault) fail(fault.key, fault.problem);
    if (known.some(({ code }) => code === language.code)) fail("code", "is given twice");
    known.push(language);
  }
  return known;
}

function asTable(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null
    ? (value as Record<string, unknown>)
    : { "(value)": value };
}

/** Reads the table of a language. The program fills in the name of a language that it knows. */
function toLanguage(
  table: Record<string, unknown>,
  { keys }: ModelFamily,
  fail: (key: string, problem: string) => never,
): ModelLanguage {
  const { code, name, modes, trial } = table as {
    code?: string;
    name?: string;
    modes?: Mode[];
    trial?: TrialVerdict;
  };
  if (code === undefined) return fail("code", "is missing");
  if (modes === undefined) return fail("modes", "is missing");
  const known = languageOf(code);
  if (name === undefined && !known)
    return fail("name", "is missing, and the program does not know the language");
  return {
    code,
    name: name ?? known?.name ?? code,
    modes,
    ...readFields(keys.languages, table),
    ...(trial === undefined ? {} : { trial }),
  };
}

function milliseconds(seconds: unknown): number | undefined {
  return seconds === undefined ? undefined : Math.round(Number(seconds) * 1000);
}

function toDecoding(table: Record<string, unknown>, { keys }: ModelFamily): ModelDecoding {
  const tuning = readFields(keys.decoding, table);
  return given<ModelDecoding>({
    maxChunkMs: milliseconds(table.max_chunk_seconds),
    unknownToken: table.unknown_token as string | undefined,
    unknownBelow: table.unknown_below === undefined ? undefined : Number(table.unknown_below),
    tuning: Object.keys(tuning).length === 0 ? undefined : { [keys.tuning]: tuning },
  });
}

/** Without the fields that are undefined. */
function given<T extends object>(fields: { [Key in keyof T]: T[Key] | undefined }): T {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as T;
}

type Parsed = { values: Record<string, unknown>; lineOf: (key: string) => number };

/** Parses TOML to values, and finds the lines of dotted keys. A missing key has the line of its table. */
function parse(source: string, path: string): Parsed {
  try {
    const program = readToml(source);
    const lines = new Map<string, number>();
    const note = (prefix: readonly (string | number)[], pairs: (typeof program.body)[0]["body"]) => {
      for (const node of pairs) {
        if (node.type === "TOMLTable") {
          lines.set(node.resolvedKey.join("."), node.loc.start.line);
          note(node.resolvedKey, node.body);
        } else {
          const names = node.key.keys.map((key) => (key.type === "TOMLBare" ? key.name : key.value));
          lines.set([...prefix, ...names].join("."), node.loc.start.line);
        }
      }
    };
    note([], program.body[0].body);
    return {
      values: getStaticTOMLValue(program) as Record<string, unknown>,
      lineOf(key) {
        const parts = key.split(".");
        while (parts.length > 0) {
          const line = lines.get(parts.join("."));
          if (line !== undefined) return line;
          parts.pop();
        }
        return 1;
      },
    };
  } catch (error) {
    if (error instanceof TomlError) throw new ManifestError(`${path}:${error.line}: ${error.message}`);
    throw error;
  }
}

type TomlValue = string | number | boolean | readonly (string | number | readonly number[])[];

/**
 * Returns the keys of `[[languages]]` whose fields only models of other families have. What an admin says in them is
 * written, too, so that the parser refuses it instead of leaving it out.
 */
function foreignFields({ keys }: ModelFamily, { list }: Families): Record<string, ManifestKey> {
  const own = new Set(Object.values(keys.languages).map(({ field }) => field));
  const others = list.flatMap((family) => Object.entries(family.keys.languages));
  return Object.fromEntries(others.filter(([, { field }]) => !own.has(field)));
}

/** Renders a manifest as TOML. `parseManifest` reads the same manifest from it. */
export function renderManifest(manifest: ModelManifest, families: Families = FAMILIES): string {
  const lines: string[] = [];
  const add = (key: string, value: TomlValue | undefined) => {
    if (value !== undefined) lines.push(`${key} = ${JSON.stringify(value)}`);
  };
  const addFields = (keys: Readonly<Record<string, ManifestKey>>, fields: Record<string, unknown>) => {
    for (const [key, { field, write }] of Object.entries(keys)) {
      const value = fields[field];
      if (value !== undefined) add(key, write ? write(value) : (value as TomlValue));
    }
  };
  const { decoding, parts = [] } = manifest;
  const family = families.of(manifest.family);
  const languageKeys = { ...foreignFields(family, families), ...family.keys.languages };
  for (const key of ["id", "name", "version", "sha256", "licence", "source", "notice"] as const) {
    if (key !== "sha256" || parts.length === 0) add(key, manifest[key]);
  }
  if (family !== families.standard) {
    add("engine", family.engine);
    add("family", family.name);
  }
  for (const { role, name, sha256 } of parts) {
    lines.push("", "[[files]]");
    add("role", role);
    add("name", name);
    add("sha256", sha256);
  }
  for (const language of manifest.languages) {
    lines.push("", "[[languages]]");
    add("code", language.code);
    add("name", language.name);
    add("modes", language.modes);
    addFields(languageKeys, language);
    add("trial", language.trial);
  }
  lines.push("", "[decoding]");
  addFields(family.keys.decoding, decoding.tuning?.[family.keys.tuning] ?? {});
  add("max_chunk_seconds", decoding.maxChunkMs === undefined ? undefined : decoding.maxChunkMs / 1000);
  add("unknown_token", decoding.unknownToken);
  add("unknown_below", decoding.unknownBelow);
  return `${lines.join("\n")}\n`;
}
