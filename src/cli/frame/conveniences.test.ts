import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { databasePath, openDatabase } from "../../store/database.ts";
import { runAnswered, runCaptured } from "../../testing/kits/run-cli.ts";
import { manualPages } from "../../testing/rules/documents.ts";
import { hasAction } from "../../testing/rules/generated-tables.ts";
import { buildProgram } from "../program.ts";
import { commandsBelow, findCommand, isHidden, pathOf } from "./command-tree.ts";
import { completionsOf } from "./completion.ts";
import { EXAMPLES } from "./examples.ts";
import { renderManualPage } from "./man.ts";
import { NAMED_ARGUMENTS, NAMED_OPTIONS } from "./names.ts";
import { TOPICS } from "./topics.ts";

/** Tests what a person at a terminal has beside the commands: names, questions, help, completion, the manual page. */

const folder = mkdtempSync(join(tmpdir(), "shruti-terminal-"));
const environment = { SHRUTI_CONFIG: join(folder, "shruti.toml") };
beforeAll(() => {
  mkdirSync(join(folder, "data"));
  writeFileSync(environment.SHRUTI_CONFIG, '[storage]\ndata_dir = "data"\n');
  openDatabase(databasePath(join(folder, "data"))).close();
});
afterAll(() => rmSync(folder, { recursive: true }));

/** Runs a command as on a terminal, if an answer is given, else as in a script. */
async function run(argv: readonly string[], answer?: string) {
  return answer === undefined
    ? { ...(await runCaptured(argv, environment)), asked: [] }
    : runAnswered(answer, argv, environment);
}

/** Commands whose usage says all. */
const WITHOUT_EXAMPLE = [
  ...["audit export", "bundle install", "bundle keygen", "bundle verify", "clock show", "completion bash"],
  ...["completion fish", "completion zsh", "config defaults", "config show", "console", "credit ledger"],
  ...["credit show", "doctor", "fleet list", "fleet remove", "help", "keys revoke", "licenses", "man"],
  ...["models catalogue", "models default", "models list", "models remove", "models show", "models verify"],
  ...["orgs disable", "orgs enable", "orgs list", "orgs show", "projects list", "projects show"],
  ...["receipts export", "receipts key", "receipts list", "storage", "transcriptions cancel"],
  ...["transcriptions delete", "uploads delete", "uploads show", "version", "webhooks deliveries"],
  ...["webhooks disable", "webhooks enable", "webhooks list", "webhooks remove", "webhooks rotate"],
  ...["webhooks test", "buckets list", "buckets remove"],
];

const words = (line: string) => line.split(" ");
const idOf = async (...argv: string[]) => (await run(argv)).out.trim();
const program = buildProgram({ out: () => {}, err: () => {}, environment: {} }).program;

