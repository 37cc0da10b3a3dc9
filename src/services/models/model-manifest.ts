import { getStaticTOMLValue } from "toml-eslint-parser";
import { CTC_FEATURES, type TokenSpan } from "../../domain/ctc-settings.ts";
import { languageOf } from "../../domain/languages.ts";
import {
  type CtcTuning,
  engineOf,
  LETTER_WAYS,
  type LetterWay,
  MODEL_ENGINES,
  MODEL_FAMILIES,
  type ModelDecoding,
  type ModelFamilyName,
  type ModelLanguage,
  type ModelManifest,
  type ModelPart,
  type WhisperTuning,
} from "../../domain/model.ts";
import { MODES, type Mode } from "../../domain/transcription.ts";
import { TRIAL_VERDICTS, type TrialVerdict } from "../../domain/trial.ts";
import { readToml, TomlError } from "../../lib/toml.ts";

/** A manifest that cannot be used. The message names file, line and key. */
export class ManifestError extends Error {}

/** Largest manifest that is read. */
export const MAX_MANIFEST_BYTES = 64 * 1024;

/** The form of model ids. They name files and appear in requests. */
export const MODEL_ID_PATTERN = /^[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?$/;

/** Says what is wrong with a value, as the end of a sentence that begins with its key; undefined: nothing. */
type Check = (value: unknown) => string | undefined;

const trueOrFalse: Check = (value) => (typeof value === "boolean" ? undefined : "must be true or false");
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

const oneOf =
  (names: readonly string[]): Check =>
  (value) =>
    names.some((name) => name === value) ? undefined : `must be one of ${names.join(", ")}`;

/** The form of the names of a model's files. */
const PART_NAME = /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$/;
/** Largest number of a token. */
const MAX_TOKEN = 9_999_999;

const TOP_KEYS: Record<string, Check> = {
  id: matching(MODEL_ID_PATTERN, "1 to 64 of a to z, 0 to 9, dot, dash and underscore"),
  name: text,
  version: text,
  sha256: matching(/^[0-9a-f]{64}$/, "64 lower-case hex digits"),
  licence: text,
  source: text,
  notice: text,
  engine: oneOf(MODEL_ENGINES),
  family: oneOf(MODEL_FAMILIES),
};
const PART_KEYS: Record<string, Check> = {
  role: oneOf(["model", "tokens", "weights"]),
  name: matching(PART_NAME, "a plain file name"),
  sha256: matching(/^[0-9a-f]{64}$/, "64 lower-case hex digits"),
};
/** Files of a model that has several: each of these roles once, and any number of `weights`. */
const SINGLE_ROLES = ["model", "tokens"];
/** Family of a manifest that names none. */
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
  token_span: (value) => (toSpan(value) ? undefined : "must be the numbers of its first and last token"),
  trial: oneOf(TRIAL_VERDICTS),
  letters: oneOf(LETTER_WAYS),
};
const DECODING_KEYS: Record<string, Check> = {
  beam_size: within(1, 8, true),
  temperature_increment: within(0, 1, false),
  entropy_threshold: within(0, 100, false),
  accepts_prompt: trueOrFalse,
  timestamps: trueOrFalse,
  unknown_token: text,
  unknown_below: within(0, 1, false),
  max_chunk_seconds: within(1, 30, false),
  features: oneOf(CTC_FEATURES),
};
const OPTIONAL = new Set(["notice", "family", "engine"]);
/** Keys of `decoding` that only the models of one engine have. */
const ENGINE_KEYS: Record<string, (typeof MODEL_ENGINES)[number]> = {
  beam_size: "whisper",
  temperature_increment: "whisper",
  entropy_threshold: "whisper",
  accepts_prompt: "whisper",
  timestamps: "whisper",
  features: "onnx-ctc",
};

