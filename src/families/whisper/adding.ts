import { statSync } from "node:fs";
import { basename } from "node:path";
import { LANGUAGES, languageOf } from "../../domain/languages.ts";
import type { ModelLanguage } from "../../domain/model.ts";
import { MODES } from "../../domain/transcription.ts";
import { isGgufFile } from "../../lib/gguf-file.ts";
import type { GivenModel, SaidLanguage } from "../contract.ts";

/**
 * Takes everything but a folder and a GGUF file for a ggml file, also a path without a file: the check of the file then says the
 * reason.
 */
export function givenGgml(path: string): GivenModel | undefined {
  if (statSync(path, { throwIfNoEntry: false })?.isDirectory() || isGgufFile(path)) return undefined;
  const name = basename(path);
  return {
    kind: "a ggml file",
    name: name.replace(/^ggml-/i, "").replace(/\.(?:bin|ggml)$/i, ""),
    files: () => [{ role: "weights", name, path }],
  };
}

/** Returns the languages of a model: those that an admin names, else all that Whisper has a code for, or English. */
export function whisperLanguages(
  said: readonly SaidLanguage[] | undefined,
  { multilingual }: { multilingual: boolean },
): ModelLanguage[] {
  const all = LANGUAGES.filter(({ whisperCode }) => whisperCode !== undefined).map(({ code }) => ({ code }));
  return (said ?? (multilingual ? all : [{ code: "en" }])).map(fillLanguage);
}

/** Fills in name and modes. English has no `codemix`: it is written in Latin letters only. */
function fillLanguage(language: SaidLanguage): ModelLanguage {
  const known = languageOf(language.code);
  const modes = language.modes ?? MODES.filter((mode) => mode !== "codemix" || language.code !== "en");
  return { ...language, modes, name: known?.name ?? language.code };
}
