/**
 * Sends damaged recordings of every container through the compiled executable: upload, completion, and for some the
 * transcription. Every one must end `complete` or in a documented refusal, while the server runs and no file is left.
 *
 *   bun scripts/fuzz-verification.ts [--count 1000] [--seed 1] [--jobs 4] [--transcribe-every 100]
 *     [--keep DIRECTORY]
 *
 * Among them are undamaged recordings, which must be accepted with their duration; files that are not recordings, which
 * must be refused; wrong SHA-256 values; and files sent with too few or too many bytes. Tests `dist/shruti`, or the
 * executable in `SHRUTI_BINARY`. Needs the system's ffmpeg to make the undamaged files. Exits with status 1 when there are
 * findings; the files that caused them are kept in DIRECTORY.
 */
import { Database } from "bun:sqlite";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { Value } from "@sinclair/typebox/value";
import { ERROR_TABLE } from "../src/domain/errors.ts";
import { type Installation, install, type RunningServer, until } from "../src/e2e/kit.ts";
import { descendantsOf, footprintOf, isAlive } from "../src/e2e/processes.ts";
import { ErrorObject, Upload, UploadCreated } from "../src/http/wire/schemas.ts";
import { seededRandom } from "../src/testing/makers/audio-makers.ts";
import {
  below,
  makeCase,
  makeSeeds,
  OTHER_FILES,
  type Random,
  type Seed,
} from "../src/testing/makers/mutations.ts";

const { values } = parseArgs({
  options: {
    count: { type: "string", default: "1000" },
    seed: { type: "string", default: "1" },
    jobs: { type: "string", default: "4" },
    "transcribe-every": { type: "string", default: "100" },
    keep: { type: "string", default: "fuzz-findings" },
  },
});
const COUNT = Number(values.count);
const SEED = Number(values.seed);
const TRANSCRIBE_EVERY = Number(values["transcribe-every"]);
const MAX_DURATION_SECONDS = 12 * 3600;
/** Longer recordings are not transcribed here, because a gap of hours takes a long time. */
const MAX_TRANSCRIBED_SECONDS = 30;
const VERIFICATION_TIMEOUT_MS = 120_000;
const MEASURED_TIMES = 10;
const MOST_KEPT = 1000;

type Kind = "damaged" | "undamaged" | "no recording";
type Plan = {
  index: number;
  label: string;
  kind: Kind;
  bytes: Uint8Array<ArrayBuffer>;
  origin: Seed | undefined;
  hash: "none" | "right" | "wrong";
  sends: "all" | "too few" | "too many";
  isTus: boolean;
  asksAgain: boolean;
};
type Answer = { status: number; body: unknown; requestId: string | null };
type UploadBody = {
  id: string;
  state: string;
  duration_seconds?: number;
  channels?: number;
  error?: { code: string };
};

const outcomes = new Map<string, number>();
const findings: string[] = [];
const longest: { seconds: number; label: string; bytes: number }[] = [];
const transcribed = new Map<string, number>();
let ends = 0;
let slowestMs = 0;

const count = (map: Map<string, number>, key: string) => map.set(key, (map.get(key) ?? 0) + 1);

function find(plan: Plan, what: string): void {
  findings.push(`${plan.index} (${plan.label}; sha256 ${plan.hash}, sends ${plan.sends}): ${what}`);
  if (findings.length > MOST_KEPT) return;
  mkdirSync(values.keep, { recursive: true });
  writeFileSync(join(values.keep, String(plan.index)), plan.bytes);
}

function planOf(seeds: readonly Seed[], index: number): Plan {
  const random = seededRandom(SEED * 7_919 + index * 31 + 5);
  const chance = random();
  const kind: Kind = chance < 0.02 ? "undamaged" : chance < 0.06 ? "no recording" : "damaged";
  const { label, bytes, origin } = contentOf(seeds, kind, index, random);
  const filled = bytes.length === 0 ? new Uint8Array(1) : bytes;
  const [hash, sends] = [random(), random()];
  return {
    index,
    label,
    kind,
    bytes: filled as Uint8Array<ArrayBuffer>,
    origin,
    hash: hash < 0.5 ? "none" : hash < 0.85 ? "right" : "wrong",
    sends: sends < 0.94 ? "all" : sends < 0.97 ? "too few" : "too many",
    isTus: random() < 0.3,
    asksAgain: random() < 0.1,
  };
}

