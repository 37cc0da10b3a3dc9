import { accessSync, constants, existsSync, statSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { AppError } from "../../domain/errors.ts";
import { languageOf } from "../../domain/languages.ts";
import { freeBytesOf } from "../../lib/disk-space.ts";
import { plainMessage } from "../../lib/system-error.ts";
import type { CatalogueEntry } from "../../services/models/catalogue.ts";
import { type Conversation, NoAnswer } from "../frame/ask.ts";
import { CommandError } from "../frame/context.ts";
import { commandStyle } from "../frame/error-line.ts";
import { renderFields, sizeText } from "../frame/output.ts";
import { readLanguageCodes } from "./init-languages.ts";
import {
  knows,
  type ModelChoice,
  type ModelHere,
  type ModelOffer,
  type Obtaining,
  openBundleKey,
  readModelChoice,
  requireObtainable,
} from "./init-model.ts";

/** What `init` is to make, beside names. */
export type InitAnswers = {
  /** Absolute path. */
  dataDir: string;
  /** Codes; the first is that of requests that name none. Empty: none was named. */
  languages: readonly string[];
  /** undefined: none is installed, and the executable's serve. */
  model: ModelChoice | undefined;
  /** A model that was chosen, and is not to be fetched now. */
  later?: CatalogueEntry;
  obtaining: Obtaining;
  /** undefined: the config says it. */
  openai: boolean | undefined;
  /** A service manager starts the server. */
  service: boolean;
};

/** What the options say. A field that is undefined is asked for. */
export type GivenAnswers = {
  dataDir: string | undefined;
  languages: readonly string[] | undefined;
  /** As an option gives it. */
  model: string | undefined;
  obtaining: Obtaining;
  openai: boolean | undefined;
  service: boolean | undefined;
};

/** What questions need to know of this machine. */
export type Surroundings = {
  environment: Readonly<Record<string, string | undefined>>;
  configPath: string;
  /** A config file is there, which stays as it is: what it says is not asked for. */
  hasConfig: boolean;
  defaultDataDir: string;
  availableMemoryBytes: number;
  /** Lists the models that need no file (`modelsHere`). */
  modelsHere: (dataDir: string) => Promise<readonly ModelHere[]>;
  /** Lists the models that can be fetched (`offersFor`). */
  offersFor: (languages: readonly string[], memoryBytes: number) => readonly ModelOffer[];
  /** Names the files of a model whose SHA-256 are not known. */
  unverified: (entry: CatalogueEntry) => readonly string[];
  /** Prints a text for people, of whole lines. */
  say: (text: string) => void;
};

type Question<T> = {
  /** What the answer means. */
  about: string;
  question: string;
  /** The answer of an empty line; left out: there must be one. */
  byDefault?: string;
  /** @throws CommandError or AppError that says why an answer cannot be used */
  read: (text: string) => T | Promise<T>;
};

type Asker = {
  say: (text: string) => void;
  ask: <T>(question: Question<T>) => Promise<T>;
};

const INTRODUCTION =
  "Shruti asks what it needs. Enter takes the answer in brackets. Nothing is written before the last answer, and Ctrl-C leaves nothing behind.";

/**
 * Asks a person for all answers that the options do not give, then whether they are right. Writes nothing.
 *
 * @throws CommandError `interrupted` after Ctrl-C; `failed` when the input ends, or the person does not want what was asked
 */
export async function askAnswers(
  conversation: Conversation,
  given: GivenAnswers,
  around: Surroundings,
): Promise<InitAnswers> {
  const asker = askerOf(conversation, around.say);
  // Before the first question: with all answers it would be too late to learn that.
  if (!around.hasConfig) requireWritable(dirname(around.configPath));
  try {
    asker.say(INTRODUCTION);
    const dataDir = given.dataDir ?? (await askDataDir(asker, around));
    const languages = given.languages ?? (await askLanguages(asker, around));
    const here = await around.modelsHere(dataDir);
    const chosen =
      given.model === undefined
        ? await askModel(asker, around, { languages, here, obtaining: given.obtaining })
        : { model: await readGivenModel(given.model, here, given.obtaining), obtaining: given.obtaining };
    const openai = around.hasConfig ? undefined : (given.openai ?? (await askOpenai(asker)));
    const service = given.service ?? (await askService(asker));
    const answers = { dataDir, languages, openai, service, ...chosen };
    await askConsent(asker, around, answers, here);
    return answers;
  } catch (error) {
    if (!(error instanceof NoAnswer)) throw error;
    throw new CommandError(
      error.isInterrupted ? "interrupted" : "failed",
      `${error.message}; nothing was written`,
    );
  }
}

/** Reports whether the options leave something to ask. */
export const hasQuestions = (given: GivenAnswers, hasConfig: boolean): boolean =>
  given.languages === undefined ||
  given.model === undefined ||
  given.service === undefined ||
  (!hasConfig && (given.dataDir === undefined || given.openai === undefined));

function askerOf(conversation: Conversation, write: (text: string) => void): Asker {
  const say = (text: string) => write(`${wrapped(text, conversation.columns)}\n`);
  return {
    say,
    async ask({ about, question, byDefault, read }) {
      say(`\n${about}`);
      for (;;) {
        const shown = byDefault === undefined ? "" : ` [${byDefault}]`;
        const text = (await conversation.ask(`${question}${shown}: `)) || (byDefault ?? "");
        try {
          if (text === "") throw new CommandError("usage", "there must be an answer");
          return await read(text);
        } catch (error) {
          if (!isRefusal(error)) throw error;
          const reason = commandStyle(plainMessage(error).split("\n", 1)[0] ?? "");
          say(`${reason}${reason.endsWith("?") ? " Try" : "; try"} again.`);
        }
      }
    },
  };
}

const LEAST_COLUMNS = 10;

/** Breaks lines between words. What follows a break is as far from the edge as the line's begin. */
function wrapped(text: string, columns: number): string {
  const lines = text.split("\n").map((line) => {
    const indent = " ".repeat(line.length - line.trimStart().length);
    const width = Math.max(LEAST_COLUMNS, columns - indent.length);
    return Bun.wrapAnsi(line.trimStart(), width).replaceAll(/^(?=.)/gm, indent);
  });
  return lines.join("\n");
}

/** Reports whether an error says that an answer cannot be used, and not that the program has a mistake. */
const isRefusal = (error: unknown): boolean =>
  error instanceof CommandError ||
  error instanceof AppError ||
  typeof (error as NodeJS.ErrnoException).syscall === "string";

/** Reads yes or no. */
function readYes(text: string): boolean {
  if (/^(y|yes)$/i.test(text)) return true;
  if (/^(n|no)$/i.test(text)) return false;
  throw new CommandError("usage", "the answer is y or n");
}

/** Replaces the sign for the home directory, as a shell does in arguments. */
function withHome(path: string, { HOME }: Surroundings["environment"]): string {
  return HOME && /^~(?=\/|$)/.test(path) ? HOME + path.slice(1) : path;
}

const askDataDir = ({ ask }: Asker, { environment, defaultDataDir }: Surroundings) =>
  ask({
    about: "The data directory gets the database, the recordings, the transcripts and the models.",
    question: "Data directory",
    byDefault: defaultDataDir,
    read: (text) => readDataDir(withHome(text, environment)),
  });

/** @throws CommandError for a folder that holds a database, or that this user cannot make or write */
function readDataDir(text: string): string {
  const dataDir = resolve(text);
  if (existsSync(join(dataDir, "shruti.db")))
    throw new CommandError("conflict", `${dataDir} holds a database already`);
  requireWritable(dataDir);
  return dataDir;
}

/** @throws CommandError, or the system's error, where this user can neither write a folder nor make it */
function requireWritable(folder: string): void {
  const nearest = nearestOf(folder);
  if (!statSync(nearest).isDirectory()) throw new CommandError("usage", `${nearest} is a file, not a folder`);
  accessSync(nearest, constants.W_OK | constants.X_OK);
}

/** Returns the path itself where there is something, else the nearest folder above it that is there. */
function nearestOf(path: string): string {
  let nearest = path;
  while (!existsSync(nearest)) nearest = dirname(nearest);
  return nearest;
}

function askLanguages({ ask, say }: Asker, { environment }: Surroundings) {
  return ask({
    about:
      "The languages of your recordings, as codes or names, separated by commas. They decide which models are offered. The first is that of requests which name none.",
    question: "Languages",
    byDefault: localLanguage(environment),
    read(text) {
      const codes = readLanguageCodes(text);
      say(codes.map((code) => languageOf(code)?.name).join(", "));
      return codes;
    },
  });
}

/** Returns the language of a person's environment where the program knows it, else English. */
function localLanguage({ LC_ALL, LC_MESSAGES, LANG }: Surroundings["environment"]): string {
  const [, code = ""] = /^([a-z]{2,3})(?:[_.@]|$)/.exec(LC_ALL || LC_MESSAGES || LANG || "") ?? [];
  return languageOf(code)?.code ?? "en";
}

type Chosen = Pick<InitAnswers, "model" | "later" | "obtaining">;
type Known = { languages: readonly string[]; here: readonly ModelHere[]; obtaining: Obtaining };

/** Reads the model that an option names. @throws CommandError, AppError where it cannot be obtained with what is given */
export async function readGivenModel(
  text: string,
  here: readonly ModelHere[],
  obtaining: Obtaining,
): Promise<ModelChoice> {
  const choice = await readModelChoice(text, here);
  await requireObtainable(choice, obtaining);
  return choice;
}

async function askModel(
  asker: Asker,
  around: Surroundings,
  { languages, here, obtaining }: Known,
): Promise<Chosen> {
  const memory = around.availableMemoryBytes;
  const offers = around.offersFor(languages, memory);
  const listed = [...here.map(({ id }) => id), ...offers.map(({ entry }) => entry.name)];
  const lines = [
    ...here.map((model) => describeHere(model, languages)),
    ...offers.map((offer) => describeOffer(offer, languages)),
  ];
  const choice = await asker.ask({
    about: [
      `The model that turns speech into text. Of those to fetch, these fit into the ${sizeText(memory)} of memory that are free:`,
      ...lines.map((line, index) => `  ${index + 1}  ${line}`),
      "A number, another name of `shruti models catalogue`, or the path of weights or of a bundle.",
    ].join("\n"),
    question: "Model",
    byDefault: `${1 + defaultOf(here, offers, languages)}`,
    async read(text) {
      const number = /^\d{1,3}$/.test(text) ? Number(text) : undefined;
      const name = number === undefined ? text : listed[number - 1];
      if (name === undefined)
        throw new CommandError("usage", `there are only the numbers 1 to ${listed.length}`);
      return readModelChoice(withHome(name, around.environment), here);
    },
  });
  if (choice.from === "catalogue") return askFetch(asker, around, choice, obtaining);
  if (choice.from !== "bundle") return { model: choice, obtaining };
  const bundleKey = obtaining.bundleKey ?? (await askBundleKey(asker, around));
  openBundleKey(bundleKey);
  return { model: choice, obtaining: { ...obtaining, bundleKey } };
}

function describeHere({ id, name, languages, isCarried, notice }: ModelHere, asked: readonly string[]) {
  const place = isCarried ? "inside the executable" : "in the directory of models";
  const about = notice === undefined ? "" : `. ${notice.split("\n", 1)[0]}`;
  return `${id}: ${name}, ${place}${lackingText(asked.filter((code) => !languages.includes(code)))}${about}`;
}

function describeOffer({ entry, rate }: ModelOffer, asked: readonly string[]): string {
  const published =
    rate === undefined ? "" : `; words wrong in ${asked[0]}, as others have published: ${rate} %`;
  const lacking = lackingText(asked.filter((code) => !knows(entry, code)));
  return `${entry.name}: ${entry.title}, to fetch, ${sizeText(entry.size.bytes)}, licence ${entry.licence}${lacking}${published}`;
}

const lackingText = (codes: readonly string[]) =>
  codes.length === 0 ? "" : `, does not know ${codes.join(", ")}`;

/** The last model inside the executable is a demonstration, and never proposed. */
const DEMONSTRATION = "demo";

/** Returns the place of the model that is proposed: one that is here and knows all languages, else the first that can be fetched. */
function defaultOf(
  here: readonly ModelHere[],
  offers: readonly ModelOffer[],
  languages: readonly string[],
): number {
  const fitting = here.findIndex(
    (model) =>
      model.id !== DEMONSTRATION && languages.every((language) => model.languages.includes(language)),
  );
  if (fitting >= 0) return fitting;
  return offers.length > 0 ? here.length : 0;
}

async function askFetch(
  { ask }: Asker,
  { unverified }: Surroundings,
  choice: Extract<ModelChoice, { from: "catalogue" }>,
  obtaining: Obtaining,
): Promise<Chosen> {
  const { entry } = choice;
  const names = unverified(entry);
  const doubt =
    names.length === 0
      ? ""
      : ` The SHA-256 of ${names.join(", ")} are not known, so other content of these would not be noticed.`;
  const isWanted = await ask({
    about: `${entry.name} is ${sizeText(entry.size.bytes)} from ${entry.source}. Its licence: ${entry.licence}.${doubt} Without a network, answer n: the commands for later follow.`,
    question: "Fetch it now",
    byDefault: "n",
    read: readYes,
  });
  return isWanted
    ? { model: choice, obtaining: { ...obtaining, acceptUnverified: true } }
    : { model: undefined, later: entry, obtaining };
}

const askBundleKey = ({ ask }: Asker, { environment }: Surroundings) =>
  ask({
    about: "A bundle is installed only when it is signed with a key that you trust.",
    question: "Public key of its signer (PEM file)",
    read(text) {
      const path = resolve(withHome(text, environment));
      openBundleKey(path);
      return path;
    },
  });

const askOpenai = ({ ask }: Asker) =>
  ask({
    about:
      "Programs that were written for OpenAI's audio API can use this server at /openai/v1. That is off unless you want it.",
    question: "Serve them",
    byDefault: "n",
    read: readYes,
  });

const askService = ({ ask }: Asker) =>
  ask({
    about:
      "A service manager, such as systemd, can start the server at each boot. The install.sh of a release sets that up; `init` only says what is to be done next.",
    question: "Does a service manager start it",
    byDefault: "n",
    read: readYes,
  });

async function askConsent(
  { ask }: Asker,
  { configPath, hasConfig }: Surroundings,
  answers: InitAnswers,
  here: readonly ModelHere[],
): Promise<void> {
  const { dataDir, languages, openai } = answers;
  const rows: [string, string][] = [
    ["config", hasConfig ? `${configPath} (stays as it is)` : configPath],
    ["data", `${dataDir} (${sizeText(freeBytesOf(nearestOf(dataDir)))} are free)`],
    ["languages", languages.length === 0 ? "none named" : languages.join(", ")],
    ["model", modelText(answers, here)],
    ...(openai === undefined ? [] : [["OpenAI's API", openai ? "on" : "off"] as [string, string]]),
    ["started by", answers.service ? "a service manager" : "you, with shruti serve"],
  ];
  const isRight = await ask({
    about: `This will be made:\n${renderFields(rows).trimEnd()}`,
    question: "Make it",
    byDefault: "y",
    read: readYes,
  });
  if (!isRight) throw new CommandError("failed", "nothing was written");
}

function modelText({ model, later }: InitAnswers, here: readonly ModelHere[]): string {
  if (model === undefined)
    return `${here[0]?.id ?? "none"}${later === undefined ? "" : `, until ${later.name} is installed`}`;
  switch (model.from) {
    case "here":
      return model.id;
    case "catalogue":
      return `${model.entry.name}, fetched from ${model.entry.source}`;
    case "files":
    case "bundle":
      return model.path;
  }
}
