import type { Command } from "commander";
import { toTimestamp } from "../lib/time.ts";
import type { Admin } from "../services/admin.ts";
import type { CliContext } from "./context.ts";
import { renderFields } from "./output.ts";

type Project = ReturnType<Admin["accounts"]["showProject"]>;

/** `shruti projects …` */
export function registerProjects(program: Command, context: CliContext): void {
  const projects = program.command("projects").description("projects: what keys and recordings belong to");

  projects
    .command("create")
    .description("make a project; prints its ID")
    .argument("<name>", "name, for people")
    .requiredOption("--org <id>", "organization")
    .option("--json", "print JSON")
    .action(async (name: string, options: { org: string; json?: true }) => {
      const { accounts } = await context.openServices();
      const project = accounts.createProject({ organizationId: options.org, name });
      if (options.json) context.printJson(toJson(project));
      else context.printLine(project.id);
    });

  projects
    .command("list")
    .description("projects of one organization or of all")
    .option("--org <id>", "organization")
    .option("--json", "print JSON")
    .action(async (options: { org?: string; json?: true }) => {
      const { accounts } = await context.openServices();
      const all = accounts.listProjects(options.org);
      if (options.json) {
        context.printJson(all.map(toJson));
        return;
      }
      const rows = all.map(({ id, name, organizationId }) => [id, name, organizationId]);
      context.printTable(["ID", "NAME", "ORGANIZATION"], rows);
    });

  projects
    .command("show")
    .description("one project")
    .argument("<id>", "project")
    .option("--json", "print JSON")
    .action(async (id: string, options: { json?: true }) => {
      const { accounts } = await context.openServices();
      const project = accounts.showProject(id);
      if (options.json) {
        context.printJson(toJson(project));
        return;
      }
      context.io.out(
        renderFields([
          ["ID", project.id],
          ["Name", project.name],
          ["Organization", project.organizationId],
          ["Created", toTimestamp(project.createdAt)],
        ]),
      );
    });
}

function toJson({ id, name, organizationId, createdAt }: Project) {
  return { id, object: "project", name, organization_id: organizationId, created_at: toTimestamp(createdAt) };
}
