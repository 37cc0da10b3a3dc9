import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { cpSync, readdirSync, readFileSync, truncateSync } from "node:fs";
import { join } from "node:path";
import type { TranscriptionResult } from "../http/wire/schemas.ts";
import type { ApiClient } from "../testing/answers/api-client.ts";
import { writePunctuationModel } from "../testing/makers/punctuation-maker.ts";
import { TINY_CTC, tinyRecordings } from "../testing/makers/tiny-ctc.ts";
import { type Installation, install, type RunningServer, reached, setInConfig, uploaded } from "./kit.ts";

/** Tests a model of punctuation on the executable, beside the tiny CTC model, which writes none. */

let installation: Installation;
let server: RunningServer;
let api: ApiClient;
let source: string;

beforeAll(async () => {
  installation = await install();
  setInConfig(installation, "word_timestamps", true);
  const tiny = join(installation.folder, "tiny");
  cpSync(TINY_CTC, tiny, { recursive: true });
  const options = [
    "--language",
    "hi",
    "--language",
    "en",
    "--features",
    "kaldi",
    "--licence",
    "ours",
    "--no-trial",
  ];
  await installation.output("models", "add", tiny, ...options);
  source = join(installation.folder, "punctuation");
  writePunctuationModel(source);
  await installation.output("models", "add", "--kind", "punctuation", source, "--licence", "ours");
  server = await (await installation.serve()).ready();
  api = server.api();
}, 180_000);

afterAll(async () => {
  if (server) expect(await server.stop()).toBe(0);
  await installation?.remove();
}, 60_000);

const recording = tinyRecordings.find(({ text }) => text === "five call five seven seven");

async function transcribed(): Promise<{ id: string; result: TranscriptionResult }> {
  const upload = await uploaded(api, new Uint8Array(readFileSync(recording?.path ?? "")));
  const { body } = await api.start({ audio: { upload_id: upload }, language: "en", timestamps: "word" });
  expect((await reached(api, body.id, ["completed", "failed"])).state).toBe("completed");
  return { id: body.id, result: await api.result(body.id) };
}

test("a text has marks and capitals, and its words their times; evidence names the model", async () => {
  const { id, result } = await transcribed();
  expect(result.text).toBe("five call five, Seven. Seven.");
  expect(result.warnings).toEqual([]);
  const words = result.segments[0]?.words ?? [];
  expect(words.map(({ text }) => text)).toEqual(["five", "call", "five,", "Seven.", "Seven."]);
  expect(words.every(({ start, end }, index) => end > start && start >= (words[index - 1]?.end ?? 0))).toBe(
    true,
  );
  const evidence = JSON.parse(await installation.output("transcriptions", "evidence", id)) as {
    document: { engine: { punctuation?: Record<string, string> } };
  };
  expect(Object.keys(evidence.document.engine.punctuation ?? {}).sort()).toEqual([
    "config",
    "model",
    "tokenizer",
  ]);
}, 120_000);

describe("shruti text --punctuation", () => {
  async function text(input: string, ...args: string[]) {
    const { folder, configPath } = installation;
    const command = [
      join(folder, "program/shruti"),
      "text",
      "--punctuation",
      ...args,
      "--config",
      configPath,
    ];
    const child = Bun.spawn(command, {
      ...{ cwd: folder, env: {}, stdin: new Blob([input]), stdout: "pipe", stderr: "pipe" },
    });
    const [out, err, status] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
    return { out, err, status };
  }

  test.each([
    ["lines", "five call five seven seven\n", ["en"], "five call five, Seven. Seven.\n"],
    ["empty lines", "\n  \n", ["en"], "\n  \n"],
    ["lines with a mark", "already, here\n", ["en"], "already, here\n"],
    [
      "lines before their figures",
      "पच्चीस घर है यह घर है\n",
      ["hi", "--numerals", "written"],
      "25 घर है। यह घर है।\n",
    ],
  ])(
    "adds marks to %s",
    async (_name, lines, args, expected) => {
      expect(await text(lines, "--language", ...args)).toMatchObject({ status: 0, out: expected });
    },
    60_000,
  );

  test.each([
    ["a language that the model does not know", ["--language", "ur"], 2, "does not know ur; it knows"],
    ["a language that there is not", ["--language", "xx"], 2, "there is no language xx"],
  ])("refuses %s", async (_name, args, status, message) => {
    const outcome = await text("", ...args);
    expect([outcome.status, outcome.out]).toEqual([status, ""]);
    expect(outcome.err).toContain(message);
  });
});

test("a damaged model leaves the text as it was recognized, with a warning, and a new one puts it right", async () => {
  const home = join(installation.dataDir, "models", "_punctuation");
  const folder = readdirSync(home).find((name) => name !== "card.json") ?? "";
  truncateSync(join(home, folder, "model.onnx"), 500);
  await server.stop();
  server = await (await installation.serve()).ready();
  api = server.api();
  expect((await transcribed()).result).toMatchObject({
    text: "five call five seven seven",
    warnings: ["punctuation_missing"],
  });
  await installation.output("models", "add", "--kind", "punctuation", source);
  expect((await transcribed()).result.text).toBe("five call five, Seven. Seven.");
  await installation.output("models", "remove", "--kind", "punctuation");
  expect((await installation.command("text", "--language", "en", "--punctuation")).err).toContain(
    "no model of punctuation is installed",
  );
  expect((await transcribed()).result).toMatchObject({ text: "five call five seven seven", warnings: [] });
}, 180_000);
