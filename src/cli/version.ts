import type { Command } from "commander";
import packageJson from "../../package.json" with { type: "json" };
import type { CliContext } from "./context.ts";

/** `shruti version` */
export function registerVersion(program: Command, context: CliContext): void {
  program.version(packageJson.version, "-V, --version", "print the version");
  program
    .command("version")
    .description("print the version")
    .option("--json", "print JSON")
    .action((options: { json?: true }) => {
      const { version } = packageJson;
      if (!options.json) context.printLine(`shruti ${version}`);
      else context.printJson({ version, bun: Bun.version, platform: process.platform, arch: process.arch });
    });
}
