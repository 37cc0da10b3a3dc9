import { type Command, Option } from "commander";
import { SCOPES } from "../../domain/api-key.ts";
import { CHANNEL_MODES, MODES, TIMESTAMPS } from "../../domain/transcription.ts";
import { FORMATS } from "../../pipeline/render.ts";
import { OUTPUT_FORMATS } from "./choices.ts";
import { findCommand, isHidden, pathOf } from "./command-tree.ts";
import type { CliContext } from "./context.ts";
import { TOPICS } from "./topics.ts";

/** Values of options that commander itself does not know, by the option, or by command and option. */
const VALUES: Readonly<Record<string, readonly string[]>> = {
  "--mode": MODES,
  "--channel-mode": CHANNEL_MODES,
  "--timestamps": TIMESTAMPS,
  "--scopes": SCOPES,
  "--format": FORMATS,
  "transcribe --format": OUTPUT_FORMATS,
};

/**
 * Shells ask the executable itself for the words that can follow, so completions are always those of the installed
 * version. Where it has none to offer, the shell completes file names.
 */
const SCRIPTS = {
  bash: `_shruti() {
  local word="\${COMP_WORDS[COMP_CWORD]}"
  local IFS=$'\\n'
  COMPREPLY=($(compgen -W "$(shruti completion words -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null | cut -f 1)" -- "$word"))
}
complete -o default -o bashdefault -F _shruti shruti
`,
  zsh: `#compdef shruti
_shruti() {
  local -a found
  found=("\${(@f)$(shruti completion words -- "\${(@)words[2,CURRENT]}" 2>/dev/null | sed 's/:/\\\\:/g; s/\\t/:/')}")
  if [[ -n "\${found[1]}" ]]; then _describe shruti found; else _files; fi
}
if [[ "\${funcstack[1]}" = _shruti ]]; then _shruti "$@"; else compdef _shruti shruti; fi
`,
  fish: `function __shruti_words
  set -l words (commandline -opc) (commandline -ct)
  shruti completion words -- $words[2..-1] 2>/dev/null
end
complete -c shruti -a '(__shruti_words)'
`,
} as const;

type Shell = keyof typeof SCRIPTS;

/** `shruti completion bash|zsh|fish` */
export function registerCompletion(program: Command, context: CliContext): void {
  const completion = program
    .command("completion")
    .description("completion of commands and options in a shell");
  for (const shell of Object.keys(SCRIPTS) as Shell[]) {
    completion
      .command(shell)
      .description(`print the script for ${shell}`)
      .action(() => void context.io.out(SCRIPTS[shell]));
  }
  completion
    .command("words", { hidden: true })
    .description("the words that can follow, for the scripts")
    .argument("[typed...]", "words after the program's name, the last one unfinished")
    .action((typed: string[]) => {
      for (const [word, meaning] of completionsOf(program, typed)) context.printLine(`${word}\t${meaning}`);
    });
}

/**
 * Lists the words that can follow, with their meanings.
 *
 * @param typed words after the program's name; the last one is unfinished, or empty
 * @returns commands, topics of the manual, options where the last word begins with a dash, or the values of an option that has
 *   only some; empty where a file or another value is expected
 */
export function completionsOf(program: Command, typed: readonly string[]): [word: string, meaning: string][] {
  const unfinished = typed.at(-1) ?? "";
  const { command, wantsValue, given } = follow(program, typed.slice(0, -1));
  const begun = ([word]: [string, string]) => word.startsWith(unfinished);
  if (wantsValue) return valuesOf(command, wantsValue).filter(begun);
  if (unfinished.startsWith("-")) return optionsOf(command).filter(begun);
  if (pathOf(command) === "help") return wordsOfHelp(program, given).filter(begun);
  return given.length > 0 ? [] : commandsOf(command).filter(begun);
}

const commandsOf = (command: Command): [string, string][] =>
  command.commands
    .filter((each) => !isHidden(each))
    .map((each) => [each.name(), firstLine(each.description())]);

function valuesOf(command: Command, option: Option): [string, string][] {
  const name = option.long ?? "";
  const values = option.argChoices ?? VALUES[`${pathOf(command)} ${name}`] ?? VALUES[name] ?? [];
  return values.map((value) => [value, ""]);
}

/** Lists what can follow `help` and the arguments that it has: commands, and the topics of the manual. */
function wordsOfHelp(program: Command, given: readonly string[]): [string, string][] {
  const topics = TOPICS.map(({ name, title }): [string, string] => [name, title]);
  if (given.length === 0) return [...commandsOf(program), ["topics", "the manual by topic"], ...topics];
  if (given[0] === "topics") return given.length === 1 ? topics : [];
  const command = findCommand(program, given);
  return command ? commandsOf(command) : [];
}

/**
 * Follows finished words through the commands.
 *
 * @returns the command, the option whose value comes next, and the arguments that the command has already
 */
function follow(program: Command, words: readonly string[]) {
  let command = program;
  let wantsValue: Option | undefined;
  const given: string[] = [];
  for (const word of words) {
    if (wantsValue) {
      wantsValue = undefined;
      continue;
    }
    const option = [command, program]
      .flatMap(({ options }) => options)
      .find(({ long, short }) => word === long || word === short);
    const next = findCommand(command, [word]);
    if (option) wantsValue = option.required ? option : undefined;
    else if (next && given.length === 0) command = next;
    else if (!word.startsWith("-")) given.push(word);
  }
  return { command, wantsValue, given };
}

function optionsOf(command: Command): [string, string][] {
  const all = [...command.options, ...(command.parent ? rootOf(command).options : []), HELP];
  return all.map(({ long, description }) => [long ?? "", firstLine(description)]);
}

const HELP = new Option("-h, --help", "display help for command");

function rootOf(command: Command): Command {
  return command.parent ? rootOf(command.parent) : command;
}

const firstLine = (text: string) => text.split("\n", 1)[0] ?? "";