describe("names", () => {
  test("are accepted for IDs where they are unique, as options and as arguments", async () => {
    const org = await idOf("orgs", "create", "Physics");
    const project = await idOf("projects", "create", "calls", "--org", "Physics");
    const key = await run(["keys", "create", "--project", "calls", "--name", "k", "--json"]);
    expect(JSON.parse(key.out)).toMatchObject({ organization_id: org, project_id: project });
    for (const argv of [
      ["orgs", "show", "Physics"],
      ["orgs", "set", "Physics", "--weight", "2"],
      ["credit", "grant", "--org", "Physics", "--paise", "5"],
      ["projects", "show", "calls"],
    ])
      expect({ argv, status: (await run(argv)).status }).toEqual({ argv, status: 0 });
    const shown = await run(["orgs", "show", "Physics", "--json"]);
    expect(JSON.parse(shown.out)).toMatchObject({ id: org, weight: 2, credit: { balance_paise: 5 } });
  });

  test("that several have are refused with the IDs, and unknown ones are not found", async () => {
    const ids = [await idOf("orgs", "create", "Twin"), await idOf("orgs", "create", "Twin")];
    const shown = await run(["orgs", "show", "Twin"]);
    expect(shown.status).toBe(2);
    for (const id of ids) expect(shown.err).toContain(id);
    expect((await run(["orgs", "show", ids[0] ?? ""])).status).toBe(0);
    expect((await run(["orgs", "show", "Nobody"])).status).toBe(4);
    expect((await run(["projects", "create", "x", "--org", "Nobody"])).status).toBe(4);
  });

  test("that are taken are said to be, and --unless-exists makes none", async () => {
    const first = await run(["orgs", "create", "Chemistry"]);
    expect(first.err).toBe("");
    const id = first.out.trim();
    const again = await run(["orgs", "create", "Chemistry", "--unless-exists", "--price", "5"]);
    expect(again).toMatchObject({
      status: 0,
      out: `${id}\n`,
      err: `${id} has the name Chemistry already.\n`,
    });
    const project = await run(["projects", "create", "calls", "--org", id, "--unless-exists"]);
    expect(project).toMatchObject({ status: 0, err: "" });
    expect(await idOf("projects", "create", "calls", "--org", id, "--unless-exists")).toBe(
      project.out.trim(),
    );
    expect((await run(["projects", "create", "calls", "--org", id])).err).toContain("warning: prj_");
    const twin = await run(["orgs", "create", "Chemistry"]);
    expect(twin).toMatchObject({ status: 0, err: expect.stringContaining(`warning: ${id} had the name`) });
    const named = await run(["orgs", "create", "Chemistry", "--unless-exists"]);
    expect(named).toMatchObject({ status: 5, err: expect.stringContaining(id) });
    const renamed = await run(["orgs", "set", twin.out.trim(), "--name", "Physics"]);
    expect(renamed.err).toContain("warning: org_");
    await run(["orgs", "set", twin.out.trim(), "--name", "Alchemy"]);
  });

  test("of a purged organization are free again, and lists show it where it is asked for", async () => {
    const old = await idOf("orgs", "create", "Leaving");
    const calls = await idOf("projects", "create", "leaving calls", "--org", old);
    expect((await run(["orgs", "purge", old, "--yes"])).status).toBe(0);
    // Its name still finds it while it is the only one.
    expect((await run(["orgs", "show", "Leaving", "--json"])).out).toContain(old);
    for (const [argv, id] of [
      [["orgs", "list", "--json"], old],
      [["projects", "list", "--json"], calls],
    ] as const) {
      expect((await run(argv)).out).not.toContain(id);
      expect((await run([...argv, "--all"])).out).toContain(id);
    }
    const back = await run(["orgs", "create", "Leaving", "--unless-exists"]);
    expect(back).toMatchObject({ status: 0, err: "" });
    expect((await run(["orgs", "show", "Leaving", "--json"])).out).toContain(back.out.trim());
    const project = await idOf("projects", "create", "leaving calls", "--org", "Leaving");
    expect((await run(["projects", "show", "leaving calls", "--json"])).out).toContain(project);
  });

  test("and identifiers that nothing has are not found by lists, too: an empty list would look like an answer", async () => {
    const [org, project] = ["org_01M81MQR0YVJQVCYVCF0THGJYZ", "prj_01M81MQR0YVJQVCYVCF0THGJYZ"];
    for (const line of [
      "transcriptions list --org Nobody",
      "transcriptions list --project nothing",
      `transcriptions list --org ${org}`,
      `transcriptions list --project ${project}`,
      "uploads list --org Nobody",
      `uploads list --project ${project}`,
      "audit list --org Nobody",
      "audit export --org Nobody",
      "receipts list --org Nobody",
      "usage export --org Nobody",
      "webhooks list --project nothing",
      "storage prune --older-than 1d --dry-run --org Nobody",
    ]) {
      const { status, out, err } = await run(words(line));
      expect({ line, status, out }).toEqual({ line, status: 4, out: "" });
      expect(err).toMatch(/[Tt]here is no /);
    }
  });

  test("are the same in every form of Unicode", async () => {
    const composed = "\u0915\u093C\u0932\u092E";
    const org = await idOf("orgs", "create", "\u0958\u0932\u092E");
    expect(await idOf("projects", "create", "pens", "--org", composed)).toStartWith("prj_");
    expect(JSON.parse((await run(["orgs", "show", composed, "--json"])).out)).toMatchObject({ id: org });
  });
});