function contentOf(seeds: readonly Seed[], kind: Kind, index: number, random: Random) {
  if (kind === "damaged") return { ...makeCase(seeds, SEED, index), origin: undefined };
  if (kind === "undamaged") {
    const origin = seeds[below(random, seeds.length)] as Seed;
    return { label: `${origin.name}, undamaged`, bytes: origin.bytes, origin };
  }
  const other = OTHER_FILES[below(random, OTHER_FILES.length)] as (typeof OTHER_FILES)[number];
  return { label: other.name, bytes: other.make(random), origin: undefined };
}

/** Returns the server. Starts it again when it has ended, which is a finding. */
async function createHost(installation: Installation) {
  let server = await (await installation.serve()).ready();
  let restarting: Promise<void> | undefined;
  return {
    server: () => server,
    async revive(plan: Plan): Promise<void> {
      if (isAlive(server.pid)) return;
      restarting ??= (async () => {
        ends += 1;
        find(plan, `the server has ended: ${server.log().slice(-2000)}`);
        server = await (await installation.serve()).ready();
        restarting = undefined;
      })();
      await restarting;
    },
  };
}

async function ask(server: RunningServer, key: string, path: string, init: RequestInit): Promise<Answer> {
  const headers = new Headers(init.headers);
  if (!headers.has("authorization")) headers.set("authorization", `Bearer ${key}`);
  const signal = AbortSignal.timeout(VERIFICATION_TIMEOUT_MS);
  const response = await fetch(`${server.baseUrl}${path}`, { ...init, headers, signal });
  const text = await response.text();
  let body: unknown;
  try {
    body = text === "" ? undefined : JSON.parse(text);
  } catch {
    body = text;
  }
  return { status: response.status, body, requestId: response.headers.get("x-request-id") };
}

/** Compares a response with the shapes of the interface. */
function checkAnswer(plan: Plan, step: string, answer: Answer, statuses: readonly number[]): void {
  const { status, body, requestId } = answer;
  if (status >= 500) find(plan, `${step}: ${status} ${JSON.stringify(body)}`);
  if (!statuses.includes(status)) find(plan, `${step}: ${status} is not among ${statuses}`);
  if (requestId === null) find(plan, `${step}: ${status} without x-request-id`);
  if (status < 400) return;
  if (!Value.Check(ErrorObject, body)) find(plan, `${step}: no error body: ${JSON.stringify(body)}`);
  else if (ERROR_TABLE[body.error.code].status !== status && !step.startsWith("tus"))
    find(plan, `${step}: ${status} with ${body.error.code}`);
}

function sha256For(plan: Plan): string | undefined {
  if (plan.hash === "none") return undefined;
  const right = createHash("sha256").update(plan.bytes).digest("hex");
  if (plan.hash === "right") return right;
  return `${right.startsWith("0") ? "1" : "0"}${right.slice(1)}`;
}

/** Returns the bytes to send. The declared number is always that of the file. */
function sentBytes({ bytes, sends }: Plan): Uint8Array<ArrayBuffer> {
  if (sends === "all") return bytes;
  if (sends === "too few") return bytes.slice(0, Math.floor(bytes.length / 2));
  const more = new Uint8Array(bytes.length + 100);
  more.set(bytes);
  return more;
}

