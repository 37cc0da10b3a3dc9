import { existsSync, readFileSync, statSync } from "node:fs";
import { readdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { type Static, Type } from "@sinclair/typebox";
import { Value } from "@sinclair/typebox/value";
import type { PunctuationFiles, PunctuationModel } from "../../domain/model.ts";
import { syncPath, writeDurably } from "../../lib/durable-files.ts";
import { errorMessage } from "../../lib/error-message.ts";
import { makeFolder } from "../../lib/give-to-owner.ts";
import { findPcsFiles, PCS_NAMES, readPcsFiles } from "../../punctuation/pcs-files.ts";
import { sha256OfFile } from "../../store/file-hash.ts";
import { discardStaged, stageFolder } from "./model-files.ts";

/**
 * The installed model of punctuation as files of the directory of models: a folder with the files in `_punctuation/`, and
 * `card.json`, which names it. No model can have an ID with this beginning. What the card names is installed: it is written last.
 */

/** What `--kind` calls it. */
export const PUNCTUATION_KIND = "punctuation";

/** Names of folders that this module makes, and no other path. */
const FOLDER_PATTERN = "^[0-9a-f]{12}-[0-9a-f]{8}$";
const FOLDER = new RegExp(FOLDER_PATTERN);

const CARD_SCHEMA = Type.Object({
  folder: Type.String({ pattern: FOLDER_PATTERN }),
  sha256: Type.Object({ model: Type.String(), tokenizer: Type.String(), config: Type.String() }),
  bytes: Type.Number(),
  sizes: Type.Record(Type.String(), Type.Number()),
  languages: Type.Array(Type.String()),
  licenceFiles: Type.Array(Type.String()),
  licence: Type.Optional(Type.String()),
  source: Type.Optional(Type.String()),
});

/**
 * What the model was when it was added, and what an admin said of it. `folder`: of its files, within `_punctuation`. `bytes`: of
 * all files together; `sizes`: of each of those that are loaded. `licenceFiles`: names of the licence texts that came with it.
 */
export type PunctuationCard = Static<typeof CARD_SCHEMA>;

/** What an admin says of it. `sha256`: a net with another hash is refused. */
export type PunctuationOptions = Partial<Pick<PunctuationCard, "licence" | "source">> & { sha256?: string };

const DIRECTORY = "_punctuation";
const CARD = "card.json";
const CARD_MODE = 0o600;
const FOLDER_MODE = 0o755;
const MAX_LICENCE_BYTES = 1024 * 1024;

function homeIn(directory: string): string {
  return join(directory, DIRECTORY);
}

/** Reads the card; undefined: no model of punctuation is installed, or its card is damaged. */
export function readPunctuationCard(directory: string): PunctuationCard | undefined {
  try {
    const card: unknown = JSON.parse(readFileSync(join(homeIn(directory), CARD), "utf8"));
    return Value.Check(CARD_SCHEMA, card) ? card : undefined;
  } catch {
    return undefined;
  }
}

const hasCard = (directory: string) => existsSync(join(homeIn(directory), CARD));

function filesIn(folder: string): PunctuationFiles {
  return {
    modelPath: join(folder, PCS_NAMES.model),
    tokenizerPath: join(folder, PCS_NAMES.tokenizer),
    configPath: join(folder, PCS_NAMES.config),
  };
}

/** Returns the installed model of punctuation. Its files are not looked at. */
export function installedPunctuation(directory: string): PunctuationModel | undefined {
  const card = readPunctuationCard(directory);
  if (!card) return undefined;
  const files = filesIn(join(homeIn(directory), card.folder));
  return { ...files, expected: card.sha256, languages: card.languages };
}

/**
 * Copies the files of a model into the directory of models, licence texts with them. They replace those of another one.
 *
 * @param folder as its maker publishes it
 * @param tryOut loads the copy
 * @returns the card that is kept beside them
 * @throws Error with the reason when the files are not of the layout; what `tryOut` throws
 */
export async function placePunctuation(
  directory: string,
  folder: string,
  tryOut: (files: PunctuationFiles) => Promise<void>,
  { sha256: wanted, ...said }: PunctuationOptions = {},
): Promise<PunctuationCard> {
  const home = homeIn(directory);
  const { licences, ...paths } = findPcsFiles(folder);
  readPcsFiles(paths);
  const kept = licences.filter((name) => isShortFile(join(folder, name)));
  const sources = [
    { role: "model", name: PCS_NAMES.model, path: paths.modelPath },
    { role: "tokenizer", name: PCS_NAMES.tokenizer, path: paths.tokenizerPath },
    { role: "config", name: PCS_NAMES.config, path: paths.configPath },
    ...kept.map((name) => ({ role: "licence", name, path: join(folder, name) })),
  ];
  makeFolder(directory, FOLDER_MODE);
  const staged = await stageFolder(sources, home);
  try {
    const hashOf = (role: string) => staged.parts.find((part) => part.role === role)?.sha256 ?? "";
    const sha256 = { model: hashOf("model"), tokenizer: hashOf("tokenizer"), config: hashOf("config") };
    if (wanted !== undefined && wanted.toLowerCase() !== sha256.model)
      throw new Error(`The SHA-256 of the net is ${sha256.model}, and not ${wanted}.`);
    // The engine will load the copy, and the original may have changed since the first check.
    const copies = filesIn(staged.path);
    const { config } = readPcsFiles(copies);
    await tryOut(copies);
    const sizes = Object.fromEntries(
      Object.values(PCS_NAMES).map((each) => [each, statSync(join(staged.path, each)).size]),
    );
    const name = `${sha256.model.slice(0, 12)}-${crypto.randomUUID().slice(0, 8)}`;
    await rename(staged.path, join(home, name));
    const card = {
      folder: name,
      sha256,
      bytes: staged.bytes,
      sizes,
      languages: config.languages,
      licenceFiles: kept,
      ...said,
    };
    await writeDurably(join(home, CARD), `${JSON.stringify(card)}\n`, CARD_MODE);
    await syncPath(home);
    await removeOthers(home, name);
    return card;
  } finally {
    await discardStaged(staged);
  }
}

function isShortFile(path: string): boolean {
  const found = statSync(path, { throwIfNoEntry: false });
  return found?.isFile() === true && found.size <= MAX_LICENCE_BYTES;
}

/** Removes the folders of earlier models, also those that a killed command has left. */
async function removeOthers(home: string, kept: string | undefined): Promise<void> {
  for (const name of await readdir(home)) {
    if (FOLDER.test(name) && name !== kept) await rm(join(home, name), { recursive: true, force: true });
  }
}

/** Removes the model of punctuation, also one whose card is damaged; false when there was none. */
export async function deletePunctuation(directory: string): Promise<boolean> {
  if (!hasCard(directory)) return false;
  const home = homeIn(directory);
  await rm(join(home, CARD), { force: true });
  await syncPath(home);
  await removeOthers(home, undefined);
  return true;
}

/** Says what is wrong with the installed model as far as its card and the sizes of its files show it; undefined: nothing. */
export function punctuationProblem(directory: string): string | undefined {
  const card = readPunctuationCard(directory);
  if (!card) {
    const path = join(homeIn(directory), CARD);
    return hasCard(directory)
      ? `${path} is damaged: the model of punctuation is not used until it is added again`
      : undefined;
  }
  const folder = join(homeIn(directory), card.folder);
  for (const [name, bytes] of Object.entries(card.sizes)) {
    const found = statSync(join(folder, name), { throwIfNoEntry: false });
    if (!found?.isFile()) return `the model of punctuation has no ${name}`;
    if (found.size !== bytes)
      return `the model of punctuation: ${name} has ${found.size} bytes, and ${bytes} when it was added`;
  }
  return undefined;
}

/**
 * Reads the installed model to its end, and compares it with its card.
 *
 * @returns the SHA-256 of the net, empty where it cannot be read, and what is wrong; undefined: none is installed
 * @throws the signal's reason when it is aborted
 */
export async function verifyPunctuation(
  directory: string,
  signal?: AbortSignal,
): Promise<{ sha256: string; problems: string[] } | undefined> {
  const model = installedPunctuation(directory);
  if (!model) {
    const problem = punctuationProblem(directory);
    return problem === undefined ? undefined : { sha256: "", problems: [problem] };
  }
  const problems: string[] = [];
  const hashed = async (path: string, expected: string): Promise<string> => {
    try {
      const sha256 = await sha256OfFile(path, signal);
      if (sha256 !== expected)
        problems.push(`the SHA-256 of ${path} is ${sha256}, and was ${expected} when it was added`);
      return sha256;
    } catch (error) {
      signal?.throwIfAborted();
      problems.push(errorMessage(error));
      return "";
    }
  };
  const sha256 = await hashed(model.modelPath, model.expected.model);
  await hashed(model.tokenizerPath, model.expected.tokenizer);
  await hashed(model.configPath, model.expected.config);
  return { sha256, problems };
}
