import type { Command } from "commander";
import { commandsBelow, findCommand, pathOf } from "./command-tree.ts";
import { type CliContext, CommandError } from "./context.ts";
import { EXAMPLES } from "./examples.ts";
import { TOPICS } from "./topics.ts";

/** Adds examples to the help of commands, `--config` to that of every command, and `shruti help COMMAND…|TOPIC|topics`. */
export function registerHelp(program: Command, context: CliContext): void {
  for (const command of commandsBelow(program)) {
    command.configureHelp({ showGlobalOptions: true });
    const text = renderExamples(pathOf(command));
    if (text !== "") command.addHelpText("after", text);
  }
  program
    .command("help")
    .description("help of a command, or `help topics`: the manual by topic")
    .argument(
      "[words...]",
      "a command, such as `orgs create`; `topics`; `topics NAME`, or `NAME` alone where no command has the name",
    )
    .action((words: string[]) => {
      const [first = ""] = words;
      const isTopic = words.length === 1 && TOPICS.some(({ name }) => name === first);
      if (first === "topics") context.io.out(renderTopic(words[1]));
      else if (isTopic && !findCommand(program, words)) context.io.out(renderTopic(first));
      else helpOf(program, words).outputHelp();
    });
}

function helpOf(program: Command, words: readonly string[]): Command {
  const command = findCommand(program, words);
  if (!command) {
    throw new CommandError("usage", `there is no command ${words.join(" ")}; \`shruti help\` lists them`);
  }
  return command;
}

function renderExamples(path: string): string {
  const examples = Object.hasOwn(EXAMPLES, path) ? (EXAMPLES[path] ?? []) : [];
  if (examples.length === 0) return "";
  return `\nExamples:\n${examples.map(([purpose, line]) => `  # ${purpose}\n  shruti ${line}\n`).join("")}`;
}

function renderTopic(name: string | undefined): string {
  if (name === undefined) {
    const width = Math.max(...TOPICS.map((topic) => topic.name.length));
    const lines = TOPICS.map((topic) => `  ${topic.name.padEnd(width)}  ${topic.title}`);
    return `Topics of the manual. Read one with \`shruti help topics NAME\`:\n\n${lines.join("\n")}\n`;
  }
  const topic = TOPICS.find((each) => each.name === name);
  if (!topic) {
    const names = TOPICS.map((each) => each.name).join(", ");
    throw new CommandError("not_found", `there is no topic ${name}; there are ${names}`);
  }
  return topic.text;
}