describe("a question before a destructive command", () => {
  const newKey = async () => {
    const org = await idOf("orgs", "create", "Questions");
    const project = await idOf("projects", "create", "questions", "--org", org);
    const { out } = await run(["keys", "create", "--project", project, "--name", "k", "--json"]);
    return JSON.parse(out).id as string;
  };

  test("is asked on a terminal, and anything but yes changes nothing", async () => {
    const id = await newKey();
    for (const answer of ["", "n", "yesterday"]) {
      const { status, asked, err } = await run(["keys", "revoke", id], answer);
      expect({ status, count: asked.length, err }).toEqual({
        status: 1,
        count: 1,
        err: "error: nothing was changed\n",
      });
    }
    const revoked = await run(["keys", "revoke", id], "y");
    expect(revoked.status).toBe(0);
    expect(revoked.asked).toEqual([
      `Refuse the key ${id} from now on? It cannot be made valid again. [y/N] `,
    ]);
  });

  test("is not asked with --yes, with --json, or in a script", async () => {
    for (const [argv, answer] of [
      [["--yes"], ""],
      [["--json"], ""],
      [[], undefined],
    ] as const) {
      const { status, asked } = await run(["keys", "revoke", await newKey(), ...argv], answer);
      expect({ status, asked }).toEqual({ status: 0, asked: [] });
    }
  });
});

