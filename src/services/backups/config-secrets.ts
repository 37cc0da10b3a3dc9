import type { AST } from "toml-eslint-parser";
import { SECRET_SETTINGS } from "../../config/schema.ts";
import { readToml } from "../../lib/toml.ts";

/** Names the secret settings that a config file sets. @throws TomlError */
export function secretsIn(text: string): string[] {
  return secretPairs(text)
    .filter(({ pair }) => !(pair.value.type === "TOMLValue" && pair.value.value === ""))
    .map(({ setting }) => setting);
}

/**
 * Empties the values of secret settings in the text of a config file, and keeps everything else, comments included. A
 * comment can hold a secret, too: lines of comments that assign a secret setting are removed.
 *
 * @throws TomlError
 */
export function withoutSecrets(text: string): string {
  let result = text;
  const ranges = secretPairs(text).map(({ pair }) => pair.value.range);
  for (const [start, end] of ranges.sort(([a], [b]) => b - a)) {
    result = `${result.slice(0, start)}""${result.slice(end)}`;
  }
  const names = SECRET_SETTINGS.map((setting) => setting.split(".").at(-1)).join("|");
  const commented = new RegExp(
    `^[ \\t]*#[^\\n]*\\b(?:${names})\\b[ \\t]*=[ \\t]*["'][^"'\\n][^\\n]*\\n?`,
    "gm",
  );
  return result.replaceAll(commented, "");
}

function secretPairs(text: string): { setting: string; pair: AST.TOMLKeyValue }[] {
  return readToml(text)
    .body[0].body.filter((node) => node.type === "TOMLTable")
    .flatMap((table) =>
      table.body.map((pair) => ({ setting: `${table.resolvedKey.join(".")}.${nameOf(pair)}`, pair })),
    )
    .filter(({ setting }) => SECRET_SETTINGS.includes(setting));
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
