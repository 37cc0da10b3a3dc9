import { parse } from "csv-parse/sync";
import { RE2JS } from "re2js";
import { type Metadata, metadataFault } from "./metadata.ts";

/**
 * Metadata of a recording from its file's name and from a small file beside it, as call recorders write them
 * (docs/decisions/extensions.md). Expressions run in linear time, whatever the name is.
 */

export const SIDECAR_KINDS = ["json", "csv"] as const;
export type SidecarKind = (typeof SIDECAR_KINDS)[number];

/** The longest file beside a recording, characters. The caller does not read more than this. */
export const MAX_SIDECAR_CHARACTERS = 256 * 1024;
/** The most values of a CSV file. Those that the characters allow would take most of a second. */
const MAX_CSV_VALUES = 50_000;
const MAX_PATTERN_CHARACTERS = 1000;
/** No file system has longer names. */
const MAX_FILE_NAME_CHARACTERS = 1024;
/** The column of a CSV file that names the recording of a row. */
const FILE_COLUMNS = ["file", "filename", "file_name", "recording"];

/** How an admin says where metadata are. All that is named counts; the file beside the recording goes before its name. */
export type FileMetadataSettings = {
  /** Such as `{date}_{time}_{agent}_{caller}.wav`. Not beside `expression`. */
  pattern?: string;
  /** A regular expression of RE2 with named groups, such as `^(?<agent>\d+)-`. Not beside `pattern`. */
  expression?: string;
  /** What the text beside the recording is. */
  sidecar?: SidecarKind;
  /** Names of metadata, and the keys or columns beside the recording that they are called there; left out: all, as they are. */
  fields?: Readonly<Record<string, string>>;
};

/** Settings that have been checked. */
export type FileMetadataRule = {
  settings: FileMetadataSettings;
  /** The values in a name; undefined: it does not fit. */
  read: (fileName: string) => [name: string, value: string][] | undefined;
};

export type FileMetadata = { metadata: Metadata } | { problem: string };

/** Checks an admin's settings. A problem is the rest of a sentence that begins with a setting's name. */
export function fileMetadataRule(
  settings: FileMetadataSettings,
): { rule: FileMetadataRule } | { problem: string } {
  const { pattern, expression, fields = {} } = settings;
  if (pattern !== undefined && expression !== undefined)
    return { problem: "pattern and expression exclude each other" };
  for (const [setting, text] of Object.entries({ pattern, expression })) {
    if (text !== undefined && text.length > MAX_PATTERN_CHARACTERS)
      return { problem: `${setting} has more than ${MAX_PATTERN_CHARACTERS} characters` };
  }
  const fault = metadataFault(Object.fromEntries(Object.keys(fields).map((name) => [name, ""])));
  if (fault) return { problem: `fields: ${JSON.stringify(fault.name)} ${fault.is}` };
  const reader =
    pattern !== undefined
      ? readerOfPattern(pattern)
      : expression !== undefined
        ? readerOfExpression(expression)
        : { read: () => [] };
  return "problem" in reader ? reader : { rule: { settings, read: reader.read } };
}

type Reader = Pick<FileMetadataRule, "read"> | { problem: string };

/** A field, with the number of its characters where that is fixed; a star; or text as it is. */
const PART = /\{([^{}]*)\}|(\*)|[^{}*]+|[{}]/g;

