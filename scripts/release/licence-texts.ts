import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

const STANDARD = join(import.meta.dirname, "../../node_modules/spdx-license-list/licenses");
/** Texts that no package of ours contains. */
const KEPT = join(import.meta.dirname, "licences");

/** Files of a package that its licence asks us to pass on. */
const LICENCE_FILE = /^(un)?(licen[cs]e|copying|copyright|notice)([-.].*)?$/i;

/** Returns the texts of the licence files in a folder, by file name. */
export function licenceFilesIn(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true })
    .filter((entry) => entry.isFile() && LICENCE_FILE.test(entry.name) && !/\.(js|ts|json)$/.test(entry.name))
    .map(({ name }) => name)
    .sort()
    .map((name) => tidy(readFileSync(join(folder, name), "utf8")));
}

/** Returns a text kept in `scripts/release/licences`. */
export function keptText(name: string): string {
  return tidy(readFileSync(join(KEPT, name), "utf8"));
}

/**
 * Returns a licence's standard text with its copyright notice.
 *
 * @param id identifier of SPDX
 * @param copyright the owner's lines, such as `Copyright (c) 2020 Example`
 */
export function standardText(id: string, copyright: string): string {
  const { licenseText } = JSON.parse(readFileSync(join(STANDARD, `${id}.json`), "utf8")) as {
    licenseText: string;
  };
  const text = tidy(licenseText);
  const place = /^Copyright \(c\) <year> .*$/m;
  return place.test(text) ? text.replace(place, () => copyright) : `${copyright}\n\n${text}`;
}

/** Returns the key of a text in the list of parts. */
export function textKey(text: string): string {
  return createHash("sha256").update(text).digest("hex").slice(0, 16);
}

/** Lines without blanks at their ends, so that equal texts of many packages are one. */
function tidy(text: string): string {
  return `${text
    .replace(/^\uFEFF/, "")
    .split(/\r?\n/)
    .map((line) => line.trimEnd())
    .join("\n")
    .trim()}\n`;
}
