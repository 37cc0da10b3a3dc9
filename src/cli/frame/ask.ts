import { createInterface } from "node:readline/promises";

/**
 * Returns a function that asks a person on the terminal and returns the answer; undefined where standard input or
 * standard error is not a terminal. The end of the input is an empty answer.
 */
export function openQuestions(): ((question: string) => Promise<string>) | undefined {
  if (!process.stdin.isTTY || !process.stderr.isTTY) return undefined;
  return async (question) => {
    const terminal = createInterface({ input: process.stdin, output: process.stderr });
    try {
      const ended = new Promise<string>((resolve) => terminal.once("close", () => resolve("")));
      return await Promise.race([terminal.question(question), ended]);
    } finally {
      terminal.close();
    }
  };
}
