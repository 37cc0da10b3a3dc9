import { constants } from "node:os";
import { createInterface, type Interface } from "node:readline";

/** A person who answers several questions, one after the other. */
export type Conversation = {
  /**
   * Asks a question and returns the answer, at most `MAX_ANSWER` characters, without spaces at its ends. Answers that were
   * typed ahead count.
   *
   * @throws NoAnswer
   */
  ask(question: string): Promise<string>;
  /** Width of the terminal in columns. */
  columns: number;
  /** Gives the terminal back as it was. */
  close(): void;
};

/** A conversation has ended without an answer. */
export class NoAnswer extends Error {
  /** Ctrl-C has ended it; otherwise the input has. */
  readonly isInterrupted: boolean;

  constructor(isInterrupted: boolean) {
    super(isInterrupted ? "interrupted" : "the input ended before the last answer");
    this.name = "NoAnswer";
    this.isInterrupted = isInterrupted;
  }
}

/** A path of Linux has at most 4,096 bytes, and no other answer is longer. */
const MAX_ANSWER = 4_096;
/** Answers that were typed before their questions. What is pasted beyond them is dropped. */
const MAX_AHEAD = 100;
const DEFAULT_COLUMNS = 80;
/** Signals that end the program while the terminal is in raw mode, in which it would stay. */
const SIGNALS = ["SIGHUP", "SIGQUIT", "SIGTERM"] as const;

/**
 * Returns a function that asks a person on the terminal and returns the answer; undefined where standard input or
 * standard error is not a terminal. Ctrl-C and the end of the input are an empty answer.
 */
export function openQuestions(): ((question: string) => Promise<string>) | undefined {
  if (!process.stdin.isTTY || !process.stderr.isTTY) return undefined;
  return async (question) => {
    const conversation = converse();
    try {
      return await conversation.ask(question);
    } catch (error) {
      if (error instanceof NoAnswer) return "";
      throw error;
    } finally {
      conversation.close();
    }
  };
}

/**
 * Returns a function that begins a conversation; undefined where standard input, standard output or standard error is not
 * a terminal: a script must never wait for an answer.
 */
export function openConversations(): (() => Conversation) | undefined {
  const streams = [process.stdin, process.stdout, process.stderr];
  return streams.every(({ isTTY }) => isTTY) ? converse : undefined;
}

function converse(): Conversation {
  // A terminal that cannot move its cursor gets plain lines, which the system lets people correct.
  const terminal = createInterface({
    input: process.stdin,
    output: process.stderr,
    terminal: process.env.TERM !== "dumb",
    historySize: 0,
  });
  const lines = queueOf(terminal);
  const restore = onSignals(() => terminal.close());
  return {
    get columns() {
      return process.stderr.columns || DEFAULT_COLUMNS;
    },
    async ask(question) {
      for (;;) {
        terminal.setPrompt(question);
        terminal.prompt();
        const line = await lines.next();
        if (line.length <= MAX_ANSWER && !line.includes(TOO_LONG)) return line.trim();
        process.stderr.write(`An answer has at most ${MAX_ANSWER} characters.\n`);
      }
    },
    close() {
      lines.stop();
      restore();
      terminal.close();
    },
  };
}

/** Takes the place of a line that was too long. People cannot type it. */
const TOO_LONG = "\0";

/** Collects the lines of a terminal. `next` returns the oldest one, and waits for it. @throws NoAnswer */
function queueOf(terminal: Interface): { next: () => Promise<string>; stop: () => void } {
  const lines: string[] = [];
  let end: NoAnswer | undefined;
  let isTooLong = false;
  let wake = () => {};
  const finish = (isInterrupted: boolean) => {
    end ??= new NoAnswer(isInterrupted);
    wake();
  };
  const interrupt = () => {
    process.stderr.write("\n");
    finish(true);
  };
  terminal.on("line", (line) => {
    if (lines.length < MAX_AHEAD) lines.push(isTooLong ? TOO_LONG : line);
    isTooLong = false;
    wake();
  });
  terminal.on("SIGINT", interrupt);
  process.on("SIGINT", interrupt);
  terminal.on("close", () => finish(false));
  // The library keeps what is typed until the line ends, however long that is.
  const bound = () => {
    if (terminal.line.length <= MAX_ANSWER) return;
    isTooLong = true;
    terminal.write(null, { ctrl: true, name: "e" });
    terminal.write(null, { ctrl: true, name: "u" });
  };
  process.stdin.on("keypress", bound);
  return {
    async next() {
      for (;;) {
        // What was typed before Ctrl-C is not an answer any more.
        if (end) throw end;
        const line = lines.shift();
        if (line !== undefined) return line;
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
    },
    stop() {
      process.off("SIGINT", interrupt);
      process.stdin.off("keypress", bound);
    },
  };
}

/** Does something before a signal ends the program. @returns what stops that */
function onSignals(before: () => void): () => void {
  const end = (signal: (typeof SIGNALS)[number]) => {
    before();
    process.exit(128 + constants.signals[signal]);
  };
  for (const signal of SIGNALS) process.on(signal, end);
  return () => {
    for (const signal of SIGNALS) process.off(signal, end);
  };
}
