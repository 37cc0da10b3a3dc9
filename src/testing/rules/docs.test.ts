import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import type { TObject } from "@sinclair/typebox";
import type { Command } from "commander";
import { buildProgram } from "../../cli/program.ts";
import { CONFIG_SCHEMA, RELOADED_SETTINGS, SECRET_SETTINGS } from "../../config/schema.ts";
import { SCOPES } from "../../domain/api-key.ts";
import { AUDIT_ACTIONS } from "../../domain/audit.ts";
import { CAPABILITIES } from "../../domain/capability.ts";
import { LEDGER_KINDS } from "../../domain/credit.ts";
import { ERROR_CODES, ERROR_TABLE, type ErrorCode } from "../../domain/errors.ts";
import { GAP_REASONS, WARNINGS } from "../../domain/result.ts";
import {
  FINAL_STATES,
  nextTranscriptionState,
  TRANSCRIPTION_STATES,
  TRANSCRIPTION_TRIGGERS,
} from "../../domain/transcription.ts";
import { nextUploadState, UPLOAD_STATES, UPLOAD_TRIGGERS } from "../../domain/upload.ts";
import { eventTypeOf, RETRY_DELAYS_SECONDS } from "../../domain/webhook.ts";
import * as schemas from "../../http/wire/schemas.ts";
import { ID_PREFIXES } from "../../lib/ids.ts";
import { MANIFEST_KEYS, ManifestError, parseManifest } from "../../services/models/model-manifest.ts";
import { openTestApp, type TestApp } from "../kits/open-test-app.ts";
import {
  codesIn,
  fieldsOf,
  ROOT,
  readDocument,
  type Section,
  sectionOf,
  sectionsOf,
  tableOf,
  tablesOf,
} from "./documents.ts";
import { generatedTables, rowsBelow } from "./generated-tables.ts";
import { fragmentsIn, proseOf, riddlesIn } from "./plain-english.ts";
import { TEST_VARIABLES } from "./test-variables.ts";

/** Compares the tables of docs/ with the code. Where they differ, either of them may be wrong. */

const INTERFACE = "docs/interface.md";
/** The page of a subject that the interface leaves open. */
const decisions = (subject: string) => `docs/decisions/${subject}.md`;

/** Returns the rows of a table without code marks. */
function rowsOf(path: string, section: string, ...header: string[]): string[][] {
  const found = /^[\d.]+$/.test(section) ? sectionOf(path, section) : namedSection(path, section);
  const { rows } = tableOf(found, ...header);
  return rows.map((cells) => cells.slice(0, header.length).map((cell) => cell.replaceAll("`", "")));
}

/** Writes each row on a line, so that a difference is easy to see and to copy. */
const asLines = (rows: readonly (readonly (string | undefined)[])[]) => rows.map((row) => row.join(" | "));

let testApp: TestApp;
type Described = { description: string; responses: Record<string, { content?: Record<string, Media> }> };
type Media = { examples?: Record<string, unknown> };
let paths: Record<string, Record<string, Described>>;

beforeAll(async () => {
  testApp = await openTestApp();
  const document = (await (await testApp.fetch("/openapi.json")).json()) as { paths: typeof paths };
  paths = document.paths;
});
afterAll(() => testApp.close());

/** Sections with the fields of each resource and request. */
const RESOURCES: [path: string, section: string, nth: number, schema: TObject][] = [
  [INTERFACE, "2.1", 0, schemas.Transcription],
  [INTERFACE, "2.2", 0, schemas.TranscriptionList],
  [INTERFACE, "2.3", 0, schemas.TranscriptionResult],
  [INTERFACE, "2.3", 1, schemas.Segment],
  [INTERFACE, "2.3", 2, schemas.Gap],
  [INTERFACE, "2.4", 0, schemas.UploadCreated],
  [INTERFACE, "2.4", 1, schemas.Upload],
  [INTERFACE, "2.5", 0, schemas.ModelList],
  [INTERFACE, "2.6", 0, schemas.Usage],
  [INTERFACE, "2.7", 0, schemas.WebhookEndpoint],
  [INTERFACE, "4.1", 0, schemas.TranscriptionCreate],
  [INTERFACE, "4.7", 0, schemas.AudioForm],
  [INTERFACE, "4.8", 0, schemas.UploadCreate],
  [INTERFACE, "4.13", 0, schemas.WebhookEndpointCreate],
  [INTERFACE, "6", 0, schemas.WebhookEvent],
  [INTERFACE, "7", 0, schemas.ErrorObject],
  [decisions("models"), "Fields of a model", 0, schemas.Model],
  [decisions("money"), "Usage event", 0, schemas.UsageEvent],
  [decisions("webhooks"), "The event `credit.low`", 0, schemas.CreditLowEvent],
] as unknown as [string, string, number, TObject][];