async function sendByTus(server: RunningServer, plan: Plan, created: UploadCreated): Promise<void> {
  const base = { ...created.upload.headers, "tus-resumable": "1.0.0" };
  const opened = await ask(server, "", "/storage/tus", {
    method: "POST",
    headers: {
      ...base,
      "upload-length": String(plan.bytes.length),
      "upload-metadata": `upload_id ${btoa(created.id)}`,
    },
  });
  checkAnswer(plan, "tus creation", opened, [201]);
  const bytes = sentBytes(plan);
  const middle = Math.floor(bytes.length / 3);
  let offset = 0;
  for (const piece of [bytes.subarray(0, middle), bytes.subarray(middle)]) {
    const sent = await ask(server, "", `/storage/tus/${created.id}`, {
      method: "PATCH",
      headers: {
        ...base,
        "content-type": "application/offset+octet-stream",
        "upload-offset": String(offset),
      },
      body: piece,
    });
    const isOver = offset + piece.length > plan.bytes.length;
    checkAnswer(plan, "tus PATCH", sent, isOver ? [413] : [204]);
    if (isOver) return;
    offset += piece.length;
  }
}

async function send(server: RunningServer, plan: Plan, created: UploadCreated): Promise<void> {
  if (plan.isTus) return sendByTus(server, plan, created);
  const { method, url, headers } = created.upload;
  const sent = await ask(server, "", new URL(url).pathname, { method, headers, body: sentBytes(plan) });
  checkAnswer(plan, "PUT", sent, { all: [200], "too few": [409], "too many": [413] }[plan.sends]);
}

/** Completes the upload and waits for the end of its verification. */
async function complete(
  server: RunningServer,
  key: string,
  plan: Plan,
  id: string,
): Promise<{ answer: Answer; upload: UploadBody }> {
  const path = `/v1/uploads/${id}`;
  const answer = await ask(server, key, `${path}/complete`, { method: "POST" });
  checkAnswer(plan, "complete", answer, [200, 202, 409, 415, 422]);
  const deadline = Date.now() + VERIFICATION_TIMEOUT_MS;
  for (;;) {
    const latest = await ask(server, key, path, { method: "GET" });
    checkAnswer(plan, "get", latest, [200]);
    if (!Value.Check(Upload, latest.body)) find(plan, `get: ${JSON.stringify(latest.body)} is not an upload`);
    const upload = latest.body as UploadBody;
    if (upload.state !== "verifying") return { answer, upload };
    if (Date.now() > deadline) {
      find(plan, `verification did not end within ${VERIFICATION_TIMEOUT_MS} ms`);
      return { answer, upload };
    }
    await Bun.sleep(50);
  }
}

function codeOf(body: unknown): string {
  return Value.Check(ErrorObject, body) ? body.error.code : "none";
}

/** Reports what is wrong with a verified upload, and remembers the longest ones. */
function checkComplete(plan: Plan, upload: UploadBody): void {
  const { duration_seconds: seconds = 0, channels = 0 } = upload;
  if (!(seconds > 0 && seconds <= MAX_DURATION_SECONDS)) find(plan, `complete with ${seconds} seconds`);
  if (!(Number.isInteger(channels) && channels >= 1)) find(plan, `complete with ${channels} channels`);
  if (plan.sends !== "all") find(plan, "complete, although not all bytes, or more, were sent");
  if (plan.hash === "wrong") find(plan, "complete, although the declared SHA-256 is another");
  if (plan.kind === "no recording") find(plan, `complete, although it is not a recording: ${seconds} s`);
  const { origin } = plan;
  if (origin?.durationMs !== undefined) {
    if (Math.abs(seconds * 1000 - origin.durationMs) > 200 || channels !== origin.channels)
      find(plan, `${seconds} s and ${channels} channels of ${origin.durationMs} ms and ${origin.channels}`);
  }
  longest.push({ seconds, label: `${plan.index} (${plan.label})`, bytes: plan.bytes.length });
  longest.sort((a, b) => b.seconds - a.seconds);
  longest.splice(10);
}

