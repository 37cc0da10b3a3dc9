import { getStaticTOMLValue } from "toml-eslint-parser";
import { languageOf } from "../../domain/languages.ts";
import {
  MODEL_FAMILIES,
  type ModelDecoding,
  type ModelFamilyName,
  type ModelLanguage,
  type ModelManifest,
  type WhisperTuning,
} from "../../domain/model.ts";
import { MODES, type Mode } from "../../domain/transcription.ts";
import { readToml, TomlError } from "../../lib/toml.ts";

/** A manifest that cannot be used. The message names file, line and key. */
export class ManifestError extends Error {}

/** Largest manifest that is read. */
export const MAX_MANIFEST_BYTES = 64 * 1024;

/** The form of model ids. They name files and appear in requests. */
export const MODEL_ID_PATTERN = /^[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?$/;

/** Says what is wrong with a value, as the end of a sentence that begins with its key; undefined: nothing. */
type Check = (value: unknown) => string | undefined;

const text: Check = (value) =>
  typeof value === "string" && value.trim() !== "" && value.length <= 1000 && !/\p{Cc}/u.test(value)
    ? undefined
    : "must be a text of one line";
const matching =
  (pattern: RegExp, words: string): Check =>
  (value) =>
    typeof value === "string" && pattern.test(value) ? undefined : `must be ${words}`;
const within =
  (min: number, max: number, isWhole: boolean): Check =>
  (value) => {
    const number = typeof value === "bigint" ? Number(value) : value;
    const isRight = typeof number === "number" && number >= min && number <= max;
    if (isRight && (!isWhole || Number.isInteger(number))) return undefined;
    return `must be a ${isWhole ? "whole " : ""}number from ${min} to ${max}`;
  };

const TOP_KEYS: Record<string, Check> = {
  id: matching(MODEL_ID_PATTERN, "1 to 64 of a to z, 0 to 9, dot, dash and underscore"),
  name: text,
  version: text,
  sha256: matching(/^[0-9a-f]{64}$/, "64 lower-case hex digits"),
  licence: text,
  source: text,
  notice: text,
  family: (value) =>
    MODEL_FAMILIES.some((name) => name === value) ? undefined : `must be one of ${MODEL_FAMILIES.join(", ")}`,
};
/** Of a manifest that names none. */
const DEFAULT_FAMILY: ModelFamilyName = "whisper";
const LANGUAGE_KEYS: Record<string, Check> = {
  code: matching(/^[a-z]{2,3}$/, "a language code of two or three letters"),
  name: text,
  modes: (value) => {
    const isRight = Array.isArray(value) && value.length > 0 && value.every((mode) => MODES.includes(mode));
    return isRight && new Set(value).size === value.length
      ? undefined
      : `must be a list of ${MODES.join(", ")}, each once`;
  },
  decoder_language: matching(/^[a-z]{2,3}$/, "one of whisper's language codes"),
};
const DECODING_KEYS: Record<string, Check> = {
  beam_size: within(1, 8, true),
  temperature_increment: within(0, 1, false),
  entropy_threshold: within(0, 100, false),
  accepts_prompt: (value) => (typeof value === "boolean" ? undefined : "must be true or false"),
  unknown_token: text,
  unknown_below: within(0, 1, false),
  max_chunk_seconds: within(1, 30, false),
};
const OPTIONAL = new Set(["notice", "family"]);

/** All keys of a manifest. The keys of tables begin with the table's name. */
export const MANIFEST_KEYS: readonly string[] = [
  ...Object.keys(TOP_KEYS),
  ...Object.keys(LANGUAGE_KEYS).map((key) => `languages.${key}`),
  ...Object.keys(DECODING_KEYS).map((key) => `decoding.${key}`),
];

/**
 * Parses a manifest. Each key must be known and have a valid value, and no required key may be missing.
 *
 * @param source TOML
 * @param path only for messages
 * @throws ManifestError
 */
export function parseManifest(source: string, path: string): ModelManifest {
  const { values, lineOf } = parse(source, path);
  const fail = (key: string, problem: string): never => {
    throw new ManifestError(`${path}:${lineOf(key)}: ${key} ${problem}`);
  };
  const checkTable = (table: Record<string, unknown>, checks: Record<string, Check>, prefix: string) => {
    for (const [key, value] of Object.entries(table)) {
      const check = Object.hasOwn(checks, key) ? checks[key] : undefined;
      const problem = check ? check(value) : "is unknown";
      if (problem) fail(prefix + key, problem);
    }
  };
  const { languages, decoding, ...top } = values;
  checkTable(top, TOP_KEYS, "");
  for (const key of Object.keys(TOP_KEYS)) {
    if (!Object.hasOwn(top, key) && !OPTIONAL.has(key)) fail(key, "is missing");
  }
  if (!Array.isArray(languages) || languages.length === 0)
    return fail("languages", "must be given as [[languages]]");
  const known: ModelLanguage[] = [];
  for (const [index, table] of languages.entries()) {
    const prefix = `languages.${index}.`;
    checkTable(asTable(table), LANGUAGE_KEYS, prefix);
    const language = toLanguage(asTable(table), (key, problem) => fail(prefix + key, problem));
    if (known.some(({ code }) => code === language.code)) fail(`${prefix}code`, "is given twice");
    known.push(language);
  }
  checkTable(asTable(decoding ?? {}), DECODING_KEYS, "decoding.");
  const strings = top as Record<"id" | "name" | "version" | "sha256" | "licence" | "source", string>;
  const { id, name, version, sha256, licence, source: origin } = strings;
  return {
    id,
    name,
    version,
    family: (top.family as ModelFamilyName | undefined) ?? DEFAULT_FAMILY,
    sha256,
    languages: known,
    licence,
    source: origin,
    ...(typeof top.notice === "string" ? { notice: top.notice } : {}),
    decoding: toDecoding(asTable(decoding ?? {})),
  };
}

function asTable(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null
    ? (value as Record<string, unknown>)
    : { "(value)": value };
}

/** Reads the table of a language. The program fills in the name of a language that it knows. */
function toLanguage(
  table: Record<string, unknown>,
  fail: (key: string, problem: string) => never,
): ModelLanguage {
  const {
    code,
    name,
    modes,
    decoder_language: decoderLanguage,
  } = table as {
    code?: string;
    name?: string;
    modes?: Mode[];
    decoder_language?: string;
  };
  if (code === undefined) return fail("code", "is missing");
  if (modes === undefined) return fail("modes", "is missing");
  const known = languageOf(code);
  if (name === undefined && !known)
    return fail("name", "is missing, and the program does not know the language");
  if (decoderLanguage === undefined && known && known.whisperCode === undefined) {
    return fail("decoder_language", `is missing: whisper has no language ${code}`);
  }
  return {
    code,
    name: name ?? known?.name ?? code,
    modes,
    ...(decoderLanguage === undefined ? {} : { decoderLanguage }),
  };
}

function milliseconds(seconds: unknown): number | undefined {
  return seconds === undefined ? undefined : Math.round(Number(seconds) * 1000);
}

function toDecoding(table: Record<string, unknown>): ModelDecoding {
  const number = (key: string) => (table[key] === undefined ? undefined : Number(table[key]));
  const whisper = given<WhisperTuning>({
    beamSize: number("beam_size"),
    temperatureIncrement: number("temperature_increment"),
    entropyThreshold: number("entropy_threshold"),
    acceptsPrompt: table.accepts_prompt as boolean | undefined,
  });
  return given<ModelDecoding>({
    maxChunkMs: milliseconds(table.max_chunk_seconds),
    unknownToken: table.unknown_token as string | undefined,
    unknownBelow: number("unknown_below"),
    whisper: Object.keys(whisper).length === 0 ? undefined : whisper,
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

/** Renders a manifest as TOML. `parseManifest` reads the same manifest from it. */
export function renderManifest(manifest: ModelManifest): string {
  const lines: string[] = [];
  const add = (key: string, value: string | number | boolean | readonly string[] | undefined) => {
    if (value !== undefined) lines.push(`${key} = ${JSON.stringify(value)}`);
  };
  const { decoding } = manifest;
  const { whisper = {} } = decoding;
  for (const key of ["id", "name", "version", "sha256", "licence", "source", "notice"] as const) {
    add(key, manifest[key]);
  }
  if (manifest.family !== DEFAULT_FAMILY) add("family", manifest.family);
  for (const { code, name, modes, decoderLanguage } of manifest.languages) {
    lines.push("", "[[languages]]");
    add("code", code);
    add("name", name);
    add("modes", modes);
    add("decoder_language", decoderLanguage);
  }
  lines.push("", "[decoding]");
  add("beam_size", whisper.beamSize);
  add("temperature_increment", whisper.temperatureIncrement);
  add("entropy_threshold", whisper.entropyThreshold);
  add("accepts_prompt", whisper.acceptsPrompt);
  add("max_chunk_seconds", decoding.maxChunkMs === undefined ? undefined : decoding.maxChunkMs / 1000);
  add("unknown_token", decoding.unknownToken);
  add("unknown_below", decoding.unknownBelow);
  return `${lines.join("\n")}\n`;
}
