import { existsSync, readFileSync, statSync } from "node:fs";
import { basename, join } from "node:path";
import { fileOf, type ModelFiles, type ModelLanguage } from "../../domain/model.ts";
import type { RecognizerSettings } from "../../domain/recognition.ts";
import { text } from "../../families/checks.ts";
import type { ModelFamily } from "../../families/contract.ts";
import { createFamilies, FAMILIES } from "../../families/families.ts";

/**
 * A family that only tests have. It shows that the contract of families fits more than those of the program: own roles of
 * files, own keys of manifests, own settings and windows, and a deterministic recognizer without a probability of no
 * speech. Its words come from a file.
 */
export const SCRIPTED_FAMILY = "scripted";

/** `ending`: what is written behind each text, from the manifest's key of the same name. */
export type ScriptedSettings = RecognizerSettings & { head: string; ending?: string };

/** Returns the files of a scripted model: a list of tokens, and the text that it recognizes in all loud audio. */
export const scriptedFiles = (folder: string): ModelFiles => ({
  model: `${folder}/model.txt`,
  tokens: `${folder}/tokens.txt`,
});

/** @throws Error for a text with a word that is not among the tokens */
function checkFiles(files: ModelFiles): void {
  const tokens = new Set(readFileSync(fileOf(files, "tokens"), "utf8").split("\n"));
  const unknown = readFileSync(fileOf(files, "model"), "utf8")
    .split(" ")
    .find((word) => !tokens.has(word));
  if (unknown !== undefined) throw new Error(`the model writes ${unknown}, which is not a token`);
}

export const scriptedFamily: ModelFamily = {
  name: SCRIPTED_FAMILY,
  title: "Scripted",
  engine: "scripted",
  roles: { main: "model", others: ["tokens"] },
  keys: {
    tuning: "scripted",
    decoding: { ending: { field: "ending", check: text } },
    languages: { head: { field: "head", check: text } },
  },
  mayUseGpu: false,
  canTimeWords: () => false,
  canQuantise: false,
  given(path) {
    const isFolder = statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;
    if (!isFolder || !existsSync(join(path, "model.txt"))) return undefined;
    const files = ["model", "tokens"].map((role) => {
      const name = `${role}.txt`;
      return { role, name, path: join(path, name) };
    });
    return { kind: "the folder of a scripted model", name: basename(path), files: () => files };
  },
  check: checkFiles,
  describe: (files, { languages = [{ code: "en" }], decoding = {} }) => {
    if (files) checkFiles(files);
    return {
      family: SCRIPTED_FAMILY,
      languages: languages.map(
        ({ modes = ["native"], ...language }): ModelLanguage => ({ ...language, modes, name: language.code }),
      ),
      decoding,
    };
  },
  needs: () => ({ stateBytes: 1_000, isOneThread: true }),
  trial: { hasLanguageParts: false, knowsEnglish: false },
  windowMs: 1_000,
  maxChunkMs: 20_000,
  unknownBelow: 0,
  settingsFor({ language }, { languages, decoding }): ScriptedSettings {
    const own = languages.find(({ code }) => code === language) as { head?: string } | undefined;
    const { ending }: { ending?: string } = decoding.tuning?.scripted ?? {};
    return { language, head: own?.head ?? `head_${language}`, ...(ending === undefined ? {} : { ending }) };
  },
  singlePass: (settings) => settings,
};

/** The families of the program and the scripted one. */
export const WITH_SCRIPTED = createFamilies([...FAMILIES.list, scriptedFamily]);