describe("help", () => {
  test("`help orgs create` is the help of that command, with the options of every command", async () => {
    const { out, status } = await run(["help", "orgs", "create"]);
    expect(status).toBe(0);
    expect(out).toContain("Usage: shruti orgs create [options] <name>");
    expect(out).toContain("--config <file>");
    expect(out).toContain(
      "Examples:\n  # with a price of ₹25 an hour\n  shruti orgs create Physics --price 2500\n",
    );
    expect((await run(["help", "orgs", "sing"])).status).toBe(2);
  });

  test("topics are listed, and each is printed", async () => {
    const { out } = await run(["help", "topics"]);
    const names = [...out.matchAll(/^ {2}([\w-]+) {2}/gm)].map((match) => match[1] ?? "");
    expect(names.map((name) => `docs/manual/${name}.md`).sort()).toEqual(manualPages());
    for (const name of names) expect((await run(["help", "topics", name])).out).toStartWith("# ");
    expect((await run(["help", "topics", "cooking"])).status).toBe(4);
    // A command of the same name comes first.
    expect((await run(["help", "money"])).out).toBe((await run(["help", "topics", "money"])).out);
    expect((await run(["help", "backup"])).out).toContain("Usage: shruti backup");
    expect((await run(["help", "cooking"])).status).toBe(2);
  });

  test("every command and option in a topic exists", () => {
    for (const { name, text } of TOPICS) {
      const lines = [...text.matchAll(/`shruti ([^`]+)`|^ {4}shruti (.+)$/gm)].map(
        (match) => match[1] ?? match[2] ?? "",
      );
      expect(lines.length).toBeGreaterThan(0);
      for (const line of lines) {
        const all = words(line.replaceAll("\n", " "));
        const path = all.findIndex((_, index) => findCommand(program, all.slice(0, index + 1)) === undefined);
        const command = findCommand(program, path < 0 ? all : all.slice(0, path));
        const known = [...(command?.options ?? []), ...program.options].map(({ long }) => long);
        expect({ name, line, found: command !== program }).toEqual({ name, line, found: true });
        for (const option of all.filter((word) => word.startsWith("--"))) expect(known).toContain(option);
      }
    }
  });

  test("every command has an example, or is one whose usage says all", () => {
    const paths = commandsBelow(program)
      .filter((command) => hasAction(command) && !isHidden(command))
      .map(pathOf);
    expect([...WITHOUT_EXAMPLE, ...Object.keys(EXAMPLES)].sort()).toEqual(paths.sort());
  });

  test("every example is of a command, and is read by it", async () => {
    const paths = commandsBelow(program).map(pathOf);
    for (const [path, examples] of Object.entries(EXAMPLES)) {
      expect(paths).toContain(path);
      for (const [, line] of examples) {
        expect(line).toContain(path);
        const command = findCommand(program, words(path));
        const known = [...(command?.options ?? []), ...program.options].map(({ long }) => long);
        for (const option of words(line).filter((word) => word.startsWith("--")))
          expect(known).toContain(option);
        // A command with `--help` at its end prints its help, unless a value before it is wrong.
        const { status, err } = await run([...words(line), "--help"]);
        expect({ line, status, err }).toEqual({ line, status: 0, err: "" });
      }
    }
  });
});

test("whatever is an organization or a project may be given by its name", () => {
  const isNamed = (text: string) => /\b(?:organization|project)\b(?!'s)/.test(text);
  const unnamed = commandsBelow(program).flatMap((command) => [
    ...command.options
      .filter(({ flags, description, long }) => {
        return flags.includes("<id>") && isNamed(description) && !NAMED_OPTIONS[long?.slice(2) ?? ""];
      })
      .map(({ long }) => `${pathOf(command)} ${long}`),
    ...command.registeredArguments
      .filter((argument) => {
        const isReplaced = argument.name() === "id" && NAMED_ARGUMENTS[command.parent?.name() ?? ""];
        return isNamed(argument.description) && !isReplaced;
      })
      .map((argument) => `${pathOf(command)} ${argument.name()}`),
  ]);
  expect(unnamed).toEqual([]);
});

describe("completion", () => {
  const cases: [typed: string, words: string[]][] = [
    ["or", ["orgs"]],
    ["orgs ", ["create", "list", "show", "disable", "enable", "purge", "set"]],
    ["orgs s", ["show", "set"]],
    ["--config x.toml orgs cr", ["create"]],
    ["config ch", ["check"]],
    ["keys revoke --", ["--json", "--yes", "--config", "--version", "--help"]],
    ["keys create --project ", []],
    ["transcribe a.wav ", []],
    ["completion ", ["bash", "zsh", "fish"]],
    ["sing ", []],
    ["transcribe a.wav --format ", ["text", "json", "jsonl", "srt", "vtt", "ctm"]],
    ["transcribe --mode co", ["codemix"]],
    ["audit list --source s", ["server"]],
    ["help topics u", ["upgrade"]],
    ["help orgs cr", ["create"]],
    ["help mon", ["money", "monitoring"]],
    ["--config x.toml help topics u", ["upgrade"]],
    ["help topics upgrade ", []],
  ];
  for (const [typed, expected] of cases) {
    test(`of "${typed}"`, () => {
      expect(completionsOf(program, words(typed)).map(([word]) => word)).toEqual(expected);
    });
  }

  test("the script of bash completes commands and options", async () => {
    const { out } = await run(["completion", "bash"]);
    const script = `shruti() { printf 'check\\tmeaning\\nshow\\tmeaning\\n'; }\n${out}\nCOMP_WORDS=(shruti config ch); COMP_CWORD=2; _shruti; echo "\${COMPREPLY[@]}"`;
    const { stdout, exitCode } = Bun.spawnSync(["bash", "-c", script]);
    expect({ exitCode, words: stdout.toString() }).toEqual({ exitCode: 0, words: "check\n" });
  });
});

test("the manual page has every command and option, in lines that roff reads as text", () => {
  const page = renderManualPage(program);
  for (const command of commandsBelow(program)) {
    if (command.commands.length > 0 || pathOf(command) === "completion words") continue;
    expect(page).toContain(`.SS "shruti ${pathOf(command).replaceAll("-", "\\-")}`);
    for (const { long } of command.options) expect(page).toContain((long ?? "").replaceAll("-", "\\-"));
  }
  const requests = new Set([...page.matchAll(/^[.'](\S*)/gm)].map((match) => match[1]));
  expect([...requests].sort()).toEqual(["B", "I", "PP", "SH", "SS", "TH", "TP", "fi", "nf"]);
});
