import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { packageManager } from "../../package.json" with { type: "json" };
import { ROOT, readDocument, sectionsOf } from "../testing/rules/documents.ts";
import { placeBinary } from "./binary.ts";
import { processesFrom } from "./processes.ts";

/** The commands of README.md and of the manual's first transcript, as a reader pastes them. */

/** Returns the commands of a document's section, which are its indented lines. */
function commandsOf(path: string, title: string): string {
  const section = sectionsOf(readDocument(path)).find((one) => one.title === title);
  return (section?.text ?? "")
    .split("\n")
    .filter((line) => line.startsWith("    "))
    .map((line) => line.slice(4))
    .join("\n");
}

async function freePort(): Promise<number> {
  const probe = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => new Response() });
  const { port } = probe;
  await probe.stop(true);
  if (port === undefined) throw new Error("no port");
  return port;
}

let folder: string;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "shruti-readme-"));
  for (const name of ["dist", "models", "tmp"]) mkdirSync(join(folder, name));
  await placeBinary(join(folder, "dist/shruti"));
  symlinkSync(join(ROOT, "models/samples"), join(folder, "models/samples"));
});
afterAll(() => {
  for (const pid of processesFrom(folder)) process.kill(pid, "SIGKILL");
  rmSync(folder, { recursive: true, force: true });
});

/**
 * Pastes commands into bash with only the system's programs and no variables, as on a new machine.
 *
 * @returns what they printed, once the server that they started has ended
 */
async function paste(commands: string): Promise<string> {
  // The test chooses the port.
  const port = await freePort();
  expect(commands).toContain("127.0.0.1:8080");
  const shell = Bun.spawn(
    ["bash", "-e", "-c", `${commands.replaceAll("127.0.0.1:8080", `127.0.0.1:${port}`)}\nwait $SERVER\n`],
    {
      cwd: folder,
      env: {
        PATH: "/usr/local/bin:/usr/bin:/bin",
        HOME: folder,
        TMPDIR: join(folder, "tmp"),
        SHRUTI_SERVER_LISTEN: `127.0.0.1:${port}`,
        SHRUTI_STORAGE_RESERVE_BYTES: "0",
      },
      stdin: "ignore",
      stdout: "pipe",
      stderr: "pipe",
      timeout: 90_000,
    },
  );
  const [out, err, code] = await Promise.all([shell.stdout.text(), shell.stderr.text(), shell.exited]);
  expect({ code, err: code === 0 ? "" : err + out }).toEqual({ code: 0, err: "" });
  expect(processesFrom(folder)).toEqual([]);
  return out;
}

const HINDI = "अभी दस बजे और दस मिनट हैं";

describe("README.md", () => {
  test("its first transcript can be pasted from top to bottom", async () => {
    const out = await paste(commandsOf("README.md", "A first transcript"));
    // The text without a server, and the answer of the server.
    expect(out.split(HINDI).length - 1).toBeGreaterThanOrEqual(2);
    expect(out).toContain('"status":"completed"');
  }, 120_000);

  test("is short, and begins with what a newcomer needs", () => {
    const text = readDocument("README.md");
    expect(text.split("\n").length).toBeLessThanOrEqual(151);
    expect(sectionsOf(text).map(({ title }) => title)).toEqual([
      "Shruti",
      "What it needs",
      "Install a release",
      "From source: two commands",
      "A first transcript",
      "A real model",
      "What was never measured",
      "The parts",
      "More",
    ]);
  });
});

describe("docs/manual/first-transcript.md", () => {
  test("can be pasted from top to bottom", async () => {
    const out = await paste(commandsOf("docs/manual/first-transcript.md", "A first transcript with curl"));
    // The synchronous result, the two forms of the long recording, and the subtitles of `shruti transcribe`.
    expect(out.split(HINDI).length - 1).toBeGreaterThanOrEqual(2);
    expect(out).toContain("the delivery is on thursday at eleven pm");
    expect(out).toContain('"status":"completed"');
    expect(out).toContain("WEBVTT");
    expect(out).toMatch(/\n1\n00:00:0\d,\d{3} --> 00:00:0\d,\d{3}\n/);
  }, 120_000);
});

describe("scripts/bun.sh", () => {
  test("runs the pinned Bun", async () => {
    const path = `${dirname(process.execPath)}:/usr/local/bin:/usr/bin:/bin`;
    const child = Bun.spawn([join(ROOT, "scripts/bun.sh"), "--version"], {
      cwd: folder,
      env: { ...process.env, PATH: path },
      stderr: "pipe",
    });
    const [out, err] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
    expect(`bun@${out.trim()} ${err}`).toBe(`${packageManager} `);
  });
});
