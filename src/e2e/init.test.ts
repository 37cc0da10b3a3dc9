import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { SCHEDULED_LANGUAGES } from "../domain/published-models.ts";
import { writeIndic } from "../testing/makers/indic-maker.ts";
import { TINY_CTC } from "../testing/makers/tiny-ctc.ts";
import { placeBinary } from "./binary.ts";
import { openServer, until } from "./kit.ts";
import { samplePath, wordsIn } from "./samples.ts";

/** `shruti init` asks a person: the executable on a pseudo-terminal, and the server that starts with what was answered. */

const folder = mkdtempSync(join(tmpdir(), "shruti-e2e-init-"));
const executable = join(folder, "shruti");
beforeAll(() => placeBinary(executable), 300_000);
afterAll(() => rmSync(folder, { recursive: true }));

type Given = { environment?: Record<string, string>; columns?: number; argv?: string[] };

/** Starts `shruti init` on a terminal, in an empty folder. */
function dialog({ environment = {}, columns = 80, argv = [] }: Given = {}) {
  const root = mkdtempSync(join(folder, "place-"));
  const env = { HOME: root, TERM: "xterm", SHRUTI_STORAGE_RESERVE_BYTES: "0", ...environment };
  let shown = "";
  let read = 0;
  const decoder = new TextDecoder();
  const child = Bun.spawn([executable, "init", ...argv], {
    cwd: root,
    env,
    terminal: {
      cols: columns,
      rows: 24,
      data: (_terminal, data) => {
        shown += decoder.decode(data, { stream: true });
      },
    },
  });
  /** Without what moves the cursor, and without the line ends of a narrow terminal. */
  const plain = () => Bun.stripANSI(shown).replaceAll("\r", "");
  return {
    root,
    env,
    child,
    plain,
    type: (text: string) => void child.terminal?.write(text),
    /** Waits until a question is shown that was not answered yet. */
    async asked(question: string): Promise<void> {
      await until(`${question} is asked, of:\n${plain()}`, () => {
        const at = plain().indexOf(question, read);
        if (at < 0) return child.exitCode !== null;
        read = at + question.length;
        return true;
      });
      if (child.exitCode !== null) throw new Error(`it has ended before it asked ${question}:\n${plain()}`);
    },
    async answer(question: string, answer: string): Promise<void> {
      await this.asked(question);
      this.type(`${answer}\r`);
    },
    async ended(): Promise<number | null> {
      await child.exited;
      return child.exitCode;
    },
  };
}

type Dialog = ReturnType<typeof dialog>;

async function answerAll(talk: Dialog, answers: readonly (readonly [question: string, answer: string])[]) {
  for (const [question, answer] of answers) await talk.answer(question, answer);
  const status = await talk.ended();
  expect({ status, shown: status === 0 ? "" : talk.plain() }).toEqual({ status: 0, shown: "" });
}

/** Runs another command in the folder of a dialog, without a terminal. */
async function run({ root, env }: Pick<Dialog, "root" | "env">, ...argv: string[]) {
  const child = Bun.spawn([executable, ...argv], { cwd: root, env, stdout: "pipe", stderr: "pipe" });
  const [out, err] = await Promise.all([child.stdout.text(), child.stderr.text()]);
  return { status: await child.exited, out, err };
}

/** Starts the server that `init` has made, asks it to transcribe a sample, and returns the answer. */
async function transcribe(talk: Dialog, path: string, fields: Record<string, string>) {
  const key = /^key\s+(shr_\w+)$/m.exec(talk.plain())?.[1] ?? "";
  const org = /^organization\s+(org_\w+)$/m.exec(talk.plain())?.[1] ?? "";
  expect((await run(talk, "credit", "grant", "--org", org, "--paise", "100000")).status).toBe(0);
  const child = Bun.spawn([executable, "serve"], {
    cwd: talk.root,
    env: { ...talk.env, SHRUTI_SERVER_LISTEN: "127.0.0.1:0" },
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
  });
  const server = await (await openServer(child, key)).ready();
  try {
    const form = new FormData();
    form.append("file", new Blob([readFileSync(samplePath("02-hi"))]), "02-hi.wav");
    for (const [name, value] of Object.entries(fields)) form.append(name, value);
    const headers = { authorization: `Bearer ${key}` };
    const response = await fetch(`${server.baseUrl}${path}`, { method: "POST", headers, body: form });
    return { status: response.status, body: (await response.json()) as { text: string; model?: string } };
  } finally {
    await server.stop();
  }
}

const QUESTIONS = [
  "Data directory",
  "Languages",
  "Model [",
  "Serve them",
  "service manager start it",
  "Make it",
];

