import type { Command } from "commander";
import { named } from "../../lib/named.ts";
import { type CliContext, CommandError } from "./context.ts";

/** Things that people give by name. Names need not be unique, so every interface uses IDs. */
type Named = "organization" | "project";

/** Options whose values may be names. */
export const NAMED_OPTIONS: Readonly<Record<string, Named>> = { org: "organization", project: "project" };
/** What the first argument of each verb of a noun is, where it is called `id`. */
export const NAMED_ARGUMENTS: Readonly<Record<string, Named>> = { orgs: "organization", projects: "project" };
const PREFIXES: Record<Named, string> = { organization: "org_", project: "prj_" };

/**
 * Replaces names of organizations and projects by their IDs, in the options `--org` and `--project` and in the first
 * argument of `orgs …` and `projects …`, before a command runs. A text that begins like an ID stays as it is, and the
 * command says so when nothing has it.
 *
 * @throws CommandError `usage` when several have the name, `not_found` when none has it
 */
export async function replaceNames(command: Command, context: CliContext): Promise<void> {
  const options = command.opts<Record<string, unknown>>();
  for (const [option, kind] of Object.entries(NAMED_OPTIONS)) {
    const value = options[option];
    if (typeof value !== "string" || value.startsWith(PREFIXES[kind])) continue;
    command.setOptionValue(option, await idOf(value, kind, context));
  }
  const [argument] = command.registeredArguments;
  const kind = NAMED_ARGUMENTS[command.parent?.name() ?? ""];
  const value: unknown = command.processedArgs[0];
  if (kind === undefined || argument?.name() !== "id" || typeof value !== "string") return;
  if (!value.startsWith(PREFIXES[kind])) command.processedArgs[0] = await idOf(value, kind, context);
}

async function idOf(name: string, kind: Named, context: CliContext): Promise<string> {
  const { accounts } = await context.openServices();
  const organizations = accounts.listOrganizations();
  const left = new Set(organizations.filter((each) => each.purgeStartedAt !== null).map(({ id }) => id));
  const found =
    kind === "organization"
      ? named(organizations, name).map(({ id }) => ({ id, organizationId: id }))
      : named(accounts.listProjects(), name);
  // A customer who was purged does not keep a name from others.
  const present = found.filter(({ organizationId }) => !left.has(organizationId));
  const ids = (present.length > 0 ? present : found).map(({ id }) => id);
  if (ids.length > 1) {
    throw new CommandError(
      "usage",
      `${ids.length} ${kind}s have the name ${name}; give an ID: ${ids.join(", ")}`,
    );
  }
  if (ids[0] === undefined) throw new CommandError("not_found", `there is no ${kind} ${name}`);
  return ids[0];
}

/**
 * Warns where the name of a new or renamed organization or project no longer names it alone.
 *
 * @param found all that have the name
 * @param id the new or renamed one
 */
export function noteNamesakes(context: CliContext, found: readonly { id: string }[], id: string): void {
  const others = found.filter((each) => each.id !== id).map((each) => each.id);
  if (others.length === 0) return;
  context.note(
    `warning: ${others.join(", ")} had the name before; from now on commands need an ID (--unless-exists makes none)`,
  );
}