/** Long lists of values are written in one place, and other places name them. */
const WRITTEN_ELSEWHERE: [words: readonly string[], citation: RegExp][] = [
  [ERROR_CODES, /of section 7|of this section/],
  [TRANSCRIPTION_STATES, /section 3\.1/],
  [WARNINGS, /docs\/decisions\/transcriptions\.md, "Warnings"/],
];

describe("docs/interface.md", () => {
  test.each(RESOURCES)("%s section %s, table of fields %i", (path, section, nth, schema) => {
    const { text } = /^[\d.]+$/.test(section) ? sectionOf(path, section) : namedSection(path, section);
    const tables = tablesOf(text).filter(({ header }) => header[0] === "Field");
    const rows = tables[nth]?.rows ?? [];
    const fields = fieldsOf(schema);
    expect(asLines(rows.map(([name = "", ...others]) => [codesIn(name)[0], ...others.slice(0, 2)]))).toEqual(
      asLines(fields.map(({ name, type, required }) => [name, type, required])),
    );
    for (const [index, { name, values }] of fields.entries()) {
      const meaning = rows[index]?.[3] ?? "";
      const elsewhere = WRITTEN_ELSEWHERE.find(
        ([words]) => words.length === values.length && values.length > 1,
      );
      if (elsewhere) expect(`${name}: ${meaning}`).toMatch(elsewhere[1]);
      else expect([name, ...codesIn(meaning)]).toEqual(expect.arrayContaining(values));
    }
  });

  test.each([
    ["4.2", schemas.TranscriptionListQuery],
    ["4.12", schemas.UsageQuery],
  ])("section %s, parameters", (section, schema) => {
    const fields = fieldsOf(schema as unknown as TObject);
    expect(asLines(rowsOf(INTERFACE, section, "Parameter", "Type"))).toEqual(
      asLines(fields.map(({ name, type }) => [name, type])),
    );
  });

  test("section 3.1 has every move of a transcription", () => {
    const moves = TRANSCRIPTION_STATES.flatMap((state) =>
      TRANSCRIPTION_TRIGGERS.flatMap((trigger) => {
        const next = nextTranscriptionState(state, trigger);
        return next ? [`${state} ${trigger} ${next}`] : [];
      }),
    );
    const rows = rowsOf(INTERFACE, "3.1", "State", "Trigger", "Next state");
    expect(rows.map((cells) => cells.join(" ")).sort()).toEqual(moves.sort());
  });

  test("section 3.2 has every move of an upload", () => {
    const moves = UPLOAD_STATES.flatMap((state) =>
      UPLOAD_TRIGGERS.flatMap((trigger) => {
        const next = nextUploadState(state, trigger);
        return next ? [`${state} ${trigger} ${next}`] : [];
      }),
    );
    const rows = rowsOf(INTERFACE, "3.2", "State", "Trigger", "Next state");
    expect(rows.map((cells) => cells.join(" ")).sort()).toEqual(moves.sort());
  });

  test("section 4 has every endpoint with its scope, statuses and codes", () => {
    const { text } = sectionOf(INTERFACE, "4");
    const common = codesIn(text).filter((code): code is ErrorCode => code in ERROR_TABLE);
    const further = firstCells(furtherEndpoints());
    const described = describedEndpoints().filter(({ title }) => !further.includes(title));
    const documented = Array.from({ length: 13 }, (_, index) => {
      const { title, ...section } = sectionOf(INTERFACE, `4.${index + 1}`);
      const topics = new Map(
        tableOf({ title, ...section }, "Topic", "Value").rows.map(([topic = "", value = ""]) => [
          topic,
          value,
        ]),
      );
      return {
        title: codesIn(title)[0] ?? title,
        scope: codesIn(topics.get("scope") ?? "")[0],
        statuses: [...(topics.get("statuses")?.match(/\b2\d\d\b/g) ?? [])].sort(),
        codes: [...new Set([...common, ...codesIn(topics.get("codes") ?? "")])].sort(),
      };
    });
    expect(documented.sort(byTitle)).toEqual(described.sort(byTitle));
  });

  test("section 6 has every event", () => {
    expect(asLines(rowsOf(INTERFACE, "6", "Type", "Final state"))).toEqual(
      asLines(FINAL_STATES.map((state) => [eventTypeOf(state), state])),
    );
  });
});

