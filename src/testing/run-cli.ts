import { runCli } from "../cli/program.ts";
import type { Clock } from "../lib/clock.ts";

/** The output of a command, and its exit status. */
export type CliOutcome = { status: number; out: string; err: string };

/** Runs a command in this process. Its environment has only the given variables. */
export async function runCaptured(
  argv: readonly string[],
  environment: Record<string, string | undefined>,
  clock?: Clock,
): Promise<CliOutcome> {
  const said = { out: "", err: "" };
  const io = {
    out: (text: string) => {
      said.out += text;
    },
    err: (text: string) => {
      said.err += text;
    },
    environment,
  };
  return { status: await runCli(argv, io, clock), ...said };
}
