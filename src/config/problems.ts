/** One thing that is wrong with the configuration. */
export type ConfigProblem = {
  /** The file with the line, such as `/etc/shruti/shruti.toml:12`, or `environment`; undefined: the settings together. */
  where?: string;
  /** A sentence that begins with the setting. */
  message: string;
  /** The file is there, and this user may not read it. */
  isDenied?: true;
};

/** Settings that cannot be used. The message has a line for each problem, with file, line and setting. */
export class ConfigError extends Error {
  readonly problems: readonly ConfigProblem[];

  constructor(problems: string | readonly ConfigProblem[], options?: ErrorOptions) {
    const all = typeof problems === "string" ? [{ message: problems }] : problems;
    super(all.map(describeProblem).join("\n"), options);
    this.name = "ConfigError";
    this.problems = all;
  }

  /** Whether this user may not read the config file. The file may be right, so another user may succeed. */
  get isDenied(): boolean {
    return this.problems.some(({ isDenied }) => isDenied === true);
  }
}

function describeProblem({ where, message }: ConfigProblem): string {
  return where === undefined ? message : `${where}: ${message}`;
}
