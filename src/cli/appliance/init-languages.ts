import { LANGUAGES } from "../../domain/languages.ts";
import { nearestName } from "../../lib/nearest.ts";
import { CommandError } from "../frame/context.ts";

/**
 * Reads languages that are separated by commas: codes, or names in English or in the language itself, in any case.
 *
 * @returns codes, each once
 * @throws CommandError `usage` for a language that the program does not know
 */
export function readLanguageCodes(text: string): string[] {
  const codes = text.split(",").map((part) => {
    const asked = part.trim().toLowerCase().normalize();
    const found = LANGUAGES.find(({ code, name, nativeName }) =>
      [code, name.toLowerCase(), nativeName.toLowerCase().normalize()].includes(asked),
    );
    if (found) return found.code;
    const near = nearestName(
      asked,
      LANGUAGES.map(({ name }) => name.toLowerCase()),
    );
    const known = LANGUAGES.map(({ code }) => code).join(", ");
    throw new CommandError(
      "usage",
      `${part.trim() || "an empty text"} is not a language that is known: ${near === undefined ? `there are ${known}` : `did you mean ${near}?`}`,
    );
  });
  return [...new Set(codes)];
}
