import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join, resolve } from "node:path";
import { samplePath } from "../src/e2e/samples.ts";
import { programEnvironment } from "../src/testing/rules/test-variables.ts";
import { carriedWhisperBase } from "./models/carried.ts";

/**
 * Transcribes recordings as a client: create an upload, PUT the file, complete it, start a transcription, poll, read
 * the result. Usage: `bun scripts/quickstart.ts [AUDIO [LANGUAGE]]` after `bun run build`. Without a recording, it takes a
 * synthetic voice with the demonstration model, and a person with the default model.
 */

const executable = resolve("dist/shruti");
/** President Kennedy, 1961; public domain. */
const PERSON = resolve("models/trial/jfk.wav");

type Recording = { audio: string; language: string; model?: string };

const [audio, language = "en"] = process.argv.slice(2);
const recordings: Recording[] =
  audio === undefined
    ? [
        { audio: samplePath("12-en-long"), language: "en", model: "demo" },
        ...(carriedWhisperBase() ? [{ audio: PERSON, language: "en" }] : []),
      ]
    : [{ audio, language }];
const folder = mkdtempSync(join(tmpdir(), "shruti-quickstart-"));
const config = join(folder, "shruti.toml");

type Initialised = { key: string; organization_id: string };
type Upload = { id: string; upload: { method: string; url: string; headers: Record<string, string> } };
type Transcription = { id: string; state: string; error?: { message: string } };
type Result = { text: string; segments: { start: number; end: number; text: string }[]; warnings: string[] };

function command(...args: string[]): string {
  const outcome = Bun.spawnSync([executable, ...args], { env: programEnvironment(), stderr: "inherit" });
  if (!outcome.success) throw new Error(`shruti ${args[0]} failed`);
  return outcome.stdout.toString();
}

async function freePort(): Promise<number> {
  const probe = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => new Response() });
  const { port } = probe;
  await probe.stop(true);
  return port ?? 8080;
}

async function untilReady(baseUrl: string): Promise<void> {
  for (let attempt = 0; attempt < 600; attempt++) {
    const isReady = await fetch(`${baseUrl}/readyz`).then(
      (response) => response.ok,
      () => false,
    );
    if (isReady) return;
    await Bun.sleep(100);
  }
  throw new Error("the server did not become ready");
}

async function transcribe(baseUrl: string, key: string, { audio, ...options }: Recording): Promise<Result> {
  const call = async <T>(method: string, path: string, body?: unknown): Promise<T> => {
    const response = await fetch(`${baseUrl}${path}`, {
      method,
      headers: { authorization: `Bearer ${key}`, ...(body ? { "content-type": "application/json" } : {}) },
      ...(body ? { body: JSON.stringify(body) } : {}),
    });
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
    return (await response.json()) as T;
  };
  const file = Bun.file(audio);
  const created = await call<Upload>("POST", "/v1/uploads", { bytes: file.size });
  const { method, url, headers } = created.upload;
  const sent = await fetch(url, { method, headers, body: file });
  if (!sent.ok) throw new Error(`the upload failed: ${sent.status} ${await sent.text()}`);
  await call("POST", `/v1/uploads/${created.id}/complete`);
  let transcription = await call<Transcription>("POST", "/v1/transcriptions", {
    audio: { upload_id: created.id },
    ...options,
  });
  while (!["completed", "partial", "failed", "cancelled"].includes(transcription.state)) {
    await Bun.sleep(100);
    transcription = await call<Transcription>("GET", `/v1/transcriptions/${transcription.id}`);
  }
  if (transcription.error) throw new Error(transcription.error.message);
  return call<Result>("GET", `/v1/transcriptions/${transcription.id}/result`);
}

const WITH_BASE =
  "The first recording is a synthetic voice, for which the small demonstration model was made. The second is a person, and\nWhisper base has the words. README.md says how to add models for Indian languages.";
const WITHOUT_BASE =
  "The words come from the small demonstration model, which does not understand people. README.md says how to add a real one.";

const clock = (seconds: number) =>
  `${String(Math.floor(seconds / 60)).padStart(2, "0")}:${(seconds % 60).toFixed(2).padStart(5, "0")}`;

let server: Bun.Subprocess | undefined;
try {
  const initialised = JSON.parse(
    command("init", "--data", join(folder, "data"), "--config", config, "--json"),
  ) as Initialised;
  command("credit", "grant", "--org", initialised.organization_id, "--paise", "100000", "--config", config);
  const port = await freePort();
  const baseUrl = `http://127.0.0.1:${port}`;
  server = Bun.spawn([executable, "serve", "--config", config], {
    env: { ...programEnvironment(), SHRUTI_SERVER_LISTEN: `127.0.0.1:${port}`, SHRUTI_LOG_LEVEL: "warn" },
    stdin: "ignore",
    stdout: "inherit",
    stderr: "inherit",
  });
  await untilReady(baseUrl);
  for (const recording of recordings) {
    const startedAt = performance.now();
    const result = await transcribe(baseUrl, initialised.key, recording);
    const took = ((performance.now() - startedAt) / 1000).toFixed(1);
    console.log(`\n${basename(recording.audio)} (${recording.language}), ${took} s:\n`);
    for (const { start, end, text } of result.segments) {
      console.log(`${clock(start)} – ${clock(end)}  ${text}`);
    }
    if (result.warnings.length > 0) console.log(`\nwarnings: ${result.warnings.join(", ")}`);
  }
  console.log(`\n${carriedWhisperBase() ? WITH_BASE : WITHOUT_BASE}`);
} finally {
  server?.kill("SIGTERM");
  await server?.exited;
  rmSync(folder, { recursive: true, force: true });
}
