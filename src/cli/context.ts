import { ConfigError, findConfigFile, loadConfig } from "../config/load.ts";
import type { Config } from "../config/schema.ts";
import { type Clock, systemClock } from "../lib/clock.ts";
import type { Admin } from "../services/admin.ts";

/** The environment of a command and the functions that write its output. Texts include their line ends. */
export type CliIo = {
  out: (text: string) => unknown;
  err: (text: string) => unknown;
  environment: Record<string, string | undefined>;
};

/** Ways in which a command itself can fail. `program.ts` has the exit status of each. */
export type CommandFailure =
  | "failed"
  | "usage"
  | "not_found"
  | "conflict"
  /** The database is of another version. */
  | "version"
  /** The user who runs this lacks a right. */
  | "rights"
  /** This machine cannot run the program. */
  | "machine";

/** An error that ends a command with one line on standard error. */
export class CommandError extends Error {
  readonly failure: CommandFailure;

  constructor(failure: CommandFailure, message: string) {
    super(message);
    this.name = "CommandError";
    this.failure = failure;
  }
}

export type LoadedConfig = {
  config: Config;
  /** The file it was read from; undefined: defaults and environment only. */
  path: string | undefined;
};

/** What each command receives. */
export type CliContext = {
  io: CliIo;
  clock: Clock;
  /** Returns the config file: `--config`, else the first of the usual places; undefined when there is none. */
  configPath(): string | undefined;
  /** @throws ConfigError */
  loadConfig(): LoadedConfig;
  /**
   * Opens the database and the services that need no engine, once. They are closed when the command ends.
   *
   * @throws ConfigError; AppError `not_found` when there is no database yet
   */
  openServices(): Promise<Admin>;
  /** Prints one JSON value on standard output. */
  printJson(value: unknown): void;
  /** Prints one line on standard output. */
  printLine(line: string): void;
  /** Prints one line for people on standard error. Scripts read standard output. */
  note(line: string): void;
  close(): void;
};

/**
 * @param configOption value of `--config`, once the arguments are parsed
 */
export function createCliContext(
  io: CliIo,
  configOption: () => string | undefined,
  clock: Clock = systemClock,
): CliContext {
  let services: Admin | undefined;

  const configPath = () => configOption() ?? findConfigFile(io.environment);
  function load(): LoadedConfig {
    const path = configPath();
    const config = loadConfig(path, io.environment);
    checkTimeZone(config);
    return { config, path };
  }

  return {
    io,
    clock,
    configPath,
    loadConfig: load,
    async openServices() {
      if (services) return services;
      const { config } = load();
      const [{ openAdmin }, { openLog }] = await Promise.all([
        import("../services/admin.ts"),
        import("../lib/log.ts"),
      ]);
      services = openAdmin({ config, clock, log: openLog(config.log.level, config.log.format, io.err) });
      return services;
    },
    printJson: (value) => void io.out(`${JSON.stringify(value, null, 2)}\n`),
    printLine: (line) => void io.out(`${line}\n`),
    note: (line) => void io.err(`${line}\n`),
    close() {
      services?.close();
      services = undefined;
    },
  };
}

function checkTimeZone({ billing }: Config): void {
  try {
    new Intl.DateTimeFormat("en", { timeZone: billing.timezone });
  } catch {
    throw new ConfigError(
      `billing.timezone: ${JSON.stringify(billing.timezone)} is not a valid IANA time zone, such as Asia/Kolkata`,
    );
  }
}
