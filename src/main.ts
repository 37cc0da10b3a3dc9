import { writeSync } from "node:fs";
import { WORKER_COMMAND } from "./engine/protocol.ts";
import { IMPORT_COMMAND } from "./model-import/protocol.ts";

/** Writes an error at once: the process ends right after it. */
function complain(message: string): void {
  try {
    writeSync(2, `error: ${message}\n`);
  } catch {
    // Standard error is closed, too.
  }
}

/** This executable is a worker process, a process that imports a model, or the command line, which also serves. */
if (process.argv[2] === WORKER_COMMAND) {
  const [{ runWorker }, { sha256OfFile }] = await Promise.all([
    import("./engine/workers/worker.ts"),
    import("./store/file-hash.ts"),
  ]);
  runWorker(sha256OfFile);
} else if (process.argv[2] === IMPORT_COMMAND) {
  const { runImportWorker } = await import("./model-import/import-worker.ts");
  runImportWorker();
} else {
  // A reader such as `head` may stop reading. The rest is then not wanted, which is not a failure.
  process.stdout.on("error", (error: Error & { code?: string }) => {
    if (error.code === "EPIPE") process.exit(0);
    complain(`standard output cannot be written: ${error.message}`);
    process.exit(1);
  });
  // A log line that cannot be written, such as on a full disk, is lost. It must not end the program or change its status.
  process.stderr.on("error", () => {});
  const { runCli } = await import("./cli/program.ts");
  const { openConversations, openQuestions } = await import("./cli/frame/ask.ts");
  process.exitCode = await runCli(process.argv.slice(2), {
    ask: openQuestions(),
    converse: openConversations(),
    columns: process.stdout.isTTY ? process.stdout.columns : undefined,
    out: (text) => process.stdout.write(text),
    err: (text) => process.stderr.write(text),
    environment: process.env,
  });
}
