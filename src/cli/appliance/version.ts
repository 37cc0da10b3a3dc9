import type { Command } from "commander";
import packageJson from "../../../package.json" with { type: "json" };
import type { CliContext } from "../frame/context.ts";

/** `shruti version` */
export function registerVersion(program: Command, context: CliContext): void {
  program.version(packageJson.version, "-V, --version", "print the version");
  program
    .command("version")
    .description("print the version")
    .option(
      "--json",
      "print JSON: version, commit, compiler, processor code, and all parts with their versions",
    )
    .action(async (options: { json?: true }) => {
      if (options.json) context.printJson(await facts());
      else context.printLine(`shruti ${packageJson.version}${await limitation()}`);
    });
}

/** Says of a build for one machine's processor that it is one. A release has the code for all processors. */
async function limitation(): Promise<string> {
  const { readParts } = await import("../../executable/parts.ts");
  const { names, complete } = (await readParts()).build.processor_code;
  return complete ? "" : ` (built for one machine: ${names.join(", ")})`;
}

async function facts() {
  const { readParts } = await import("../../executable/parts.ts");
  const { build, licence, parts } = await readParts();
  return {
    ...build,
    arch: process.arch,
    licence: licence?.name ?? null,
    parts: parts.map(({ name, version, licence: of, within }) => ({
      name,
      version,
      licence: of,
      ...(within === undefined ? {} : { within }),
    })),
  };
}
