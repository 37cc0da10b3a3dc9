import { afterAll, beforeAll, expect, test } from "bun:test";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { ROOT } from "../testing/rules/documents.ts";
import { type Installation, install, type RunningServer } from "./kit.ts";
import { LONG_RECORDING_SAYS, longRecording } from "./long-recording.ts";

/** The example clients of the documentation against the executable. */

let installation: Installation;
let server: RunningServer;
let recording: string;
beforeAll(async () => {
  installation = await install({
    environment: {
      SHRUTI_WEBHOOKS_ALLOW_HTTP: "true",
      SHRUTI_WEBHOOKS_ALLOWED_NETWORKS: "127.0.0.0/8",
    },
  });
  server = await (await installation.serve()).ready();
  recording = join(installation.folder, "long.wav");
  writeFileSync(recording, await longRecording());
}, 120_000);
afterAll(() => installation.remove());

async function freePort(): Promise<number> {
  const probe = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => new Response() });
  const { port = 0 } = probe;
  await probe.stop(true);
  return port;
}

test.each([
  ["node", "transcribe.mjs"],
  ["python3", "transcribe.py"],
  ["bash", "transcribe.sh"],
])(
  "%s docs/clients/%s sends a recording, waits for its end, and saves subtitles",
  async (program, script) => {
    const startedMs = performance.now();
    const port = await freePort();
    const output = join(installation.folder, `${script}.srt`);
    // Bun runs the program for Node where there is no Node.
    const command = program === "node" && !Bun.which("node") ? process.execPath : program;
    const child = Bun.spawn([command, join(ROOT, "docs/clients", script), recording, "en", output], {
      env: {
        ...{ PATH: process.env.PATH ?? "", API_URL: server.baseUrl, API_KEY: installation.key },
        ...{ HOOK_URL: `http://127.0.0.1:${port}/hook`, HOOK_PORT: String(port), POLL_SECONDS: "0.2" },
      },
      ...{ stdin: "ignore", stdout: "pipe", stderr: "pipe", timeout: 100_000 },
    });
    const [out, err, code] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
    expect({ code, err }).toEqual({ code: 0, err: "" });
    expect(out).toMatch(/^tr_\w{26} is completed\n$/);
    const subtitles = readFileSync(output, "utf8");
    expect(subtitles).toMatch(/^1\n00:00:0\d,\d{3} --> /);
    expect(subtitles.replaceAll(/\n/g, " ")).toContain(LONG_RECORDING_SAYS);
    if (program === "bash") return;
    // Without the event the program would have asked after a minute. It removes its endpoint at the end.
    expect(performance.now() - startedMs).toBeLessThan(55_000);
    expect(await installation.json<unknown[]>("webhooks", "list")).toEqual([]);
  },
  120_000,
);

test.each([
  ["node", "transcribe.mjs"],
  ["python3", "transcribe.py"],
  ["bash", "transcribe.sh"],
])(
  "%s docs/clients/%s without a file for the subtitles does nothing that is charged",
  async (program, script) => {
    const uploads = async () => (await installation.json<unknown[]>("uploads", "list")).length;
    const before = await uploads();
    const command = program === "node" && !Bun.which("node") ? process.execPath : program;
    const child = Bun.spawn([command, join(ROOT, "docs/clients", script), recording, "en"], {
      env: {
        ...{ PATH: process.env.PATH ?? "", API_URL: server.baseUrl, API_KEY: installation.key },
        ...{ HOOK_URL: "http://127.0.0.1:9/hook", HOOK_PORT: "9" },
      },
      ...{ cwd: installation.folder, stdin: "ignore", stdout: "ignore", stderr: "ignore" },
    });
    expect(await child.exited).not.toBe(0);
    expect(await uploads()).toBe(before);
  },
  30_000,
);
