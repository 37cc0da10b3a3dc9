import { ConfigError, findConfigFile, loadConfig } from "../config/load.ts";
import type { Config } from "../config/schema.ts";
import { type Clock, systemClock } from "../lib/clock.ts";
import type { Admin } from "../services/admin.ts";

/** Where a command reads its surroundings and writes its words; text comes with its own line ends. */
export type CliIo = {
  out: (text: string) => unknown;
  err: (text: string) => unknown;
  environment: Record<string, string | undefined>;
};

/** How a command can fail on its own account; `program.ts` knows the exit status of each. */
export type CommandFailure = "failed" | "usage" | "not_found" | "conflict";

/** Ends a command with one line on standard error. */
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

/** What every command is given. */
export type CliContext = {
  io: CliIo;
  clock: Clock;
  /** `--config`, else where a config file is looked for; undefined when there is none. */
  configPath(): string | undefined;
  /** @throws ConfigError */
  loadConfig(): LoadedConfig;
  /**
   * The config, the database and the services that need no engine; opened once, closed with the command.
   *
   * @throws ConfigError; AppError `not_found` when there is no database yet
   */
  openServices(): Promise<Admin>;
  /** One JSON value on standard output. */
  printJson(value: unknown): void;
  /** One line on standard output. */
  printLine(line: string): void;
  /** One line for people, on standard error, so that standard output stays what a script wants. */
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