/** Returns the operations of the interface as the OpenAPI document describes them. */
function describedEndpoints() {
  return Object.entries(paths)
    .filter(([path]) => path.startsWith("/v1/"))
    .flatMap(([path, item]) =>
      Object.entries(item).map(([method, { description, responses }]) => ({
        title: `${method.toUpperCase()} ${path}`,
        scope: /Scope: `([^`]+)`/.exec(description)?.[1],
        statuses: Object.keys(responses).filter((status) => status.startsWith("2")),
        codes: Object.values(responses)
          .flatMap(({ content }) => Object.keys(content?.["application/json"]?.examples ?? {}))
          .sort(),
      })),
    );
}

/** Returns the table of endpoints that the contract does not have. */
function furtherEndpoints(): string[][] {
  const { rows } = tableOf(
    namedSection(decisions("extensions"), "Further endpoints"),
    "Endpoint",
    "Scope",
    "Statuses",
    "Codes",
  );
  return rows.map((cells) => cells.map((cell) => cell.replaceAll("`", "")));
}

/** Finds a section that has a title and no number. */
function namedSection(path: string, wanted: string): Section {
  const found = sectionsOf(readDocument(path)).find(({ title }) => title === wanted);
  if (!found) throw new Error(`${path} has no section ${wanted}`);
  return found;
}

const byTitle = (a: { title: string }, b: { title: string }) => (a.title < b.title ? -1 : 1);
const firstCells = (rows: string[][]) => rows.map(([cell = ""]) => cell);

describe("docs/decisions/", () => {
  test("the page of conventions has every prefix of identifiers", () => {
    const rows = rowsOf(decisions("conventions"), "Identifiers", "Kind of identifier", "Prefix");
    expect(rows.map(([, prefix]) => prefix)).toEqual(Object.values(ID_PREFIXES));
  });

  test("has every scope, warning, reason, capability, kind of ledger entry and act", () => {
    expect(firstCells(rowsOf(decisions("keys"), "Keys and scopes", "Scope"))).toEqual([...SCOPES]);
    expect(firstCells(rowsOf(decisions("models"), "Capabilities", "Capability"))).toEqual([...CAPABILITIES]);
    expect(firstCells(rowsOf(decisions("money"), "The ledger", "Ledger entry"))).toEqual([...LEDGER_KINDS]);
    expect(firstCells(rowsOf(decisions("audit-log"), "Acts", "Act"))).toEqual([...AUDIT_ACTIONS]);
    const warnings = namedSection(decisions("transcriptions"), "Warnings");
    expect(tableOf(warnings, "Warning").rows.map(([cell = ""]) => codesIn(cell)[0])).toEqual([...WARNINGS]);
    const result = tableOf(namedSection(decisions("transcriptions"), "Result"), "Topic").rows;
    for (const reason of GAP_REASONS) expect(firstCells(result)).toContain(`gap \`${reason}\``);
  });

  test("the page of models has every key of a manifest, and which are needed", () => {
    const rows = rowsOf(decisions("models"), "Manifests", "Key", "Required");
    expect(firstCells(rows).sort()).toEqual([...MANIFEST_KEYS].sort());
    const problem = (source: string) => {
      try {
        return parseManifest(source, "m") && "";
      } catch (error) {
        if (error instanceof ManifestError) return error.message;
        throw error;
      }
    };
    for (const [key = "", required] of rows) {
      const [table, name = ""] = key.includes(".") ? key.split(".") : ["", key];
      const heads: Record<string, string> = {
        files: "[[files]]\n",
        languages: "[[languages]]\n",
        decoding: "[decoding]\n",
      };
      // No setting has a date as its value, so the message names a known key and its type.
      const source = `${(heads[table ?? ""] ?? "") + name} = 2026-11-22\n`;
      const rest = table === "" ? "" : `${MANIFEST_TOP}${table === "decoding" ? MANIFEST_LANGUAGE : ""}`;
      expect(problem(rest + source)).toMatch(new RegExp(`${name} must be`));
      if (required !== "yes") continue;
      const without = (MANIFEST_TOP + MANIFEST_LANGUAGE).replace(new RegExp(`^${name} = .*$`, "m"), "");
      expect(problem(without)).toMatch(new RegExp(`${name} is missing`));
    }
    expect(problem(MANIFEST_TOP + MANIFEST_LANGUAGE)).toBe("");
  });

  test("the page of extensions has every further endpoint with its scope, statuses and codes", () => {
    const common = codesIn(sectionOf(INTERFACE, "4").text).filter((code) => code in ERROR_TABLE);
    const described = describedEndpoints();
    const rows = furtherEndpoints().map(([title, scope, statuses, codes]) => ({
      ...{ title, scope, statuses: statuses?.split(", ") },
      codes: [...new Set([...common, ...(codes === "none" ? [] : (codes?.split(", ") ?? []))])].sort(),
    }));
    const found = rows.map(({ title }) => described.find((one) => one.title === title));
    expect(rows as unknown[]).toEqual(found);
  });

  test("the page of webhooks has every wait between attempts", () => {
    expect(
      asLines(rowsOf(decisions("webhooks"), "Sending", "Attempt", "Seconds after the one before")),
    ).toEqual(asLines(RETRY_DELAYS_SECONDS.map((seconds, index) => [String(index + 2), String(seconds)])));
  });
});

const MANIFEST_TOP = `id = "m"
name = "M"
version = "1"
sha256 = "${"0".repeat(64)}"
licence = "MIT"
source = "here"
`;
const MANIFEST_LANGUAGE = `[[languages]]
code = "hi"
modes = ["native"]
`;

describe("tables that `bun scripts/docs-tables.ts` writes", () => {
  test.each(["errors", "limits", "commands", "settings", "metrics"])("%s", async (name) => {
    const metrics = await (await testApp.fetch("/metrics")).text();
    const table = generatedTables(metrics).find((one) => one.name === name);
    if (!table) throw new Error(`no table ${name}`);
    expect(table.rows.length).toBeGreaterThan(10);
    expect(rowsBelow(readDocument(table.path), table.header)).toEqual(table.rows);
  });
});

/** Folders whose documents are other people's, or are made. */
const NOT_OURS = ["node_modules", "build", "dist", ".git"];
/** Every document of the repository, so that none is forgotten. */
const PROSE = readdirSync(ROOT, { withFileTypes: true })
  .filter((entry) => !NOT_OURS.includes(entry.name))
  .flatMap((entry) =>
    entry.isDirectory()
      ? readdirSync(join(ROOT, entry.name), { recursive: true, encoding: "utf8" }).map((name) =>
          join(entry.name, name),
        )
      : [entry.name],
  )
  .filter((path) => path.endsWith(".md") && !path.includes("node_modules"))
  .sort();
/** Objects of `GET /v1/models`, and of JavaScript, whose names are also names of config sections. */
const NO_SETTINGS = ["limits.synchronous", "limits.asynchronous", "console.log", "console.error"];
/** Variables that are not settings. */
const VARIABLES = [
  "SHRUTI_CONFIG",
  ...SECRET_SETTINGS.map((name) => `SHRUTI_${name.replace(".", "_").toUpperCase()}_FILE`),
  ...TEST_VARIABLES,
];
/** Names of C code that begin like variables. */
const C_NAMES = new Set(
  readdirSync(join(ROOT, "src/native"), { recursive: true, encoding: "utf8" })
    .filter((name) => /\.(?:h|cpp|c)$/.test(name))
    .flatMap((name) => readDocument(join("src/native", name)).match(/\bSHRUTI_[A-Z]+[A-Z_]*/g) ?? []),
);

test("docs/decisions/config.md names the settings that a reload takes over, and no others", () => {
  const [, row = ""] = /^\| taken over \| (.*) \|$/m.exec(readDocument(decisions("config"))) ?? [];
  const excepted = [...row.matchAll(/ but `([a-z]+\.[a-z_]+)`/g)].map(([, name]) => name);
  const sections = [...row.matchAll(/`\[([a-z]+)\]`/g)].flatMap(([, section = ""]) =>
    Object.keys(CONFIG_SCHEMA[section as keyof typeof CONFIG_SCHEMA]).map((name) => `${section}.${name}`),
  );
  const named = [...row.matchAll(/`([a-z]+\.[a-z_]+)`/g)].map(([, name = ""]) => name);
  const described = [...sections, ...named].filter((name) => !excepted.includes(name));
  expect(described.sort()).toEqual([...RELOADED_SETTINGS].sort());
});

describe.each(PROSE)("%s", (path) => {
  const text = readDocument(path);
  const settings = Object.entries(CONFIG_SCHEMA).flatMap(([section, names]) =>
    Object.keys(names).map((name) => `${section}.${name}`),
  );

  test("names settings that exist", () => {
    const sections = Object.keys(CONFIG_SCHEMA).join("|");
    const named = [
      ...text.matchAll(new RegExp(`(?<![\\w./-])(?:${sections})\\.(?!ts\\b|md\\b|json\\b)[a-z][a-z_]+`, "g")),
    ];
    expect(
      named.map(([name]) => name).filter((name) => ![...settings, ...NO_SETTINGS].includes(name)),
    ).toEqual([]);
    const variables = [...text.matchAll(/\bSHRUTI_[A-Z]+[A-Z_]*/g)].map(([name]) => name);
    const known = [...VARIABLES, ...settings.map((name) => `SHRUTI_${name.replace(".", "_").toUpperCase()}`)];
    expect(variables.filter((name) => !known.includes(name) && !C_NAMES.has(name))).toEqual([]);
  });

  test("is in plain English", () => {
    // The glossary itself lists the words to avoid.
    expect(riddlesIn(path === "docs/glossary.md" ? text.slice(0, text.indexOf("## English")) : text)).toEqual(
      [],
    );
  });
});

describe("plain English", () => {
  test("is in the texts of errors", () => {
    const messages = Object.values(ERROR_TABLE).map(({ message }) => message);
    expect(messages.flatMap(riddlesIn)).toEqual([]);
  });

  test("is in the texts of settings", () => {
    const helps = Object.values(CONFIG_SCHEMA).flatMap((section) =>
      Object.values(section).map(({ help }) => help),
    );
    expect(helps.flatMap(riddlesIn)).toEqual([]);
  });

  test("is in the texts of commands and options", () => {
    const { program, context } = buildProgram({ out: () => {}, err: () => {}, environment: {} });
    context.close();
    const textsOf = (command: Command): string[] => [
      command.description(),
      ...command.options.map(({ description }) => description),
      ...command.registeredArguments.map(({ description }) => description),
      ...command.commands.flatMap(textsOf),
    ];
    const texts = textsOf(program);
    expect(texts.length).toBeGreaterThan(100);
    expect(texts.flatMap(riddlesIn)).toEqual([]);
  });

  test("is in comments and names of tests", () => {
    const paths = ["src", "scripts"].flatMap((folder) =>
      readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" })
        .filter((name) => /\.(?:ts|mjs|c|h|py|sh|cmake|toml)$/.test(name))
        .map((name) => join(folder, name))
        // This file has such words for the next test.
        .filter((path) => path !== "src/testing/rules/docs.test.ts"),
    );
    const texts = paths.flatMap((path) => proseOf(path, readDocument(path)).map((text) => ({ path, text })));
    expect(texts.length).toBeGreaterThan(4_000);
    expect(texts.filter(({ text }) => riddlesIn(text).length > 0)).toEqual([]);
  });

  test("is in docstrings, which begin with a verb or a noun phrase, not with Of, Those, From or After", () => {
    const paths = ["src", "scripts"].flatMap((folder) =>
      readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" })
        .filter((name) => /\.tsx?$/.test(name))
        .map((name) => join(folder, name))
        // This file has such docstrings below.
        .filter((path) => !/testing\/rules\/docs\.test\.ts$/.test(path)),
    );
    expect(paths.length).toBeGreaterThan(800);
    expect(
      paths.flatMap((path) => fragmentsIn(readDocument(path)).map((text) => `${path}: ${text}`)),
    ).toEqual([]);
    const source = "/** Of a model. */\n/**\n * Those that\n * wait. */\n/** Offers. *//** What of it? */";
    expect(fragmentsIn(source)).toEqual(["Of a model.", "Those that"]);
  });

  test("is missed by words to avoid in a text, a comment or the name of a test", () => {
    expect(riddlesIn("Nobody is told; it stands in the rooms, is no text and goes on anew.")).toEqual([
      "Nobody",
      "is told",
      "stands in",
      "rooms",
      "is no ",
      "goes on",
      "anew",
    ]);
    const source =
      '/** It tells\n * whether. */\ntest("goes on", () => {}); // Whoever comes\ndescribe.skipIf(a("b"))(`rooms`);';
    expect(proseOf("a.ts", source).flatMap(riddlesIn)).toEqual([
      "tells whether",
      "Whoever",
      "goes on",
      "rooms",
    ]);
    expect(proseOf("a.py", 'x = 1  # anew\n"""Is told."""').flatMap(riddlesIn)).toEqual(["anew", "Is told"]);
  });
});
