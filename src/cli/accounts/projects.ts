import type { Command } from "commander";
import { toProject } from "../../http/console/views.ts";
import { named } from "../../lib/named.ts";
import { toTimestamp } from "../../lib/time.ts";
import type { Admin } from "../../services/admin.ts";
import { languageOrDefault, wholeNumberOrDefault } from "../frame/arguments.ts";
import type { CliContext } from "../frame/context.ts";
import { noteNamesakes } from "../frame/names.ts";
import { renderFields } from "../frame/output.ts";

type Project = ReturnType<Admin["accounts"]["showProject"]>;

/** `shruti projects …` */
export function registerProjects(program: Command, context: CliContext): void {
  const projects = program.command("projects").description("projects: what keys and recordings belong to");

  projects
    .command("create")
    .description("make a project; prints its ID")
    .argument("<name>", "name, for people")
    .requiredOption("--org <id>", "organization")
    .option("--unless-exists", "print the ID of the one that has the name in the organization")
    .option("--json", "print JSON")
    .action(async (name: string, options: { org: string; unlessExists?: true; json?: true }) => {
      const { accounts } = await context.openServices();
      const project = createProject(context, accounts, { organizationId: options.org, name }, options);
      if (options.json) context.printJson(toProject(project));
      else context.printLine(project.id);
    });

  projects
    .command("list")
    .description("projects of one organization, or of all but those that were purged")
    .option("--org <id>", "organization")
    .option("--all", "also those of organizations that were purged")
    .option("--json", "print JSON")
    .action(async (options: { org?: string; all?: true; json?: true }) => {
      const { accounts } = await context.openServices();
      const all = listed(accounts, options);
      if (options.json) {
        context.printJson(all.map(toProject));
        return;
      }
      const names = new Map(accounts.listOrganizations().map((each) => [each.id, each.name]));
      const rows = all.map(({ id, name, organizationId }) => [
        ...[id, name, organizationId],
        names.get(organizationId),
      ]);
      context.printTable(["ID", "NAME", "ORGANIZATION", "ITS NAME"], rows);
    });

  projects
    .command("show")
    .description("one project")
    .argument("<id>", "project")
    .option("--json", "print JSON")
    .action(async (id: string, options: { json?: true }) => {
      const admin = await context.openServices();
      print(context, admin, admin.accounts.showProject(id), options);
    });

  registerSet(projects, context);
}

/** Lists projects. Those of customers who have left are shown where they are asked for. */
function listed(accounts: Admin["accounts"], { org, all }: { org?: string; all?: true }): Project[] {
  const projects = accounts.listProjects(org);
  if (all || org !== undefined) return projects;
  const purged = accounts.listOrganizations().filter(({ purgedAt }) => purgedAt !== null);
  const left = new Set(purged.map(({ id }) => id));
  return projects.filter(({ organizationId }) => !left.has(organizationId));
}

function createProject(
  context: CliContext,
  accounts: Admin["accounts"],
  input: { organizationId: string; name: string },
  { unlessExists }: { unlessExists?: true },
): Project {
  if (unlessExists) {
    const { project, isNew } = accounts.ensureProject(input);
    if (!isNew) context.note(`${project.id} has the name ${project.name} already.`);
    return project;
  }
  const project = accounts.createProject(input);
  noteNamesakes(context, named(accounts.listProjects(input.organizationId), project.name), project.id);
  return project;
}

function registerSet(projects: Command, context: CliContext): void {
  projects
    .command("set")
    .description("change a project's settings; `default` restores the config's")
    .argument("<id>", "project")
    .option(
      "--audio-days <n>",
      "days for recordings; 0: no limit; or `default`",
      wholeNumberOrDefault(0, 36_500),
    )
    .option(
      "--transcript-days <n>",
      "days for transcripts; 0: no limit; or `default`",
      wholeNumberOrDefault(0, 36_500),
    )
    .option(
      "--default-language <code>",
      "language of requests to /openai/v1 that name none; or `default`",
      languageOrDefault,
    )
    .option("--json", "print JSON")
    .action(async (id: string, options: ProjectOptions) => {
      const admin = await context.openServices();
      const { audioDays, transcriptDays, defaultLanguage } = options;
      print(
        context,
        admin,
        admin.accounts.setProject(id, {
          ...(audioDays === undefined ? {} : { audioDays: ownOf(audioDays) }),
          ...(transcriptDays === undefined ? {} : { transcriptDays: ownOf(transcriptDays) }),
          ...(defaultLanguage === undefined ? {} : { defaultLanguage: ownOf(defaultLanguage) }),
        }),
        options,
      );
    });
}

type ProjectOptions = {
  audioDays?: number | "default";
  transcriptDays?: number | "default";
  defaultLanguage?: string;
  json?: true;
};
const ownOf = <T extends number | string>(value: T) =>
  value === "default" ? null : (value as Exclude<T, "default">);

function print(context: CliContext, { config }: Admin, project: Project, options: { json?: true }): void {
  if (options.json) {
    context.printJson(toProject(project));
    return;
  }
  const period = (own: number | null, days: number) => {
    const text = (own ?? days) === 0 ? "no limit" : `${own ?? days} days`;
    return own === null ? `${text} (default)` : text;
  };
  context.io.out(
    renderFields([
      ["ID", project.id],
      ["Name", project.name],
      ["Organization", project.organizationId],
      ["Created", toTimestamp(project.createdAt)],
      ["Recordings are kept", period(project.audioDays, config.retention.audio_days)],
      ["Transcripts are kept", period(project.transcriptDays, config.retention.transcript_days)],
      ["Default language", languageText(project.defaultLanguage, config.openai.default_language)],
    ]),
  );
}

function languageText(own: string | null, standard: string): string {
  if (own !== null) return own;
  return standard === "" ? "none" : `${standard} (default)`;
}
