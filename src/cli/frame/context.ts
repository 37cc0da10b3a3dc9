import { resolve } from "node:path";
import { variableOf } from "../../config/environment.ts";
import { type FoundConfig, findConfigFile } from "../../config/find.ts";
import { type ReadConfig, readConfig } from "../../config/load.ts";
import { ConfigError, type ConfigProblem } from "../../config/problems.ts";
import type { Config } from "../../config/schema.ts";
import { type Clock, systemClock } from "../../lib/clock.ts";
import { printableJson, printableLines } from "../../lib/printable.ts";
import { actAs } from "../../lib/rights.ts";
import type { Admin } from "../../services/admin.ts";
import type { BegunCommand } from "../../services/command-end.ts";
import type { Conversation } from "./ask.ts";
import { type Cell, renderTable } from "./output.ts";

/** The environment of a command and the functions that write its output. Texts include their line ends. */
export type CliIo = {
  out: (text: string) => unknown;
  err: (text: string) => unknown;
  environment: Record<string, string | undefined>;
  /** Asks a person on the terminal; undefined where there is none. */
  ask?: ((question: string) => Promise<string>) | undefined;
  /** Begins several questions to a person on the terminal; undefined where there is none. */
  converse?: (() => Conversation) | undefined;
  /** Width of the terminal that standard output is; undefined where it is none, such as in a pipe. */
  columns?: number | undefined;
};

export { CommandError, type CommandFailure } from "../../domain/command-error.ts";

export type LoadedConfig = {
  config: Config;
  /** The file it was read from; undefined: defaults and environment only. */
  path: string | undefined;
};

/** A config for work that needs no server. */
export type OwnConfig = LoadedConfig & {
  /**
   * Whether programs and libraries of the data directory may run. Those of the
   * folder in which the command runs may not, besides those that the executable carries.
   */
  trustsDataDir: boolean;
};

/** A config as far as it can be read, with its mistakes and its file. */
export type ConfigWithProblems = ReadConfig & Pick<LoadedConfig, "path">;

/** What each command receives. */
export type CliContext = {
  /** What is written passes through one filter: nothing that a file, a model or another machine names controls the terminal. */
  io: CliIo;
  clock: Clock;
  /** Returns the config file: `--config`, else the first of the usual places; undefined when there is none. */
  configPath(): string | undefined;
  /** Reads the config, mistakes included, and prints nothing. Files that are left out are among the warnings. */
  readConfig(): ConfigWithProblems;
  /**
   * Loads the config, and prints its warnings once, and its path where it was found in the working directory.
   *
   * @param options.isLogged the command's log names the file
   * @throws ConfigError with every mistake
   */
  loadConfig(options?: { isLogged?: boolean }): LoadedConfig;
  /**
   * Lets the running command use a config that has mistakes, as long as it names `storage.data_dir`. The mistakes are
   * printed as warnings; settings with a mistake have their defaults.
   */
  ignoreMistakes(): void;
  /**
   * Loads the config for work that needs no server. A file of the usual places that this user may not read belongs to a
   * server, and is left out with a note.
   *
   * @throws ConfigError also for a file of the working directory, which no option names, that chooses a program or models
   */
  loadOwnConfig(): OwnConfig;
  /**
   * Opens the database and the services that need no engine, once. They are closed when the command ends. A command of
   * root then has the rights of the data directory's owner; what is root's own needs `asOwnerOf`.
   *
   * @throws ConfigError; AppError `not_found` when there is no database yet
   */
  openServices(): Promise<Admin>;
  /** Prints one JSON value on standard output. */
  printJson(value: unknown): void;
  /** Prints one line on standard output. */
  printLine(line: string): void;
  /** Prints rows under headings on standard output. On a terminal they fit its width. */
  printTable(headings: readonly string[], rows: readonly (readonly Cell[])[]): void;
  /** Moves to the top of the terminal and erases it, where there is one. */
  clearScreen(): void;
  /** Prints one line for people on standard error. Scripts read standard output. */
  note(line: string): void;
  /**
   * Brings what the command has deleted and closed into the files beside the database, and these to the folders of backups.
   * The server does so, too, so a failure only has a note.
   */
  finish(): Promise<void>;
  close(): void;
};

const IGNORED =
  "the mistakes in the config are ignored, because this command needs only storage.data_dir; the server does not start with them";

/** Adds what helps where a command would need only the data directory, and the config does not name it for sure. */
function withAdvice(error: ConfigError): ConfigError {
  if (error.isDenied) return error;
  const message = `storage.data_dir is not known for sure, so nothing was done: correct the config, or name the directory with ${variableOf("storage", "data_dir")}`;
  return new ConfigError([...error.problems, { message }]);
}

/**
 * @param configOption value of `--config`, once the arguments are parsed
 */
