import type { AST } from "toml-eslint-parser";
import { SECRET_SETTINGS } from "../../config/schema.ts";
import { readToml } from "../../lib/toml.ts";

/** Names the secret settings that a config file sets. @throws TomlError */
export function secretsIn(text: string): string[] {
  return secretPairs(text)
    .filter(({ pair }) => !isEmpty(pair))
    .map(({ setting }) => setting);
}

/**
 * Empties the values of secret settings in the text of a config file, and keeps everything else, comments included. A
 * comment can hold a secret, too: comments that assign a secret setting are removed.
 *
 * @throws TomlError
 */
export function withoutSecrets(text: string): string {
  const cuts = [
    ...secretPairs(text).map(({ pair }) => ({ range: pair.value.range, left: '""' })),
    ...readToml(text)
      .comments.filter(({ value }) => ASSIGNED.test(value))
      .map(({ range }) => ({ range: withItsLine(text, range), left: "" })),
  ];
  let result = text;
  for (const { range, left } of cuts.sort((a, b) => b.range[0] - a.range[0])) {
    result = `${result.slice(0, range[0])}${left}${result.slice(range[1])}`;
  }
  return result;
}

/** A secret setting with a value, anywhere in a comment. */
const ASSIGNED = new RegExp(
  `\\b(?:${SECRET_SETTINGS.map((setting) => setting.split(".").at(-1)).join("|")})\\b[ \\t]*=[ \\t]*["'][^"']`,
);

/** Extends the range of a comment that is alone on its line to the whole line. */
function withItsLine(text: string, [start, end]: readonly [number, number]): readonly [number, number] {
  const lineStart = text.lastIndexOf("\n", start - 1) + 1;
  const isAlone = text.slice(lineStart, start).trim() === "";
  const lineEnd = text.indexOf("\n", end);
  return isAlone ? [lineStart, lineEnd < 0 ? text.length : lineEnd + 1] : [start, end];
}

const secretPairs = (text: string) => pairsOf(text, SECRET_SETTINGS);

/**
 * Turns settings in the text of a config file into comments. Those that are empty stay.
 *
 * @param reason a comment before each of them
 * @returns the text, and the settings that it had
 * @throws TomlError
 */
export function commentOut(
  text: string,
  settings: readonly string[],
  reason: string,
): { text: string; found: string[] } {
  const pairs = pairsOf(text, settings).filter(({ pair }) => !isEmpty(pair));
  let result = text;
  for (const { pair } of pairs.toReversed()) {
    const [start, end] = pair.range;
    const lines = text.slice(start, end).replaceAll("\n", "\n# ");
    result = `${result.slice(0, start)}# ${reason}\n# ${lines}${result.slice(end)}`;
  }
  return { text: result, found: pairs.map(({ setting }) => setting) };
}

const isEmpty = ({ value }: AST.TOMLKeyValue) => value.type === "TOMLValue" && value.value === "";

function pairsOf(text: string, settings: readonly string[]): { setting: string; pair: AST.TOMLKeyValue }[] {
  return readToml(text)
    .body[0].body.filter((node) => node.type === "TOMLTable")
    .flatMap((table) =>
      table.body.map((pair) => ({ setting: `${table.resolvedKey.join(".")}.${nameOf(pair)}`, pair })),
    )
    .filter(({ setting }) => settings.includes(setting));
}

function nameOf({ key }: AST.TOMLKeyValue): string {
  return key.keys.map((part) => (part.type === "TOMLBare" ? part.name : part.value)).join(".");
}

/** Replaces the data directory in the text of a config file, or adds it. */
export function withDataDir(text: string, dataDir: string): string {
  const value = JSON.stringify(dataDir);
  for (const node of readToml(text).body[0].body) {
    if (node.type !== "TOMLTable" || node.resolvedKey.join(".") !== "storage") continue;
    const pair = node.body.find((each) => nameOf(each) === "data_dir");
    if (pair) return `${text.slice(0, pair.value.range[0])}${value}${text.slice(pair.value.range[1])}`;
    const end = node.key.range[1] + 1;
    return `${text.slice(0, end)}\ndata_dir = ${value}${text.slice(end)}`;
  }
  return `${text.trimEnd()}\n\n[storage]\ndata_dir = ${value}\n`;
}
