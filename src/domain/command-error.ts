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
  | "machine"
  /** It is done, and something is lacking. */
  | "incomplete"
  /** Ctrl-C has ended its questions. */
  | "interrupted";

/** An error that ends a command with one line on standard error. */
export class CommandError extends Error {
  readonly failure: CommandFailure;

  constructor(failure: CommandFailure, message: string) {
    super(message);
    this.name = "CommandError";
    this.failure = failure;
  }
}