export function createCliContext(
  terminal: CliIo,
  configOption: () => string | undefined,
  clock: Clock = systemClock,
): CliContext {
  const io = printableIo(terminal);
  let services: Admin | undefined;
  let begun: BegunCommand | undefined;

  // Kept, because a command may become another user, whose own files are others.
  let found: FoundConfig | undefined;
  let own: FoundConfig | undefined;
  function find(): FoundConfig {
    found ??= asGiven() ?? findConfigFile(io.environment);
    return found;
  }
  function asGiven(): FoundConfig | undefined {
    const path = configOption();
    return path === undefined ? undefined : { path, isFromWorkingDirectory: false, leftOut: [] };
  }
  const note = (line: string) => void io.err(`${line}\n`);
  function read(path: string | undefined): ConfigWithProblems {
    return { ...readConfig(path, io.environment), path };
  }
  let hasWarned = false;
  let ignoresMistakes = false;
  function load(from: FoundConfig, isLogged = false): ConfigWithProblems {
    const loaded = read(from.path);
    const { problems, warnings, knowsDataDir } = loaded;
    if (!hasWarned) {
      for (const line of from.leftOut) note(line);
      if (from.isFromWorkingDirectory && !isLogged)
        note(`config: ${resolve(from.path ?? "")}, found in this folder`);
    }
    const error = problems.length > 0 ? new ConfigError(problems) : undefined;
    if (error && !(ignoresMistakes && knowsDataDir)) throw ignoresMistakes ? withAdvice(error) : error;
    const ignored = error ? [...error.message.split("\n"), IGNORED] : [];
    if (!hasWarned) for (const warning of [...ignored, ...warnings]) note(`warning: ${warning}`);
    hasWarned = true;
    return loaded;
  }

  return {
    io,
    clock,
    configPath: () => find().path,
    readConfig() {
      const { path, leftOut } = find();
      const loaded = read(path);
      return { ...loaded, warnings: [...leftOut, ...loaded.warnings] };
    },
    loadConfig: (options) => load(find(), options?.isLogged),
    ignoreMistakes() {
      ignoresMistakes = true;
    },
    loadOwnConfig() {
      own ??= asGiven() ?? findConfigFile(io.environment, { skipsUnreadable: true });
      const { config, path, isDataDirFromWorkingDirectory } = load(own);
      if (!own.isFromWorkingDirectory) return { config, path, trustsDataDir: !isDataDirFromWorkingDirectory };
      const problems = choicesOf(config, own.path ?? "", io.environment);
      if (problems.length > 0) throw new ConfigError(problems);
      return { config, path, trustsDataDir: false };
    },
    async openServices() {
      if (services) return services;
      const { config } = load(find());
      const [{ openAdmin }, { dataDirOf }, { ownerOfData }, { openLog }, { beginCommand }] =
        await Promise.all([
          import("../../services/admin.ts"),
          import("../../services/data-dir.ts"),
          import("../../services/data-owner.ts"),
          import("../../lib/log.ts"),
          import("../../services/command-end.ts"),
        ]);
      actAs(ownerOfData(dataDirOf(config)));
      // What a command does is its own output. The log of the server's work is for the server.
      const level = config.log.level === "info" ? "warn" : config.log.level;
      services = openAdmin({ config, clock, log: openLog(level, config.log.format, io.err) });
      begun = beginCommand(services);
      return services;
    },
    printJson: (value) => void io.out(`${printableJson(value, 2)}\n`),
    printTable: (headings, rows) => void io.out(renderTable(headings, rows, io.columns)),
    printLine: (line) => void io.out(`${line}\n`),
    clearScreen() {
      if (terminal.columns !== undefined) terminal.out(TOP_OF_SCREEN);
    },
    note,
    async finish() {
      for (const problem of (await begun?.finish()) ?? []) note(problem);
    },
    close() {
      services?.close();
      services = undefined;
      actAs(undefined);
    },
  };
}

/** Moves the cursor to the top and erases the screen below it (ECMA-48, CUP and ED). */
const TOP_OF_SCREEN = "\x1b[H\x1b[J";

/** Makes every text printable at the place where it is written, so that no command can forget it. */
function printableIo({ out, err, ask, converse, ...rest }: CliIo): CliIo {
  return {
    ...rest,
    out: (text) => out(printableLines(text)),
    err: (text) => err(printableLines(text)),
    ask: ask && ((question) => ask(printableLines(question))),
    converse: converse && (() => printableConversation(converse())),
  };
}

const printableConversation = (conversation: Conversation): Conversation => ({
  ask: (question) => conversation.ask(printableLines(question)),
  columns: conversation.columns,
  close: () => conversation.close(),
});

/** Settings that decide which program or which foreign files work on a recording. */
const CHOICES = [
  ["engine", "decoder"],
  ["models", "dir"],
] as const;

/** Lists what a file of the working directory chooses and must not choose. A variable of the environment may choose it. */
function choicesOf(config: Config, path: string, environment: CliIo["environment"]): ConfigProblem[] {
  return CHOICES.filter(([section, name]) => {
    const settings: Record<string, unknown> = config[section];
    return settings[name] !== "" && environment[variableOf(section, name)] === undefined;
  }).map(([section, name]) => ({
    place: path,
    message: `${section}.${name} counts here only in a config file that is named, because this one may have come with the recordings; if it is yours, give --config ${path}`,
  }));
}