/** Judges how an upload ended. Returns the name of the outcome. */
function judge(plan: Plan, answer: Answer, upload: UploadBody): string {
  const isImmediate = answer.status !== 202;
  if (upload.state === "complete") {
    if (isImmediate && answer.status !== 200) find(plan, `complete was answered ${answer.status}`);
    checkComplete(plan, upload);
    return "complete";
  }
  if (upload.state === "rejected") {
    const code = upload.error?.code ?? "none";
    if (isImmediate && codeOf(answer.body) !== code)
      find(plan, `${code}, but ${codeOf(answer.body)} was answered`);
    if (plan.hash === "wrong" && code !== "upload_rejected") find(plan, `another SHA-256 gave ${code}`);
    if (plan.origin?.durationMs !== undefined && plan.hash !== "wrong")
      find(plan, `an undamaged recording: ${code}`);
    if (plan.sends !== "all") find(plan, `rejected before all bytes were there: ${code}`);
    const { message = "" } = (upload.error ?? {}) as { message?: string };
    return `rejected: ${code}: ${message}`;
  }
  if (upload.state === "allocated" && plan.sends !== "all") {
    if (answer.status !== 409 || codeOf(answer.body) !== "upload_incomplete")
      find(plan, `unfinished, but complete was answered ${answer.status} ${codeOf(answer.body)}`);
    return "allocated: upload_incomplete";
  }
  find(plan, `ended as ${upload.state}`);
  return `FAULT: ${upload.state}`;
}

/** Starts a transcription of a verified upload. `settle` checks how it ends. */
async function start(
  server: RunningServer,
  key: string,
  plan: Plan,
  id: string,
): Promise<string | undefined> {
  const answer = await ask(server, key, "/v1/transcriptions", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ audio: { upload_id: id }, language: plan.index % 2 === 0 ? "en" : "hi" }),
  });
  // The demonstration model accepts two channels at most.
  checkAnswer(plan, "start", answer, [202, 422]);
  if (answer.status === 202) return (answer.body as { id: string }).id;
  if (codeOf(answer.body) !== "too_many_channels") find(plan, `start: ${JSON.stringify(answer.body)}`);
  return undefined;
}

async function settle(server: RunningServer, key: string, plan: Plan, id: string): Promise<void> {
  let state = "";
  await until(
    `${id} has ended`,
    async () => {
      const answer = await ask(server, key, `/v1/transcriptions/${id}`, { method: "GET" });
      state = (answer.body as { state: string }).state;
      return ["completed", "partial", "failed", "cancelled"].includes(state);
    },
    600_000,
  ).catch(() => find(plan, `${id} is still ${state}`));
  count(transcribed, state);
  if (state !== "completed") find(plan, `verified, but its transcription ended as ${state}`);
}

/** Compares the contents of the data directory with the database. */
function leftBehind(dataDir: string): Record<string, number> {
  const inFolder = (name: string) =>
    existsSync(join(dataDir, name)) ? readdirSync(join(dataDir, name), { recursive: true }).length : 0;
  const database = new Database(join(dataDir, "shruti.db"), { readonly: true });
  const rows = database.query("select id, state from uploads where deleted_at is null").all() as {
    id: string;
    state: string;
  }[];
  database.close();
  const allowed = new Set(rows.filter(({ state }) => state !== "rejected").map(({ id }) => id));
  const files = readdirSync(join(dataDir, "uploads"), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ name }) => name.split(".")[0] ?? "");
  return {
    work: inFolder("work"),
    incoming: inFolder("incoming"),
    "uploads without a row": files.filter((id) => !allowed.has(id)).length,
    "rows still verifying": rows.filter(({ state }) => state === "verifying").length,
  };
}

function isDecoder(pid: number): boolean {
  const { stdout } = Bun.spawnSync(["cat", `/proc/${pid}/cmdline`]);
  return stdout.toString().split("\0")[0]?.endsWith("/decoder") ?? false;
}

