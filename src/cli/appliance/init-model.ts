import { existsSync, rmSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import { findConfigFile } from "../../config/find.ts";
import type { Config } from "../../config/schema.ts";
import { AppError } from "../../domain/errors.ts";
import { languageOf } from "../../domain/languages.ts";
import { adviseModels, firstChoiceCost } from "../../domain/model-advice.ts";
import { errorMessage } from "../../lib/error-message.ts";
import { nearestName } from "../../lib/nearest.ts";
import { asOwnerOf } from "../../lib/rights.ts";
import { readPublicKey } from "../../lib/signatures.ts";
import { plainMessage } from "../../lib/system-error.ts";
import type { CatalogueEntry } from "../../services/models/catalogue.ts";
import { type CliContext, CommandError, createCliContext } from "../frame/context.ts";
import { cleanUpAtEnd } from "../frame/ending.ts";
import { commandStyle } from "../frame/error-line.ts";
import { openKey } from "../frame/key-file.ts";
import { shellWord } from "../frame/output.ts";
import { openModels } from "../models/installed-models.ts";
import { addModel, checkFound } from "../models/models-add.ts";
import { addCommand, fetchFiles, kindOf, licenceOf, pathIn } from "../models/models-fetch.ts";
import { installBundle } from "./bundle.ts";

/** A model that `init` can choose without a file: in the directory of models, or inside the executable. */
export type ModelHere = {
  id: string;
  name: string;
  languages: readonly string[];
  isCarried: boolean;
  /** What users should know before they use it. */
  notice?: string;
};

/** A model that `init` can fetch. `rate`: published word errors in the first language asked for, in per cent. */
export type ModelOffer = { entry: CatalogueEntry; rate?: number };

/** The model that an admin has chosen, by where it comes from. */
export type ModelChoice =
  | { from: "here"; id: string }
  | { from: "catalogue"; entry: CatalogueEntry }
  | { from: "files"; path: string }
  | { from: "bundle"; path: string };

/** How a chosen model is obtained. */
export type Obtaining = {
  /** Files whose SHA-256 are not known are fetched, too. */
  acceptUnverified?: boolean;
  /** Address that takes the place of the catalogue's. */
  mirror?: string;
  /** Public key of the bundle's signer. */
  bundleKey?: string;
};
/** What is asked of the model that is obtained. */
type Wanted = Obtaining & { /** Codes that it should know. */ languages: readonly string[] };

/** Where an appliance is that has just been made. */
type NewFiles = { configPath: string; dataDir: string };

/**
 * Lists the models that need no file: those of the directory of models, or where there is none, those inside the
 * executable. The one that serves by itself is the first. Nothing is written.
 */
export async function modelsHere(config: Config, dataDir: string): Promise<ModelHere[]> {
  const [{ createModelScanner }, { modelDirectoryOf }, { CARRIED_FILES }, { parseManifest }] =
    await Promise.all([
      import("../../services/models/model-files.ts"),
      import("../../services/models/model-registry.ts"),
      import("../../services/models/carried-models.ts"),
      import("../../services/models/model-manifest.ts"),
    ]);
  const directory = modelDirectoryOf(config, dataDir);
  const { models } = asOwnerOf(directory, createModelScanner(directory));
  const carried = await Promise.all(
    CARRIED_FILES.map(async ({ name, manifest }) =>
      parseManifest(await Bun.file(manifest).text(), `models/${name}.toml`),
    ),
  );
  const isCarried = models.length === 0;
  return (isCarried ? carried : models).map(({ id, name, languages, notice }) => ({
    ...{ id, name, isCarried, languages: languages.map(({ code }) => code) },
    ...(notice === undefined ? {} : { notice }),
  }));
}

/** Models of the catalogue that know English beside many other languages. No list of figures has them. */
const FOR_ENGLISH = ["large-v3-turbo-q5_0", "large-v3-q5_0", "small-q5_1"];
const MAX_OFFERS = 5;
/** The cost of a model without a figure: more than that of any with one. */
const NO_COST = 1_000;

/**
 * Lists the models of the catalogue that suit some languages, by what is published of them (`shruti models advise`). Those
 * that know the most of the languages come first, and of these the best first choice (`firstChoiceCost`).
 *
 * @param memoryBytes what a model may need
 */
export function offersFor(
  languages: readonly string[],
  memoryBytes: number,
  catalogue: readonly CatalogueEntry[],
): ModelOffer[] {
  const advice = adviseModels(languages, memoryBytes).languages;
  const names = new Set([
    ...advice.flatMap(({ candidates }) => candidates.map(({ model }) => model.name)),
    ...(languages.includes("en") ? FOR_ENGLISH : []),
  ]);
  const costOf = (name: string) =>
    advice.reduce((sum, { language, candidates }) => {
      const found = candidates.find(({ model }) => model.name === name);
      return sum + ((found && firstChoiceCost(found.model, language)) ?? NO_COST);
    }, 0);
  const [first] = advice;
  return [...names]
    .flatMap(
      (name) => catalogue.find((entry) => entry.name === name && entry.size.bytes <= memoryBytes) ?? [],
    )
    .map((entry) => ({
      entry,
      known: languages.filter((code) => knows(entry, code)).length,
      cost: costOf(entry.name),
      rate: first?.candidates.find(({ model }) => model.name === entry.name)?.rate,
    }))
    .sort((a, b) => b.known - a.known || a.cost - b.cost)
    .slice(0, MAX_OFFERS)
    .map(({ entry, rate }) => ({ entry, ...(rate === undefined ? {} : { rate }) }));
}

/** Reports whether a model of the catalogue knows a language. One that names none knows those of Whisper. */
export const knows = ({ languages }: CatalogueEntry, code: string): boolean =>
  languages?.includes(code) ?? languageOf(code)?.whisperCode !== undefined;

/**
 * Finds out which model an answer means: the ID of a model here, a speech model of the catalogue, or the path of weights or
 * of a bundle. A name goes before a path, which `./` makes of it.
 *
 * @throws CommandError `not_found`, `usage`; AppError `invalid_request` with what is wrong with the files
 */
export async function readModelChoice(text: string, here: readonly ModelHere[]): Promise<ModelChoice> {
  // Such as from a variable that is not set. As a path it would be the working directory.
  if (text === "") throw new CommandError("usage", "the model is an empty text");
  if (here.some(({ id }) => id === text)) return { from: "here", id: text };
  const entries = await speechModels();
  const entry = entries.find(({ name }) => name === text);
  if (entry) return { from: "catalogue", entry };
  const path = resolve(text);
  if (!asOwnerOf(path, () => existsSync(path))) {
    const ids = here.map(({ id }) => id);
    const near = nearestName(text, [...ids, ...entries.map(({ name }) => name)]);
    throw new CommandError(
      "not_found",
      `${text} is not a model that is here (${ids.join(", ")}), not a speech model of \`shruti models catalogue\`, and not a file or folder${near === undefined ? "" : `; did you mean ${near}?`}`,
    );
  }
  const [{ isBundle }, { findSource }] = await Promise.all([
    import("../../services/bundles/bundle-verify.ts"),
    import("../models/model-sources.ts"),
  ]);
  if (asOwnerOf(path, () => statSync(path).isFile()) && isBundle(path)) return { from: "bundle", path };
  try {
    checkFound(findSource(path, { reserveBytes: 0, onProgress: () => {}, onImported: () => {} }));
  } catch (error) {
    if (error instanceof CommandError || error instanceof AppError) throw error;
    throw new AppError("invalid_request", { message: errorMessage(error), detail: "file" });
  }
  return { from: "files", path };
}

/** Returns the speech models of the catalogue. */
export async function speechModels(): Promise<CatalogueEntry[]> {
  const { CATALOGUE } = await import("../../services/models/catalogue.ts");
  return CATALOGUE.filter((entry) => kindOf(entry) === undefined);
}

/**
 * Checks before anything is written that all is given that a choice needs.
 *
 * @throws CommandError `usage`
 */
export async function requireObtainable(choice: ModelChoice, given: Obtaining): Promise<void> {
  if (choice.from === "bundle") openBundleKey(given.bundleKey);
  else if (given.bundleKey !== undefined)
    throw new CommandError("usage", "--bundle-key is for the path of a bundle");
  if (choice.from !== "catalogue" || given.acceptUnverified) return;
  const { unverifiedFiles } = await import("../../services/models/catalogue.ts");
  const names = unverifiedFiles(choice.entry).map(({ name }) => name);
  if (names.length > 0) {
    throw new CommandError(
      "usage",
      `the SHA-256 of ${names.join(", ")} of ${choice.entry.name} are not known; --accept-unverified fetches them all the same`,
    );
  }
}

/** Reads the key of a bundle's signer. @throws CommandError `usage` */
export function openBundleKey(file: string | undefined): void {
  if (file === undefined)
    throw new CommandError("usage", "a bundle needs --bundle-key, the public key of its signer");
  openKey(file, readPublicKey);
}

/**
 * Names the commands that install a model of the catalogue later.
 *
 * @param config option that names the config file, or an empty text
 * @param directory where a fetch has begun; left out: nowhere
 */
export async function laterCommands(
  entry: CatalogueEntry,
  config: string,
  directory?: string,
): Promise<string[]> {
  const { unverifiedFiles } = await import("../../services/models/catalogue.ts");
  const consent = unverifiedFiles(entry).length > 0 ? " --accept-unverified" : "";
  const where = directory === undefined ? "" : ` --directory ${shellWord(directory)}`;
  return [
    `shruti models fetch ${entry.name}${where}${consent}${config}`,
    `${addCommand(entry, pathIn(entry, directory ?? "."))} --default${config}`,
  ];
}

/**
 * Installs the chosen model into an appliance, and makes it the default. A model that is there already stays as it is.
 *
 * @throws CommandError `failed` with the reason, after notes that name the commands for later
 */
export async function obtainModel(
  outer: CliContext,
  files: NewFiles,
  choice: ModelChoice,
  given: Wanted,
): Promise<void> {
  // What these commands print is for scripts that run them; people read the notes.
  const io = { ...outer.io, out: () => {} };
  const context = createCliContext(io, () => files.configPath, outer.clock);
  const later = await commandsFor(choice, files.dataDir, configOption(outer, files.configPath), given);
  const noteLater = () => {
    for (const line of later) outer.note(`Later: ${line}`);
  };
  // A fetch can take long. Its progress is on a line of its own.
  const interrupted = () => {
    outer.note("");
    noteLater();
  };
  process.on("SIGINT", interrupted);
  const ending = cleanUpAtEnd();
  try {
    await OBTAIN[choice.from](context, files, choice as never, given);
    await noteLacking(context, given.languages);
    await context.finish();
  } catch (error) {
    const reason = commandStyle(plainMessage(error).split("\n", 1)[0] ?? "");
    noteLater();
    throw new CommandError("failed", `the model was not installed, all else is there: ${reason}`);
  } finally {
    ending.stop();
    process.off("SIGINT", interrupted);
    context.close();
  }
}

/** Says which of the languages the default model does not know. */
async function noteLacking(context: CliContext, languages: readonly string[]): Promise<void> {
  const model = (await openModels(context)).findDefault();
  const lacking = languages.filter((code) => !model?.languages.some((known) => known.code === code));
  if (model && lacking.length > 0) {
    const codes = lacking.join(",");
    context.note(`${model.id} does not know ${codes}: see shruti models advise --languages ${codes}`);
  }
}

type Obtain<From extends ModelChoice["from"]> = (
  context: CliContext,
  files: NewFiles,
  choice: Extract<ModelChoice, { from: From }>,
  given: Obtaining,
) => Promise<void>;

const OBTAIN: { [From in ModelChoice["from"]]: Obtain<From> } = {
  here: (context, _files, { id }) => setDefault(context, id),
  async catalogue(context, { dataDir }, { entry }, given) {
    const service = await openModels(context);
    if (service.find(entry.name)) return setDefault(context, entry.name);
    const directory = fetchFolderIn(dataDir);
    const { path } = await fetchFiles(context, entry, {
      directory,
      ...(given.acceptUnverified ? { acceptUnverified: true as const } : {}),
      ...(given.mirror === undefined ? {} : { mirror: given.mirror }),
    });
    const licence = licenceOf(entry);
    await add(context, path, {
      id: entry.name,
      source: entry.source,
      ...(licence === undefined ? {} : { licence }),
      ...(entry.languages ? { languages: entry.languages.map((code) => ({ code })) } : {}),
    });
    // The directory of models has a copy.
    rmSync(directory, { recursive: true, force: true });
  },
  async files(context, _files, { path }) {
    await add(context, path, {});
  },
  async bundle(context, _files, { path }, { bundleKey = "" }) {
    await installBundle(context, path, { key: bundleKey, trial: true });
  },
};

async function setDefault(context: CliContext, id: string): Promise<void> {
  const service = await openModels(context);
  if (service.findDefault()?.id !== id) service.setDefault(id);
}

/** Where files wait until they are a model. What is left of an interrupted fetch continues from there. */
const fetchFolderIn = (dataDir: string) => join(dataDir, "fetched");

async function add(
  context: CliContext,
  path: string,
  about: { id?: string; source?: string; licence?: string; languages?: { code: string }[] },
): Promise<void> {
  try {
    await addModel(context, path, { ...about, trial: true, default: true }, {});
  } catch (error) {
    // `init --unless-exists` is run again.
    if (!(error instanceof AppError && error.code === "conflict")) throw error;
    context.note(`${plainMessage(error)}`);
  }
}

/** Names the commands that install a chosen model when that has failed. */
async function commandsFor(
  choice: ModelChoice,
  dataDir: string,
  config: string,
  { bundleKey = "" }: Obtaining,
): Promise<string[]> {
  switch (choice.from) {
    case "here":
      return [`shruti models default ${choice.id}${config}`];
    case "files":
      return [`shruti models add ${shellWord(choice.path)} --default${config}`];
    case "bundle":
      return [`shruti bundle install ${shellWord(choice.path)} --key ${shellWord(bundleKey)}${config}`];
    case "catalogue":
      return laterCommands(choice.entry, config, fetchFolderIn(dataDir));
  }
}

/** Returns the option that later commands need to find a config file, or an empty text where they find it themselves. */
export function configOption({ io }: Pick<CliContext, "io">, configPath: string): string {
  const { path } = findConfigFile(io.environment);
  return path !== undefined && resolve(path) === configPath ? "" : ` --config ${shellWord(configPath)}`;
}