describe("a person answers", () => {
  test("wrongly and then rightly, in Hindi's environment: the server starts with that, and transcribes", async () => {
    const talk = dialog({ environment: { LANG: "hi_IN.UTF-8", LC_ALL: "hi_IN.UTF-8" } });
    writeFileSync(join(talk.root, "file"), "");
    await answerAll(talk, [
      ["Data directory", "file"],
      ["Data directory", "~/my data"],
      ["Languages [hi]", "फ़ारसी"],
      ["Languages [hi]", "हिन्दी"],
      ["Model [", "77"],
      ["Model [", "demo"],
      ["Serve them", "perhaps"],
      ["Serve them", "y"],
      ["service manager start it", "n"],
      ["Make it", "y"],
    ]);
    const shown = talk.plain().replaceAll("\n", " ");
    expect(shown).toContain("is a file, not a folder; try again.");
    expect(shown).toContain("there are only the numbers 1 to");
    expect(shown).toContain("the answer is y or n; try again.");
    expect(readdirSync(talk.root).sort()).toEqual(["file", "my data", "shruti.toml"]);
    const { status, body } = await transcribe(talk, "/openai/v1/audio/transcriptions", {
      model: "whisper-1",
    });
    expect({ status, text: body.text }).toEqual({ status: 200, text: wordsIn("02-hi") });
    const again = await run(talk, "init");
    expect(again).toMatchObject({ status: 5, out: "" });
    expect(again.err).toContain("holds a database already; init does not overwrite it");
  }, 300_000);

  test.each<[string, Given]>([
    ["a dumb terminal", { environment: { TERM: "dumb" } }],
    ["a terminal of 20 columns", { columns: 20 }],
  ])(
    "on %s",
    async (_name, given) => {
      const talk = dialog(given);
      // Long questions are broken where the terminal ends.
      await answerAll(talk, [
        ["Data", "data"],
        ["Languages", "english"],
        ["Model", "demo"],
        ["Serve them", "n"],
        ["start it", "y"],
        ["Make it", ""],
      ]);
      expect((await run(talk, "models", "default")).out).toBe("demo\n");
      if (given.environment) expect(talk.plain()).not.toContain("\x1b");
    },
    120_000,
  );

  test("faster than the questions come, and with more than an answer may have", async () => {
    const talk = dialog();
    await talk.asked("Data directory");
    talk.type(`${"x".repeat(5_000)}\r`);
    await talk.asked("An answer has at most 4096 characters.");
    talk.type("data\renglish\rdemo\rn\rn\ry\r");
    expect(await talk.ended()).toBe(0);
    expect((await run(talk, "models", "default")).out).toBe("demo\n");
  }, 120_000);
});

describe("nothing is left behind", () => {
  const ANSWERS = ["data", "hi", "demo", "n", "n"];
  const ENDS: [name: string, end: (talk: Dialog) => void, status: number, says: string][] = [
    ["Ctrl-C", (talk) => talk.type("\x03"), 130, "error: interrupted; nothing was written\n"],
    [
      "Ctrl-D",
      (talk) => talk.type("\x04"),
      1,
      "error: the input ended before the last answer; nothing was written\n",
    ],
  ];
  for (const [index, question] of QUESTIONS.entries()) {
    test.each(ENDS)(
      `after %s at "${question}"`,
      async (_name, end, status, says) => {
        const talk = dialog();
        for (const [at, answer] of ANSWERS.slice(0, index).entries())
          await talk.answer(QUESTIONS[at] ?? "", answer);
        await talk.asked(question);
        end(talk);
        expect(await talk.ended()).toBe(status);
        await until("it says so", () => talk.plain().endsWith(says));
        expect(readdirSync(talk.root)).toEqual([]);
      },
      60_000,
    );
  }

  test("after Ctrl-C on a dumb terminal, and after signals", async () => {
    for (const [signal, status] of [
      ["SIGTERM", 143],
      ["SIGHUP", 129],
    ] as const) {
      const talk = dialog();
      await talk.asked("Data directory");
      talk.child.kill(signal);
      expect(await talk.ended()).toBe(status);
      expect(readdirSync(talk.root)).toEqual([]);
    }
    const dumb = dialog({ environment: { TERM: "dumb" } });
    await dumb.asked("Data directory");
    dumb.type("\x03");
    expect(await dumb.ended()).toBe(130);
    expect(readdirSync(dumb.root)).toEqual([]);
  }, 60_000);
});

test("nothing is asked where an output is not the terminal", async () => {
  const root = mkdtempSync(join(folder, "piped-"));
  const child = Bun.spawn(["sh", "-c", `"${executable}" init --data data >out`], {
    cwd: root,
    env: { HOME: root, TERM: "xterm" },
    terminal: { cols: 80, rows: 24, data: () => {} },
  });
  expect(await child.exited).toBe(0);
  expect(readFileSync(join(root, "out"), "utf8")).toMatch(/^key {11}shr_\w+$/m);
}, 60_000);

