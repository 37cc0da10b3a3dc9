import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";

const FONTS = join(import.meta.dirname, "../node_modules/@fontsource");

/** A font file: letters of one script in one weight. */
type ConsoleFont = { name: string; path: string; family: string; weight: number; range: string };

/** Package, subset of it, and weights. Text of the interface has two weights, transcripts have one. The sign of the rupee is in the Tamil subset, the smallest. */
const WANTED: readonly [name: string, subset: string, weights: readonly number[]][] = [
  ["noto-sans", "latin", [400, 600]],
  ["noto-sans", "latin-ext", [400]],
  ["noto-sans-devanagari", "devanagari", [400, 600]],
  ["noto-sans-bengali", "bengali", [400]],
  ["noto-sans-gujarati", "gujarati", [400]],
  ["noto-sans-gurmukhi", "gurmukhi", [400]],
  ["noto-sans-kannada", "kannada", [400]],
  ["noto-sans-malayalam", "malayalam", [400]],
  ["noto-sans-meetei-mayek", "meetei-mayek", [400]],
  ["noto-sans-ol-chiki", "ol-chiki", [400]],
  ["noto-sans-oriya", "oriya", [400]],
  ["noto-sans-tamil", "tamil", [400, 600]],
  ["noto-sans-telugu", "telugu", [400]],
  ["noto-sans-arabic", "arabic", [400]],
  ["noto-nastaliq-urdu", "arabic", [400]],
];

const MAIN_FAMILY = "Shruti Sans";

/** All scripts are one family. Nastaliq has its own: Urdu and Kashmiri are set in it, and its lines need more height. */
const familyOf = (name: string) => (name === "noto-nastaliq-urdu" ? "Shruti Nastaliq" : MAIN_FAMILY);

/** Signs that many subsets contain; the last of them would be loaded for each. */
const SHARED: readonly [sign: string, from: string][] = [
  ["U+20B9", "tamil"],
  ["U+0964-0965", "devanagari"],
  ["U+200C-200E", "latin"],
  ["U+2010-2011", "latin"],
];

/** Leaves each shared sign to one subset of the family. */
function ownRange(name: string, subset: string, range: string): string {
  if (familyOf(name) !== MAIN_FAMILY) return range;
  const others = SHARED.filter(([, from]) => from !== subset).map(([sign]) => sign);
  return range
    .split(",")
    .flatMap((one) => (one === "U+20AD-20C0" ? ["U+20AD-20B8", "U+20BA-20C0"] : [one]))
    .filter((one) => !others.includes(one))
    .join(",");
}

/** Lists the font files. A browser loads those whose letters a page shows, because each has its `unicode-range`. */
export function consoleFonts(): ConsoleFont[] {
  return WANTED.flatMap(([name, subset, weights]) => {
    const ranges = JSON.parse(readFileSync(join(FONTS, name, "unicode.json"), "utf8")) as Record<
      string,
      string
    >;
    if (ranges[subset] === undefined) throw new Error(`${name} has no subset ${subset}`);
    const range = ownRange(name, subset, ranges[subset]);
    return weights.map((weight) => {
      const path = join(FONTS, name, "files", `${name}-${subset}-${weight}-normal.woff2`);
      const hash = createHash("sha256").update(readFileSync(path)).digest("hex").slice(0, 8);
      return { name: `${subset}-${weight}-${hash}.woff2`, path, family: familyOf(name), weight, range };
    });
  });
}

/** The weights of the page's texts. */
const WEIGHTS = [400, 600] as const;

/**
 * Returns the rules that name the font files. Each script has a rule for each weight, with one file for both where there is
 * one: a browser that finds no rule of a text's weight for its letters takes a font of the system.
 */
export function fontRules(fonts: readonly ConsoleFont[]): string {
  return fonts
    .flatMap((font) => {
      const isOnly = fonts.every(
        (other) => other === font || other.family !== font.family || other.range !== font.range,
      );
      return isOnly ? WEIGHTS.map((weight) => ({ ...font, weight })) : [font];
    })
    .map(
      ({ name, family, weight, range }) =>
        `@font-face{font-family:"${family}";font-style:normal;font-display:swap;font-weight:${weight};` +
        `src:url(${name}) format("woff2");unicode-range:${range}}`,
    )
    .join("");
}
