import { type Command, Option } from "commander";
import { findCommand, isHidden } from "./command-tree.ts";
import type { CliContext } from "./context.ts";

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
 * @returns commands, or options where the last word begins with a dash; empty where a file or another value is expected
 */
export function completionsOf(program: Command, typed: readonly string[]): [word: string, meaning: string][] {
  const unfinished = typed.at(-1) ?? "";
  const { command, isValue, arguments: given } = follow(program, typed.slice(0, -1));
  if (isValue) return [];
  if (unfinished.startsWith("-")) return optionsOf(command).filter(([word]) => word.startsWith(unfinished));
  if (given > 0) return [];
  return command.commands
    .filter((each) => !isHidden(each) && each.name().startsWith(unfinished))
    .map((each) => [each.name(), firstLine(each.description())]);
}

/** Follows finished words through the commands. */
function follow(program: Command, words: readonly string[]) {
  let command = program;
  let isValue = false;
  let given = 0;
  for (const word of words) {
    if (isValue) {
      isValue = false;
      continue;
    }
    const option = [command, program]
      .flatMap(({ options }) => options)
      .find(({ long, short }) => word === long || word === short);
    const next = findCommand(command, [word]);
    if (option) isValue = option.required;
    else if (next && given === 0) command = next;
    else if (!word.startsWith("-")) given++;
  }
  return { command, isValue, arguments: given };
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