async function main(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "shruti-fuzz-"));
  const seeds = makeSeeds(folder);
  rmSync(folder, { recursive: true, force: true });
  const installation = await install({
    environment: {
      SHRUTI_LIMITS_REQUESTS_PER_SECOND: "0",
      SHRUTI_LIMITS_UNPAID_ACTS_PER_SECOND: "0",
      SHRUTI_LIMITS_MAX_QUEUED: "0",
      // An upload that received too few bytes stays open.
      SHRUTI_LIMITS_MAX_OPEN_UPLOADS: "0",
      SHRUTI_RETENTION_AUDIO_DAYS: "0",
    },
    creditPaise: 1_000_000_000,
  });
  const { key, dataDir } = installation;
  const started: { plan: Plan; id: string }[] = [];
  const measures: Record<string, number>[] = [];
  const startedMs = performance.now();
  let next = 0;
  let verified = 0;
  try {
    const host = await createHost(installation);
    const measure = () => {
      const { residentMiB, openFiles } = footprintOf(host.server().pid);
      const children = descendantsOf(host.server().pid).length;
      const seconds = Math.round((performance.now() - startedMs) / 1000);
      measures.push({ done: next, seconds, residentMiB: Math.round(residentMiB), openFiles, children });
    };

    async function runOne(plan: Plan): Promise<void> {
      const server = host.server();
      const sha256 = sha256For(plan);
      const created = await ask(server, key, "/v1/uploads", {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ bytes: plan.bytes.length, ...(sha256 ? { sha256 } : {}) }),
      });
      checkAnswer(plan, "create", created, [201]);
      if (!Value.Check(UploadCreated, created.body)) return find(plan, "no upload was created");
      const { id } = created.body;
      await send(server, plan, created.body);
      const { answer, upload } = await complete(server, key, plan, id);
      count(outcomes, judge(plan, answer, upload));
      if (plan.asksAgain) {
        const again = await ask(server, key, `/v1/uploads/${id}/complete`, { method: "POST" });
        if (answer.status !== 202 && again.status !== answer.status)
          find(plan, `complete answered ${answer.status}, and then ${again.status}`);
      }
      if (upload.state !== "complete") return;
      verified += 1;
      const { duration_seconds: seconds = 0 } = upload;
      if (verified % TRANSCRIBE_EVERY !== 0 || seconds > MAX_TRANSCRIBED_SECONDS) return;
      const transcription = await start(server, key, plan, id);
      if (transcription) started.push({ plan, id: transcription });
    }

    async function runJob(): Promise<void> {
      for (let index = next++; index < COUNT; index = next++) {
        const plan = planOf(seeds, index);
        const beganMs = performance.now();
        await runOne(plan).catch((error: Error) => {
          find(plan, `the connection failed: ${error.message}`);
          return host.revive(plan);
        });
        slowestMs = Math.max(slowestMs, performance.now() - beganMs);
        if (index % Math.ceil(COUNT / MEASURED_TIMES) === 0) measure();
      }
    }
    // All parts that start on demand have started before anything is measured.
    await Promise.all(Array.from({ length: Number(values.jobs) }, runJob));
    for (const { plan, id } of started) await settle(host.server(), key, plan, id);
    await until("no decoder runs", () => !descendantsOf(host.server().pid).some(isDecoder), 30_000).catch(
      (error: Error) => findings.push(error.message),
    );
    measure();
    const audit = await installation.json<{ ok: boolean; open_reservations: number }>("credit", "audit");
    if (!audit.ok || audit.open_reservations !== 0) findings.push(`audit: ${JSON.stringify(audit)}`);
    const left = leftBehind(dataDir);
    for (const [what, number] of Object.entries(left))
      if (number > 0) findings.push(`left: ${number} in ${what}`);
    const status = await host.server().stop();
    if (status !== 0) findings.push(`the server stopped with ${status}`);
    print(seeds.length, measures, left);
  } finally {
    await installation.remove();
  }
}

function print(formats: number, measures: object[], left: object): void {
  console.log(`${COUNT} files, damaged ones of ${formats} formats, seed ${SEED}, through verification`);
  for (const [outcome, times] of [...outcomes].sort())
    console.log(`${String(times).padStart(7)}  ${outcome}`);
  console.log(`server ends: ${ends}; findings: ${findings.length}; slowest ${Math.round(slowestMs)} ms`);
  console.log(`transcribed: ${JSON.stringify(Object.fromEntries(transcribed))}`);
  console.log(`left behind: ${JSON.stringify(left)}`);
  console.table(measures);
  console.log("longest:");
  for (const { seconds, label, bytes } of longest)
    console.log(`  ${seconds} s from ${bytes} bytes: ${label}`);
  for (const finding of findings.slice(0, 200)) console.log(finding);
  if (findings.length > 0) process.exitCode = 1;
}

await main();
