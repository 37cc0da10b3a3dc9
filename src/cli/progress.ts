import cliProgress from "cli-progress";
import type { CliIo } from "./context.ts";

export type ProgressDisplay = {
  /** @param done 0 to 1 */
  update(done: number): void;
  close(): void;
};

const SILENT: ProgressDisplay = { update: () => {}, close: () => {} };

/** A progress bar on standard error when that is a terminal; nothing otherwise. */
export function openProgress(io: CliIo, name: string): ProgressDisplay {
  if (!process.stderr.isTTY || io.environment.TERM === "dumb") return SILENT;
  const bar = new cliProgress.SingleBar({
    format: "{name} {bar} {percentage} % | {eta_formatted}",
    stream: process.stderr,
    hideCursor: true,
    clearOnComplete: true,
    stopOnComplete: false,
  });
  bar.start(1000, 0, { name });
  return {
    update: (done) => bar.update(Math.round(done * 1000)),
    close: () => bar.stop(),
  };
}
