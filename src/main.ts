import { WORKER_COMMAND } from "./engine/protocol.ts";

/** The two things this executable can be: a worker of itself, or the command line (which also serves). */
if (process.argv[2] === WORKER_COMMAND) {
  const { runWorker } = await import("./engine/worker.ts");
  runWorker();
} else {
  // Whoever reads may stop reading, as `head` does; then the rest is not wanted, and that is no fault.
  process.stdout.on("error", (error: Error & { code?: string }) =>
    process.exit(error.code === "EPIPE" ? 0 : 1),
  );
  // A log that nobody can take, as on a full disk, is lost; it must not end the program, nor spoil its exit status.
  process.stderr.on("error", () => {});
  const { runCli } = await import("./cli/program.ts");
  process.exitCode = await runCli(process.argv.slice(2), {
    out: (text) => process.stdout.write(text),
    err: (text) => process.stderr.write(text),
    environment: process.env,
  });
}