/** All keys of a manifest. The keys of tables begin with the table's name. */
export const MANIFEST_KEYS: readonly string[] = [
  ...Object.keys(TOP_KEYS),
  ...Object.keys(PART_KEYS).map((key) => `files.${key}`),
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
  reader.checkTable(top, TOP_KEYS, "");
  const parts = files === undefined ? undefined : readParts(files, reader);
  for (const key of Object.keys(TOP_KEYS)) {
    const isRequired = !OPTIONAL.has(key) && !(key === "sha256" && parts);
    if (!Object.hasOwn(top, key) && isRequired) reader.fail(key, "is missing");
  }
  const family = readFamily(top, parts, reader);
  const known = readLanguages(languages, family, reader);
  const tuning = asTable(decoding ?? {});
  reader.checkTable(tuning, DECODING_KEYS, "decoding.");
  for (const key of Object.keys(tuning)) {
    const engine = ENGINE_KEYS[key];
    if (engine && engine !== engineOf(family))
      reader.fail(`decoding.${key}`, `is only for the engine ${engine}`);
  }
  const strings = top as Record<"id" | "name" | "version" | "sha256" | "licence" | "source", string>;
  const { id, name, version, licence, source: origin } = strings;
  return {
    id,
    name,
    version,
    family,
    sha256: parts?.find(({ role }) => role === "model")?.sha256 ?? strings.sha256,
    ...(parts ? { parts } : {}),
    languages: known,
    licence,
    source: origin,
    ...(typeof top.notice === "string" ? { notice: top.notice } : {}),
    decoding: toDecoding(tuning),
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
): ModelFamilyName {
  const family = (top.family as ModelFamilyName | undefined) ?? DEFAULT_FAMILY;
  const engine = engineOf(family);
  if (top.engine !== undefined && top.engine !== engine)
    fail("engine", `must be ${engine} for the family ${family}`);
  if (engine === "whisper" && parts) fail("files", "is not for whisper, which has one file and sha256");
  if (engine !== "whisper" && !parts) fail("files", `must be given as [[files]] for the family ${family}`);
  if (parts && top.sha256 !== undefined) fail("sha256", "is given by [[files]]");
  return family;
}

function readParts(files: unknown, reader: Reader): ModelPart[] {
  if (!Array.isArray(files)) return reader.fail("files", "must be given as [[files]]");
  const parts: ModelPart[] = [];
  for (const [index, value] of files.entries()) {
    const prefix = `files.${index}.`;
    const table = asTable(value);
    reader.checkTable(table, PART_KEYS, prefix);
    for (const key of Object.keys(PART_KEYS)) {
      if (!Object.hasOwn(table, key)) reader.fail(prefix + key, "is missing");
    }
    const part = table as ModelPart;
    if (parts.some(({ name }) => name === part.name)) reader.fail(`${prefix}name`, "is given twice");
    parts.push({ role: part.role, name: part.name, sha256: part.sha256 });
  }
  for (const role of SINGLE_ROLES) {
    if (parts.filter((part) => part.role === role).length !== 1) {
      reader.fail("files", `must have the role ${role} exactly once`);
    }
  }
  return parts;
}

function readLanguages(languages: unknown, family: ModelFamilyName, reader: Reader): ModelLanguage[] {
  if (!Array.isArray(languages) || languages.length === 0)
    return reader.fail("languages", "must be given as [[languages]]");
  const known: ModelLanguage[] = [];
  for (const [index, table] of languages.entries()) {
    const prefix = `languages.${index}.`;
    reader.checkTable(asTable(table), LANGUAGE_KEYS, prefix);
    const fail = (key: string, problem: string) => reader.fail(prefix + key, problem);
    const language = toLanguage(asTable(table), family, fail);
    if (known.some(({ code }) => code === language.code)) fail("code", "is given twice");
    known.push(language);
  }
  return known;
}

/** Reads first and last token, in this order; undefined for anything else. */
function toSpan(value: unknown): TokenSpan | undefined {
  if (!Array.isArray(value) || value.length !== 2) return undefined;
  const [first, last] = value.map(Number);
  const isToken = (number: number | undefined) =>
    number !== undefined && Number.isInteger(number) && number >= 0 && number <= MAX_TOKEN;
  if (first === undefined || last === undefined || !isToken(first) || !isToken(last) || first > last) {
    return undefined;
  }
  return { first, last };
}

function asTable(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null
    ? (value as Record<string, unknown>)
    : { "(value)": value };
}

/** Reads the table of a language. The program fills in the name of a language that it knows. */
function toLanguage(
  table: Record<string, unknown>,
  family: ModelFamilyName,
  fail: (key: string, problem: string) => never,
): ModelLanguage {
  const {
    code,
    name,
    modes,
    decoder_language: decoderLanguage,
    token_span: span,
    trial,
    letters,
  } = table as {
    code?: string;
    name?: string;
    modes?: Mode[];
    decoder_language?: string;
    token_span?: unknown;
    trial?: TrialVerdict;
    letters?: LetterWay;
  };
  const isWhisper = family === "whisper";
  if (code === undefined) return fail("code", "is missing");
  if (modes === undefined) return fail("modes", "is missing");
  const known = languageOf(code);
  if (name === undefined && !known)
    return fail("name", "is missing, and the program does not know the language");
  if (span !== undefined && isWhisper) return fail("token_span", "is not for whisper");
  if (letters !== undefined && !isWhisper) return fail("letters", "is only for whisper");
  if (decoderLanguage !== undefined && !isWhisper) return fail("decoder_language", "is only for whisper");
  if (isWhisper && decoderLanguage === undefined && known && known.whisperCode === undefined) {
    return fail("decoder_language", `is missing: whisper has no language ${code}`);
  }
  return {
    code,
    name: name ?? known?.name ?? code,
    modes,
    ...given<Pick<ModelLanguage, "decoderLanguage" | "tokenSpan" | "letters" | "trial">>({
      decoderLanguage,
      letters,
      tokenSpan: toSpan(span),
      trial,
    }),
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
    timestamps: table.timestamps as boolean | undefined,
  });
  const ctc = given<CtcTuning>({ features: table.features as CtcTuning["features"] });
  return given<ModelDecoding>({
    maxChunkMs: milliseconds(table.max_chunk_seconds),
    unknownToken: table.unknown_token as string | undefined,
    unknownBelow: number("unknown_below"),
    whisper: Object.keys(whisper).length === 0 ? undefined : whisper,
    ctc: Object.keys(ctc).length === 0 ? undefined : ctc,
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
  const add = (
    key: string,
    value: string | number | boolean | readonly string[] | readonly number[] | undefined,
  ) => {
    if (value !== undefined) lines.push(`${key} = ${JSON.stringify(value)}`);
  };
  const { decoding, parts = [] } = manifest;
  const { whisper = {}, ctc = {} } = decoding;
  for (const key of ["id", "name", "version", "sha256", "licence", "source", "notice"] as const) {
    if (key !== "sha256" || parts.length === 0) add(key, manifest[key]);
  }
  if (manifest.family !== DEFAULT_FAMILY) {
    add("engine", engineOf(manifest.family));
    add("family", manifest.family);
  }
  for (const { role, name, sha256 } of parts) {
    lines.push("", "[[files]]");
    add("role", role);
    add("name", name);
    add("sha256", sha256);
  }
  for (const language of manifest.languages) {
    const { code, name, modes, decoderLanguage, tokenSpan, letters, trial } = language;
    lines.push("", "[[languages]]");
    add("code", code);
    add("name", name);
    add("modes", modes);
    add("decoder_language", decoderLanguage);
    add("token_span", tokenSpan && [tokenSpan.first, tokenSpan.last]);
    add("trial", trial);
    add("letters", letters);
  }
  lines.push("", "[decoding]");
  add("beam_size", whisper.beamSize);
  add("temperature_increment", whisper.temperatureIncrement);
  add("entropy_threshold", whisper.entropyThreshold);
  add("accepts_prompt", whisper.acceptsPrompt);
  add("timestamps", whisper.timestamps);
  add("features", ctc.features);
  add("max_chunk_seconds", decoding.maxChunkMs === undefined ? undefined : decoding.maxChunkMs / 1000);
  add("unknown_token", decoding.unknownToken);
  add("unknown_below", decoding.unknownBelow);
  return `${lines.join("\n")}\n`;
}
