import { resolve } from "node:path";
import type { Command } from "commander";
import type { CliContext } from "./context.ts";

/** `shruti backup` and `shruti restore` */
export function registerBackup(program: Command, context: CliContext): void {
  program
    .command("backup")
    .description(
      "copy the database (records, transcripts, keys, ledger; not recordings and models) to a new file, also while the server runs",
    )
    .argument("<file>", "file to make")
    .option("--json", "print JSON")
    .action(async (file: string, options: { json?: true }) => {
      const { config } = context.loadConfig();
      const { backUpDatabase } = await import("../services/admin.ts");
      const bytes = backUpDatabase({ config, clock: context.clock }, file);
      if (options.json) context.printJson({ file: resolve(file), bytes });
      else context.printLine(`${resolve(file)}: ${bytes} bytes`);
    });

  program
    .command("restore")
    .description("replace the database by a backup while no server runs; the old one is kept beside it")
    .argument("<file>", "file that `shruti backup` made")
    .option("--json", "print JSON")
    .action(async (file: string, options: { json?: true }) => {
      const { config } = context.loadConfig();
      const [{ restoreDatabase }, { silentLog }] = await Promise.all([
        import("../services/admin.ts"),
        import("../lib/log.ts"),
      ]);
      const restored = restoreDatabase({ config, clock: context.clock, log: silentLog }, file);
      const { ledger, databasePath, previousPath } = restored;
      if (options.json) {
        context.printJson({
          database: databasePath,
          previous: previousPath ?? null,
          ledger: { ok: ledger.ok, entries: ledger.entries, head: ledger.head },
        });
      } else {
        context.printLine(`${databasePath}: restored, ${ledger.entries} ledger entries`);
        if (previousPath !== undefined) context.printLine(`${previousPath}: the previous database`);
      }
    });
}
