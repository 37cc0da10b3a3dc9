import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { Kind, type TObject, type TSchema } from "@sinclair/typebox";

/** The repository's folder. */
export const ROOT = resolve(import.meta.dir, "../../..");

/** A numbered section of a document, without its subsections. */
export type Section = { number: string; title: string; text: string };

/** A table: its header cells, and the cells of each row. */
export type Table = { header: string[]; rows: string[][] };

const HEADING = /^#{1,6} (?:(\d+(?:\.\d+)*)\.? )?(.+)$/;

/** Reads a Markdown file by its path from the repository's folder. */
export function readDocument(path: string): string {
  return readFileSync(join(ROOT, path), "utf8");
}

/** Returns the paths of all pages of the manual from the repository's folder, sorted. */
export function manualPages(): string[] {
  const folder = "docs/manual";
  return readdirSync(join(ROOT, folder))
    .filter((name) => name.endsWith(".md"))
    .map((name) => `${folder}/${name}`)
    .sort();
}

/** Returns every heading of a Markdown text with the text below it. `number` is empty where a heading has none. */
export function sectionsOf(text: string): Section[] {
  const sections: Section[] = [];
  let isCode = false;
  for (const line of text.split("\n")) {
    if (line.startsWith("```")) isCode = !isCode;
    const [, number = "", title] = (isCode ? undefined : HEADING.exec(line)) ?? [];
    if (title !== undefined) sections.push({ number, title, text: "" });
    else if (sections.length > 0) (sections.at(-1) as Section).text += `${line}\n`;
  }
  return sections;
}

/** @throws Error when the document has no section of that number */
export function sectionOf(path: string, number: string): Section {
  const found = sectionsOf(readDocument(path)).find((section) => section.number === number);
  if (!found) throw new Error(`${path} has no section ${number}`);
  return found;
}

/** Returns the tables of a Markdown text in order. */
export function tablesOf(text: string): Table[] {
  const tables: Table[] = [];
  let rows: string[][] = [];
  for (const line of [...text.split("\n"), ""]) {
    if (line.startsWith("|")) rows.push(cellsOf(line));
    else if (rows.length > 0) {
      const [header = [], , ...body] = rows;
      tables.push({ header, rows: body });
      rows = [];
    }
  }
  return tables;
}

function cellsOf(line: string): string[] {
  return line
    .replace(/^\|/, "")
    .replace(/\|\s*$/, "")
    .split(/(?<!\\)\|/)
    .map((cell) => cell.trim().replaceAll("\\|", "|"));
}

/** @throws Error when the section has no table with these header cells at its beginning */
export function tableOf({ number, title, text }: Section, ...header: string[]): Table {
  const found = tablesOf(text).find((table) => header.every((name, index) => table.header[index] === name));
  if (!found) throw new Error(`section ${number} ${title} has no table of ${header.join(", ")}`);
  return found;
}

/** Returns every `code` in a text. */
export function codesIn(text: string): string[] {
  return [...text.matchAll(/`([^`]+)`/g)].map(([, code = ""]) => code);
}

/** A field of a schema: its dotted name, its type in words, and its allowed values. */
export type Field = { name: string; type: string; required: string; values: string[] };

/** Returns the fields of an object. Fields of unnamed objects inside it have dotted names. */
export function fieldsOf(schema: TObject, prefix = ""): Field[] {
  return Object.entries(schema.properties).flatMap(([key, property]) => {
    const name = prefix + key;
    const required = schema.required?.includes(key) ? "yes" : "no";
    const field = { name, type: typeOf(property), required, values: literalsOf(property) };
    return isNested(property) ? [field, ...fieldsOf(property, `${name}.`)] : [field];
  });
}

/** Reports whether a schema is an object without a name. Keys with dots belong to a table of capabilities, not of fields. */
function isNested(schema: TSchema): schema is TObject {
  if (schema[Kind] !== "Object" || schema.title !== undefined || !schema.properties) return false;
  return !Object.keys(schema.properties).some((key) => key.includes("."));
}

function branchesOf(schema: TSchema): TSchema[] {
  return schema[Kind] === "Union" ? (schema.anyOf as TSchema[]) : [schema];
}

function literalsOf(schema: TSchema): string[] {
  const inner = schema.type === "array" ? (schema.items as TSchema) : schema;
  return branchesOf(inner).flatMap((branch) => (branch.const === undefined ? [] : [String(branch.const)]));
}

/** Names a type in the words of docs/interface.md: `string`, `string or null`, `enum`, `array of Segment`, … */
function typeOf(schema: TSchema): string {
  const branches = branchesOf(schema);
  if (branches.length > 1 && branches.every((branch) => branch.const !== undefined)) return "enum";
  const words = branches.map((branch) => {
    if (branch.const !== undefined) return "constant";
    if (branch.type === "array") {
      const items = branch.items as TSchema;
      return `array of ${items.title ?? typeOf(items)}`;
    }
    return branch.contentMediaType || branch.format === "binary" ? "file" : String(branch.type);
  });
  return [...new Set(words)].join(" or ");
}
