import type { Command } from "commander";

/** Returns a command's words after the program's name, such as `orgs create`. */
export function pathOf(command: Command): string {
  const words: string[] = [];
  for (let each: Command | null = command; each?.parent; each = each.parent) words.unshift(each.name());
  return words.join(" ");
}

/** Lists a command and everything below it, in the order of the help. */
export function commandsBelow(command: Command): Command[] {
  return [command, ...command.commands.flatMap(commandsBelow)];
}

/** Reports whether the help leaves a command out. Commander has no method for it. */
export function isHidden(command: Command): boolean {
  return (command as unknown as { _hidden?: boolean })._hidden === true;
}

/** Finds a command by its words; undefined when a word names none. */
export function findCommand(program: Command, words: readonly string[]): Command | undefined {
  let found: Command | undefined = program;
  for (const word of words) {
    found = found?.commands.find((each) => each.name() === word || each.aliases().includes(word));
  }
  return found;
}
