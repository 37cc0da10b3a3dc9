import type { Command } from "commander";
import type { Part, PartList } from "../../executable/parts.ts";
import { type CliContext, CommandError } from "../frame/context.ts";
import { renderTable } from "../frame/output.ts";

/** `shruti licenses` */
export function registerLicenses(program: Command, context: CliContext): void {
  program
    .command("licenses")
    .description("the licences of everything inside; with a name, or with --all, their texts")
    .argument("[name]", "a part, such as FFmpeg")
    .option("--all", "all texts")
    .option("--json", "print JSON, with texts")
    .action(async (name: string | undefined, options: { all?: true; json?: true }) => {
      const { readParts } = await import("../../executable/parts.ts");
      const list = await readParts();
      const parts = name === undefined ? list.parts : named(list, name);
      if (options.json) context.printJson(asJson(list, parts));
      else if (name !== undefined) context.io.out(renderTexts(list, parts));
      else context.io.out(options.all ? renderLicences(list) : renderOverview(list));
    });
}

function named({ parts }: PartList, name: string): Part[] {
  const found = parts.filter((part) => part.name.toLowerCase() === name.toLowerCase());
  if (found.length === 0)
    throw new CommandError("not_found", `there is no part ${name}; see: shruti licenses`);
  return found;
}

/** Each part with its texts in full. */
function asJson({ build, licence, texts }: PartList, parts: readonly Part[]) {
  return {
    version: build.version,
    licence,
    parts: parts.map((part) => ({ ...part, texts: part.texts.map((key) => texts[key] ?? "") })),
  };
}

export function describeLicence({ build, licence }: PartList): string {
  const name = `Shruti ${build.version}`;
  if (licence !== null) return `${name}: ${licence.name}\n`;
  return `${name}: no licence has been chosen yet. All rights are reserved by its owner; the parts below have their own licences.\n`;
}

function renderOverview(list: PartList): string {
  const rows = list.parts.map(({ name, version, licence, within }) => [name, version, licence, within ?? ""]);
  const table = renderTable(["PART", "VERSION", "LICENCE", "INSIDE"], rows);
  return `${describeLicence(list)}\n${table}\nTexts: shruti licenses NAME, shruti licenses --all\n`;
}

/** Renders everything: the product's licence, all parts, and each text once with the parts that it belongs to. */
export function renderLicences(list: PartList): string {
  const own = list.licence === null ? "" : `\n${list.licence.text}`;
  return `${describeLicence(list)}${own}\n${renderTexts(list, list.parts)}`;
}

const RULE = `${"=".repeat(100)}\n`;

function renderTexts({ texts }: PartList, parts: readonly Part[]): string {
  const owners = Map.groupBy(
    parts.flatMap((part) => part.texts.map((key) => ({ part, key }))),
    ({ key }) => key,
  );
  return [...owners]
    .map(
      ([key, of]) => `${RULE}${of.map(({ part }) => titleOf(part)).join("")}${RULE}\n${texts[key] ?? ""}\n`,
    )
    .join("");
}

function titleOf({ name, version, licence, source, within, note }: Part): string {
  const inside = within === undefined ? "" : `, inside ${within}`;
  return `${name} ${version} (${licence})${inside}\n  ${source}\n${note === undefined ? "" : `  ${note}\n`}`;
}