describe("the model", () => {
  test("of a bundle, whose signer's key is asked for", async () => {
    const source = dialog({ argv: ["--yes", "--data", "data"] });
    expect(await source.ended()).toBe(0);
    for (const argv of [
      ["models", "add", TINY_CTC, "--id", "tiny", "--languages", "hi,en", "--features", "kaldi"],
      ["bundle", "keygen", "key.pem"],
      ["bundle", "keygen", "other.pem"],
      ["bundle", "create", "carry.tar", "--models", "tiny", "--key", "key.pem"],
    ]) {
      const { status, err } = await run(source, ...argv);
      expect({ argv, status, err: status === 0 ? "" : err }).toEqual({ argv, status: 0, err: "" });
    }
    const at = (name: string) => join(source.root, name);
    const talk = dialog();
    await answerAll(talk, [
      ["Data directory", "data"],
      ["Languages", "hi"],
      ["Model [", at("carry.tar")],
      ["Public key", at("carry.tar")],
      ["Public key", at("key.pem.pub")],
      ["Serve them", "n"],
      ["service manager start it", "n"],
      ["Make it", "y"],
    ]);
    expect((await run(talk, "models", "default")).out).toBe("tiny\n");
    const fields = { language: "hi" };
    expect(await transcribe(talk, "/v1/audio/transcriptions", fields)).toMatchObject({
      status: 200,
      body: { model: "tiny" },
    });
    // One that another key has signed is refused, and the rest is there.
    const argv = ["init", "--data", "data", "--model", at("carry.tar"), "--bundle-key", at("other.pem.pub")];
    const other = { root: join(folder, "other"), env: talk.env };
    mkdirSync(other.root);
    const refused = await run(other, ...argv);
    expect(refused.status).toBe(1);
    expect(refused.out).toMatch(/^key {11}shr_\w+$/m);
    expect(refused.err).toContain(`Later: shruti bundle install ${at("carry.tar")}`);
    expect(refused.err).toContain("the model was not installed, all else is there");
  }, 300_000);

  test("of the catalogue, fetched from a mirror; the commands for later where that is not wanted or not possible", async () => {
    const published = join(folder, "published");
    writeIndic(published, { weights: "int8", further: SCHEDULED_LANGUAGES.filter((code) => code !== "hi") });
    let isAway = true;
    const stalled = Promise.withResolvers<void>();
    const mirror = Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      fetch(request) {
        const name = new URL(request.url).pathname.split("/").at(-1) ?? "";
        const path = join(published, name);
        if (request.url.includes("/slow/")) {
          stalled.resolve();
          return new Promise<Response>(() => {});
        }
        return isAway || !existsSync(path) ? new Response("", { status: 404 }) : new Response(Bun.file(path));
      },
    });
    const argv = [
      "--mirror",
      `http://127.0.0.1:${mirror.port}`,
      "--no-openai",
      "--no-service",
      "--data",
      "data",
    ];
    const name = "indicconformer-600m-int8";
    const first = [
      ["Languages", "hi"],
      ["Model [", name],
    ] as const;
    try {
      const declined = dialog({ argv });
      await answerAll(declined, [...first, ["Fetch it now [n]", ""], ["Make it", "y"]]);
      expect(declined.plain()).toContain("905.0 MB");
      expect(declined.plain()).toContain("Its licence: MIT");
      expect(declined.plain()).toContain(`Later: shruti models fetch ${name} --accept-unverified`);
      const failed = dialog({ argv });
      for (const [question, answer] of [...first, ["Fetch it now", "y"], ["Make it", "y"]] as const)
        await failed.answer(question, answer);
      expect(await failed.ended()).toBe(1);
      expect(failed.plain()).toMatch(/^key\s+shr_\w+$/m);
      expect(failed.plain()).toContain("Later: shruti models fetch");
      const slow = dialog({ argv: ["--mirror", `${argv[1]}/slow`, ...argv.slice(2)] });
      for (const [question, answer] of [...first, ["Fetch it now", "y"], ["Make it", "y"]] as const)
        await slow.answer(question, answer);
      await stalled.promise;
      slow.type("\x03");
      expect(await slow.ended()).toBe(130);
      expect(slow.plain()).toContain(`Later: shruti models fetch ${name} --directory `);
      isAway = false;
      const talk = dialog({ argv });
      await answerAll(talk, [...first, ["Fetch it now", "y"], ["Make it", "y"]]);
      expect((await run(talk, "models", "default")).out).toBe(`${name}\n`);
      expect(existsSync(join(talk.root, "data/fetched"))).toBe(false);
      const shown = JSON.parse((await run(talk, "models", "list", "--json")).out) as { id: string }[];
      expect(shown.map(({ id }) => id)).toEqual([name]);
      // Repeated by a tool, it fetches nothing again.
      const again = ["init", ...argv, "--unless-exists", "--model", name, "--accept-unverified"];
      isAway = true;
      expect((await run(talk, ...again)).status).toBe(0);
    } finally {
      await mirror.stop(true);
    }
  }, 300_000);
});
