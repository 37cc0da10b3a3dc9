import type { Command } from "commander";
import { buildProgram } from "../../cli/program.ts";
import { CONFIG_SCHEMA, type Setting } from "../../config/schema.ts";
import { ERROR_TABLE } from "../../domain/errors.ts";

/** A table of docs/ whose rows come from the code. `bun scripts/docs-tables.ts` writes them. */
export type GeneratedTable = {
  name: string;
  path: string;
  /** The header line of the table. It occurs once in the document. */
  header: string;
  rows: string[];
};

/** @param metricsText body of `GET /metrics` */
export function generatedTables(metricsText: string): GeneratedTable[] {
  return [
    {
      name: "errors",
      path: "docs/interface.md",
      header: "| Code | Status | Default message |",
      rows: Object.entries(ERROR_TABLE).map(([code, { status, message }]) =>
        row(`\`${code}\``, String(status), message),
      ),
    },
    {
      name: "limits",
      path: "docs/decisions/limits.md",
      header: "| Limit's setting | Default | Allowed | Meaning |",
      rows: settings((section) => section === "limits").map(([name, one]) =>
        row(`\`${name}\``, defaultOf(one), allowedBy(one), one.help),
      ),
    },
    {
      name: "commands",
      path: "docs/decisions/commands.md",
      header: "| Command | Options |",
      rows: commandRows(),
    },
    {
      name: "settings",
      path: "docs/decisions/config.md",
      header: "| Setting | Default | Allowed |",
      rows: settings((section) => section !== "limits").map(([name, one]) =>
        row(`\`${name}\``, defaultOf(one), allowedBy(one)),
      ),
    },
    {
      name: "metrics",
      path: "docs/decisions/health.md",
      header: "| Metric | Type |",
      rows: metricRows(metricsText),
    },
  ];
}

/** Returns the rows below a table's header. @throws Error when the document has no such table, or several */
export function rowsBelow(text: string, header: string): string[] {
  const lines = text.split("\n");
  const at = lines.indexOf(header);
  if (at < 0 || lines.indexOf(header, at + 1) >= 0) throw new Error(`not one table of ${header}`);
  const rows = lines.slice(at + 2);
  const end = rows.findIndex((line) => !line.startsWith("|"));
  return end < 0 ? rows : rows.slice(0, end);
}

/** Returns the document with other rows below a table's header. */
export function withRows(text: string, { header, rows }: Pick<GeneratedTable, "header" | "rows">): string {
  const lines = text.split("\n");
  const first = lines.indexOf(header) + 2;
  lines.splice(first, rowsBelow(text, header).length, ...rows);
  return lines.join("\n");
}

function row(...cells: string[]): string {
  return `| ${cells.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |`;
}

function settings(isWanted: (section: string) => boolean): [name: string, setting: Setting][] {
  const sections: Record<string, Record<string, Setting>> = CONFIG_SCHEMA;
  return Object.entries(sections)
    .filter(([section]) => isWanted(section))
    .flatMap(([section, ones]) =>
      Object.entries(ones).flatMap(([name, one]): [string, Setting][] => [
        [`${section}.${name}`, one],
        ...(one.type === "tables"
          ? Object.entries(one.fields).map(([field, of]): [string, Setting] => [
              `${section}.${name}.${field}`,
              of,
            ])
          : []),
      ]),
    );
}

function defaultOf(one: Setting): string {
  const text = one.type === "map" || one.type === "tables" ? "" : String(one.default);
  return text === "" ? "empty" : text;
}

function allowedBy(one: Setting): string {
  switch (one.type) {
    case "integer":
      return one.max === Number.MAX_SAFE_INTEGER ? `from ${one.min}` : `${one.min} to ${one.max}`;
    case "auto":
      return `auto, ${one.max === Number.MAX_SAFE_INTEGER ? `from ${one.min}` : `${one.min} to ${one.max}`}`;
    case "choice":
      return one.choices.join(", ");
    case "boolean":
      return "true, false";
    default:
      return one.type;
  }
}

/** Lists every command with its arguments and long options. */
function commandRows(): string[] {
  const { program, context } = buildProgram({ out: () => {}, err: () => {}, environment: {} });
  context.close();
  return rowsOfCommands(program, "");
}

/** Reports whether a command does something itself, not only its subcommands. Commander has no method for it. */
export function hasAction(command: Command): boolean {
  return Boolean((command as unknown as { _actionHandler?: unknown })._actionHandler);
}

function rowsOfCommands(parent: Command, path: string): string[] {
  return parent.commands.flatMap((command) => {
    if (command.name() === "help") return [];
    const full = path + command.name();
    const below = rowsOfCommands(command, `${full} `);
    if (!hasAction(command)) return below;
    const usage = command.registeredArguments.map((argument) => {
      const name = `${argument.name().toUpperCase()}${argument.variadic ? "…" : ""}`;
      return argument.required ? ` ${name}` : ` [${name}]`;
    });
    const options = command.options.map(({ long }) => `\`${long}\``);
    return [row(`\`${full}${usage.join("")}\``, options.length === 0 ? "none" : options.join(" ")), ...below];
  });
}

function metricRows(text: string): string[] {
  const found = [...text.matchAll(/^# TYPE (shruti_\w+) (\w+)$/gm)];
  return found.map(([, name, type]) => row(`\`${name}\``, String(type))).sort();
}
