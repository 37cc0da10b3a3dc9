import type { Command } from "commander";
import packageJson from "../../../package.json" with { type: "json" };
import { commandsBelow, isHidden, pathOf } from "./command-tree.ts";
import type { CliContext } from "./context.ts";
import { EXAMPLES } from "./examples.ts";
import { EXIT, EXIT_MEANINGS } from "./exit-statuses.ts";

const FILES: readonly (readonly [string, string])[] = [
  [
    "./shruti.toml, /etc/shruti/shruti.toml",
    "the config file, where neither --config nor $SHRUTI_CONFIG names one",
  ],
  ["/var/lib/shruti", "the data directory of the service that install.sh makes"],
];

/** `shruti man`: the manual page, made from the definitions of the commands. */
export function registerMan(program: Command, context: CliContext): void {
  program
    .command("man")
    .description("print the manual page: shruti man | man -l -")
    .action(() => void context.io.out(renderManualPage(program)));
}

/** Renders all commands as a page for man(1), in the macros of man(7). */
export function renderManualPage(program: Command): string {
  const leaves = commandsBelow(program).filter(
    (command) => command !== program && command.commands.length === 0 && !isHidden(command),
  );
  return [
    `.TH SHRUTI 1 "" "Shruti ${packageJson.version}" "Shruti"`,
    ".SH NAME",
    "shruti \\- transcribe speech, as a server or on the command line",
    ".SH SYNOPSIS",
    ".B shruti\n[\\fB\\-\\-config\\fR \\fIFILE\\fR]\n\\fICOMMAND\\fR",
    ".SH DESCRIPTION",
    text(program.description()),
    ".PP",
    text("A command's own help has the same text: shruti help COMMAND. Pages by topic: shruti help topics."),
    ".SH COMMANDS",
    ...leaves.flatMap(renderCommand),
    ".SH EXIT STATUS",
    ...Object.entries(EXIT).flatMap(([failure, status]) => [
      ".TP",
      `.B ${status}`,
      text(EXIT_MEANINGS[failure as keyof typeof EXIT]),
    ]),
    ".SH ENVIRONMENT",
    ".TP",
    ".B SHRUTI_CONFIG",
    "the config file",
    ".TP",
    ".B SHRUTI_SECTION_NAME",
    text("overrides a setting, such as SHRUTI_SERVER_LISTEN; shruti config defaults lists all"),
    ".SH FILES",
    ...FILES.flatMap(([path, meaning]) => [".TP", `.I ${text(path)}`, text(meaning)]),
    "",
  ].join("\n");
}

function renderCommand(command: Command): string[] {
  const path = pathOf(command);
  const operands = command.registeredArguments.map((argument) => {
    const name = `\\fI${text(argument.name().toUpperCase())}\\fR${argument.variadic ? "..." : ""}`;
    return argument.required ? name : `[${name}]`;
  });
  const examples = Object.hasOwn(EXAMPLES, path) ? (EXAMPLES[path] ?? []) : [];
  return [
    `.SS "shruti ${text(path)}${operands.length > 0 ? ` ${operands.join(" ")}` : ""}"`,
    text(command.description()),
    ...command.options.flatMap(({ flags, description }) => [
      ".TP",
      `\\fB${text(flags)}\\fR`,
      text(description),
    ]),
    ...examples.flatMap(([purpose, line]) => [
      ".PP",
      text(`${purpose}:`),
      ".PP",
      ".nf",
      text(`    shruti ${line}`),
      ".fi",
    ]),
  ];
}

/** Escapes what roff would read as a command: backslashes, dashes, and a dot or apostrophe at the start of a line. */
function text(plain: string): string {
  return plain
    .replaceAll("\\", "\\e")
    .replaceAll("-", "\\-")
    .split("\n")
    .map((line) => (/^[.']/.test(line) ? `\\&${line}` : line))
    .join("\n");
}