function readerOfPattern(pattern: string): Reader {
  const parts = [...pattern.matchAll(PART)];
  const names: string[] = [];
  let source = "";
  for (const [at, [part, field, star]] of parts.entries()) {
    if (part === "{" || part === "}") return { problem: "pattern has a brace that belongs to no field" };
    if (star) source += ".*?";
    else if (field === undefined) source += RE2JS.quote(part);
    else {
      const [name = "", width] = field.split(/:(.*)/s);
      if (width !== undefined && !/^[1-9]\d{0,2}$/.test(width))
        return { problem: `pattern: {${field}} has no width of 1 to 999 characters` };
      const next = parts[at + 1]?.[0];
      if (width === undefined && next?.startsWith("{"))
        return { problem: `pattern: {${name}} and the field behind it have nothing between them` };
      names.push(name);
      source += `(${textOf(width, next)})`;
    }
  }
  const problem = problemOfNames(names, "pattern");
  if (problem !== undefined) return { problem };
  // Recorders differ in the letters of an extension.
  const compiled = RE2JS.compile(`^(?:${source})$`, RE2JS.CASE_INSENSITIVE | RE2JS.DOTALL);
  return {
    read: (fileName) => groupsIn(compiled, fileName, new Map(names.map((name, at) => [name, at + 1]))),
  };
}

/** What a field of a pattern matches: so many characters, or all before the one that follows the field. */
function textOf(width: string | undefined, next: string | undefined): string {
  if (width !== undefined) return `.{${width}}`;
  const [first] = next ?? "";
  return first === undefined || first === "*" ? ".+" : `[^${first.replace(/[\\\]^-]/, "\\$&")}]+`;
}

function readerOfExpression(expression: string): Reader {
  let compiled: RE2JS;
  try {
    compiled = RE2JS.compile(expression);
  } catch (error) {
    return { problem: `expression is none of RE2: ${(error as Error).message}` };
  }
  const groups = new Map(Object.entries(compiled.namedGroups()));
  const problem = problemOfNames([...groups.keys()], "expression");
  return problem === undefined ? { read: (fileName) => groupsIn(compiled, fileName, groups) } : { problem };
}

function problemOfNames(names: readonly string[], setting: string): string | undefined {
  if (names.length === 0)
    return `${setting} names nothing, as ${setting === "pattern" ? "{agent}" : "(?<agent>…)"} does`;
  const twice = names.find((name, at) => names.indexOf(name) !== at);
  if (twice !== undefined) return `${setting} has the name ${twice} twice`;
  const fault = metadataFault(Object.fromEntries(names.map((name) => [name, ""])));
  return fault && `${setting}: ${JSON.stringify(fault.name)} ${fault.is}`;
}

function groupsIn(
  compiled: RE2JS,
  fileName: string,
  groups: ReadonlyMap<string, number>,
): [string, string][] | undefined {
  const matcher = compiled.matcher(fileName);
  if (!matcher.find()) return undefined;
  // A group that is not there, or has no text, says nothing.
  return [...groups].flatMap(([name, at]): [string, string][] => {
    const value = matcher.group(at);
    return value ? [[name, value]] : [];
  });
}

/** What is beside a recording: the text of its sidecar, or the values of its line in a CSV of many. */
export type Beside = string | readonly (readonly [name: string, value: string])[];

/**
 * Returns the metadata of a recording.
 *
 * @param fileName without its folder
 * @param beside a text has no byte order mark; null: there is nothing
 * @returns a problem is a sentence without its end. It does not have the name, which may say who called: it is logged
 */
export function metadataOf(fileName: string, beside: Beside | null, rule: FileMetadataRule): FileMetadata {
  const { settings, read } = rule;
  const ofName = fileName.length > MAX_FILE_NAME_CHARACTERS ? undefined : read(fileName);
  if (!ofName) {
    const asked = settings.pattern ?? settings.expression;
    return { problem: `its name does not fit ${asked}` };
  }
  const found =
    typeof beside === "string" ? readSidecar(fileName, beside, settings) : { values: beside ?? [] };
  if ("problem" in found) return found;
  // Later ones replace earlier ones of the same name.
  const metadata: Metadata = Object.fromEntries([...ofName, ...chosen(found.values, settings)]);
  const fault = metadataFault(metadata);
  if (fault)
    return {
      problem: `the metadata ${fault.name === "" ? "" : `${JSON.stringify(fault.name.slice(0, 100))} `}${fault.is}`,
    };
  return { metadata };
}

type Values = { values: [string, string][] } | { problem: string };

