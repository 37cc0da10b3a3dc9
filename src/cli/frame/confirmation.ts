import type { Command } from "commander";
import { commandsBelow, pathOf } from "./command-tree.ts";
import { type CliContext, CommandError } from "./context.ts";
import { clockQuestion } from "./old-content.ts";

/** What each destructive command does to its first argument. People confirm it; scripts need not. */
const QUESTIONS: Record<
  string,
  (
    argument: string,
    options: Record<string, unknown>,
    context: CliContext,
  ) => string | undefined | Promise<string>
> = {
  "keys revoke": (id) => `Refuse the key ${id} from now on? It cannot be made valid again.`,
  "models remove": (id, { kind }) => `Remove the model ${id ?? kind ?? ""} and its files?`,
  "transcriptions cancel": (id) => `Cancel ${id}? Its work so far is lost.`,
  "transcriptions delete": (id) =>
    `Delete the recording and the transcript of ${id}? They cannot be brought back.`,
  "uploads delete": (id) => `Delete the recording of ${id}? It cannot be brought back.`,
  "webhooks remove": (id) => `Remove the endpoint ${id}? What has not been delivered to it never will be.`,
  "buckets remove": (name) => `Forget the bucket ${name} and its credentials?`,
  "fleet remove": (name) => `Remove the worker ${name}? Its key cannot be used again.`,
  restore: (file) => `Replace the database by ${file}? What was accepted since that backup is then missing.`,
  "clock confirm": (_, _options, context) => clockQuestion(context),
  migrate: (_, { undo }) => (undo ? "Put the database back to the version before the upgrade?" : undefined),
};

/** Gives each destructive command the option `--yes`. */
export function offerYes(program: Command): void {
  for (const command of commandsBelow(program)) {
    if (Object.hasOwn(QUESTIONS, pathOf(command))) command.option("--yes", "do not ask on a terminal");
  }
}

/**
 * Asks before a destructive command, where a person can answer: on a terminal, without `--yes`. In scripts the commands
 * work without a question, as they always have.
 *
 * @throws CommandError `failed` when the answer is not yes; nothing has been changed then
 */
export async function confirm(command: Command, context: CliContext): Promise<void> {
  const { io } = context;
  const path = pathOf(command);
  const options = command.opts<Record<string, unknown>>();
  if (!Object.hasOwn(QUESTIONS, path) || options.yes === true || options.json === true || !io.ask) return;
  const question = await QUESTIONS[path]?.(String(command.processedArgs[0] ?? ""), options, context);
  if (question === undefined) return;
  const answer = await io.ask(`${question} [y/N] `);
  if (!/^y(es)?$/i.test(answer.trim())) throw new CommandError("failed", "nothing was changed");
}
