import type { CliIo } from "../../cli/frame/context.ts";
import { runCli } from "../../cli/program.ts";
import type { Clock } from "../../lib/clock.ts";

/** The output of a command, and its exit status. */
export type CliOutcome = { status: number; out: string; err: string };

/** Runs a command in this process. Its environment has only the given variables. */
export async function runCaptured(
  argv: readonly string[],
  environment: Record<string, string | undefined>,
  clock?: Clock,
): Promise<CliOutcome> {
  return capture(argv, { environment }, clock);
}

/** Runs a command as on a terminal of 80 columns, where a person gives the same answer to each question. */
export async function runAnswered(
  answer: string,
  argv: readonly string[],
  environment: Record<string, string | undefined>,
  clock?: Clock,
): Promise<CliOutcome & { asked: string[] }> {
  const asked: string[] = [];
  const ask = async (question: string) => {
    asked.push(question);
    return answer;
  };
  return { ...(await capture(argv, { environment, columns: 80, ask }, clock)), asked };
}

async function capture(
  argv: readonly string[],
  io: Omit<CliIo, "out" | "err">,
  clock?: Clock,
): Promise<CliOutcome> {
  const said = { out: "", err: "" };
  const out = (text: string) => {
    said.out += text;
  };
  const err = (text: string) => {
    said.err += text;
  };
  return { status: await runCli(argv, { ...io, out, err }, clock), ...said };
}