/** Takes the values that `fields` names, under the names that they have there; without it all. */
function chosen(values: Exclude<Beside, string>, { fields }: FileMetadataSettings): Exclude<Beside, string> {
  if (!fields) return values;
  const byKey = new Map(values);
  return Object.entries(fields).flatMap(([name, key]): [string, string][] => {
    const value = byKey.get(key);
    return value === undefined ? [] : [[name, value]];
  });
}

function readSidecar(fileName: string, text: string, { sidecar }: FileMetadataSettings): Values {
  if (sidecar === undefined) return { values: [] };
  if (text.length > MAX_SIDECAR_CHARACTERS)
    return { problem: `the ${sidecar} beside it has more than ${MAX_SIDECAR_CHARACTERS} characters` };
  return sidecar === "json" ? readJson(text) : readCsv(fileName, text);
}

/** Numbers of calls and callers may have more digits than a number in memory, so they stay texts. */
function withNumbersAsWritten(_: string, value: unknown, context?: { source?: string }): unknown {
  return typeof value === "number" ? (context?.source ?? String(value)) : value;
}

/** Texts, numbers and truth values of an object count, and nothing else in it. */
function readJson(text: string): Values {
  let value: unknown;
  try {
    value = JSON.parse(text, withNumbersAsWritten);
  } catch {
    return { problem: "the JSON beside it cannot be read" };
  }
  if (typeof value !== "object" || value === null || Array.isArray(value))
    return { problem: "the JSON beside it is no object" };
  return {
    values: Object.entries(value).flatMap(([name, one]): [string, string][] =>
      typeof one === "string" || typeof one === "boolean" ? [[name, String(one)]] : [],
    ),
  };
}

/** What divides a CSV: what divides the line of names most often divides all lines: a value may have the other characters. */
export function delimiterOf(text: string): string {
  const [names = ""] = text.replace(/^[\uFEFF\r\n]+/, "").split(/[\r\n]/, 1);
  const counted = [",", ";", "\t"].map((each) => ({ each, count: names.split(each).length }));
  return counted.reduce((most, next) => (next.count > most.count ? next : most)).each;
}

/** A line of names, and below it a line for the recording: the only one, or the one whose column names the file. */
function readCsv(fileName: string, text: string): Values {
  const delimiter = delimiterOf(text);
  if (text.split(delimiter).length + text.split("\n").length > MAX_CSV_VALUES)
    return { problem: `the CSV beside it has more than ${MAX_CSV_VALUES} values` };
  let rows: string[][];
  try {
    rows = parse(text, { bom: true, delimiter, skip_empty_lines: true, trim: true });
  } catch (error) {
    return { problem: `the CSV beside it cannot be read: ${csvFault(error)}` };
  }
  const [names = [], ...lines] = rows;
  const at = fileColumnOf(names);
  const own = at < 0 ? lines : lines.filter((line) => line[at] === fileName);
  const [line] = own;
  if (!line || own.length > 1) {
    const which = at < 0 ? "below the names" : "with its name";
    return { problem: `the CSV beside it has ${own.length} lines ${which}; it needs one` };
  }
  return { values: valuesOfLine(names, at, line) };
}

/** Says why a CSV cannot be read, without the values that it has there. */
export const csvFault = (error: unknown): string => (error as Error).message.replace(/,? value is .*$/s, "");

/** Returns the column of a CSV that names the recording of a line; -1: none does. */
export const fileColumnOf = (names: readonly string[]): number =>
  names.findIndex((name) => FILE_COLUMNS.includes(name.toLowerCase()));

/**
 * Returns what a line of a CSV says, by the names of its columns. An empty value says nothing.
 *
 * @param fileColumn as `fileColumnOf` returns it
 */
export function valuesOfLine(
  names: readonly string[],
  fileColumn: number,
  line: readonly string[],
): [name: string, value: string][] {
  return names.flatMap((name, column): [string, string][] => {
    const value = line[column] ?? "";
    return column === fileColumn || value === "" ? [] : [[name, value]];
  });
}
