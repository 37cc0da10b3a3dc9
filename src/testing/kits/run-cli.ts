import { NoAnswer } from "../../cli/frame/ask.ts";
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

/** Ends a conversation in the place of an answer: a key that a person presses, or the end of the input. */
export const CTRL_C = Symbol("Ctrl-C");
export const END_OF_INPUT = Symbol("end of input");

/**
 * Runs a command as on a terminal, where a person gives one answer after the other to several questions. After the last
 * one the input has ended.
 *
 * @returns also all questions, and how many conversations were not closed
 */
export async function runConversed(
  answers: readonly (string | typeof CTRL_C | typeof END_OF_INPUT)[],
  argv: readonly string[],
  environment: Record<string, string | undefined>,
  columns = 80,
): Promise<CliOutcome & { asked: string[]; open: number }> {
  const asked: string[] = [];
  let open = 0;
  const left = [...answers];
  const converse = () => {
    open++;
    return {
      async ask(question: string) {
        asked.push(question);
        const answer = left.shift();
        if (typeof answer === "string") return answer;
        throw new NoAnswer(answer === CTRL_C);
      },
      columns,
      close: () => void open--,
    };
  };
  const outcome = await capture(argv, { environment, columns, converse });
  return { ...outcome, asked, open };
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
