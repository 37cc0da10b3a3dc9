import type { Command } from "commander";
import { type Since, since, sinceMs, wholeNumber } from "./arguments.ts";
import type { CliContext } from "./context.ts";

/** Options that the lists of transcriptions and of uploads share. */
export type ListFilterOptions = { org?: string; project?: string; since?: Since; limit: number };

/** Adds the options that choose the owner. */
export function withOwnerOptions(command: Command): Command {
  return command
    .option("--org <id>", "only of this organization")
    .option("--project <id>", "only of this project");
}

/** Adds the options that bound a list. @param begun what happened at the time that `--since` compares, such as `accepted` */
export function withRangeOptions(command: Command, begun: string): Command {
  return command
    .option("--since <moment>", `${begun} from then on: a duration such as 2h, a day or a time`, since)
    .option("--limit <n>", "how many", wholeNumber(1, 1000), 50);
}

/**
 * Returns what the store filters by. A moment of `--since` is in the time zone of the config.
 *
 * @throws AppError `not_found` for an unknown owner: an empty list would look like an answer
 */
export async function filterOf<State>(
  options: ListFilterOptions,
  states: readonly State[] | undefined,
  context: CliContext,
) {
  const { accounts, config } = await context.openServices();
  if (options.org !== undefined) accounts.showOrganization(options.org);
  if (options.project !== undefined) accounts.showProject(options.project);
  const timeZone = config.billing.timezone;
  return {
    limit: options.limit,
    ...(options.org === undefined ? {} : { organizationId: options.org }),
    ...(options.project === undefined ? {} : { projectId: options.project }),
    ...(states === undefined ? {} : { states }),
    ...(options.since === undefined
      ? {}
      : { sinceMs: sinceMs(timeZone, options.since, context.clock.now()) }),
  };
}
