import type { Config } from "../config/schema.ts";
import { AppError } from "../domain/errors.ts";
import { type Numerals, type TranscriptionRequest, textLanguageOf } from "../domain/transcription.ts";
import { scriptRefusal, scriptsFor } from "../transliteration/offered.ts";
import { WRITTEN_LANGUAGES } from "../written/written-languages.ts";

/** What requests in a language can ask for as `numerals` and `script`. */
export type WrittenForms = { numerals: Numerals[]; scripts: string[] };

/**
 * Returns the forms in which text of a language can be written.
 *
 * @param language ISO code
 * @returns undefined where the config does not switch on the written form (docs/decisions/extensions.md)
 */
export function writtenFormsOf({ capabilities }: Config, language: string): WrittenForms | undefined {
  if (!capabilities.written_form) return undefined;
  return {
    numerals: WRITTEN_LANGUAGES.has(language) ? ["spoken", "written"] : ["spoken"],
    scripts: [...scriptsFor(language)],
  };
}

/** @throws AppError `invalid_request`, detail `numerals` or `script`, where the language has no such form */
export function checkWrittenForm({ numerals, script, ...request }: TranscriptionRequest): void {
  const language = textLanguageOf(request);
  if (numerals && !WRITTEN_LANGUAGES.has(language)) {
    const message = `Numbers of the language ${language} cannot be written in figures yet.`;
    throw new AppError("invalid_request", { detail: "numerals", message });
  }
  const refusal = script === undefined ? undefined : scriptRefusal(language, script);
  if (refusal !== undefined) throw new AppError("invalid_request", { detail: "script", message: refusal });
}
