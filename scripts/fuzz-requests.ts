/**
 * Sends random and nearly valid requests to the compiled executable, byte by byte over sockets, and compares every
 * response with the table of `/openapi.json`: its status, its code, the shape of its body, its `x-request-id`.
 *
 *   bun scripts/fuzz-requests.ts [--count 2000] [--seed 1] [--jobs 16] [--keep FILE]
 *
 * At the end the server must run, the ledger must be sound, the database must have exactly the resources that successful
 * responses reported, and memory, open files, children and working files must be as at the start. Tests `dist/shruti`, or
 * the executable in `SHRUTI_BINARY`. Exits with status 1 when there are findings; FILE gets the requests that caused them.
 */
import { Database } from "bun:sqlite";
import { existsSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { install, until } from "../src/e2e/kit.ts";
import { descendantsOf, footprintOf, isAlive } from "../src/e2e/processes.ts";
import { createAnswerCheck, type Verdict } from "../src/testing/answers/answer-check.ts";
import { exchange } from "../src/testing/answers/raw-http.ts";
import { createRequestFuzz, type FuzzedRequest } from "../src/testing/answers/request-fuzz.ts";
import { openFuzzWorld } from "../src/testing/answers/request-fuzz-world.ts";

const { values } = parseArgs({
  options: {
    count: { type: "string", default: "2000" },
    seed: { type: "string", default: "1" },
    jobs: { type: "string", default: "16" },
    keep: { type: "string", default: "fuzz-requests-findings.txt" },
  },
});
const COUNT = Number(values.count);
const ANSWER_TIMEOUT_MS = 150_000;
const MEASURED_TIMES = 10;
/** Memory and files are compared from here on, because all parts that start on demand have started. */
const WARM_SHARE = 0.1;

const CREATES: Readonly<Record<string, string>> = {
  "POST /v1/uploads": "uploads",
  "POST /v1/transcriptions": "asynchronous",
  "POST /v1/webhook_endpoints": "endpoints",
};

type Counts = Record<string, number>;

function rowsOf(dataDir: string): Counts {
  const database = new Database(join(dataDir, "shruti.db"), { readonly: true });
  const number = (sql: string) => (database.query(sql).get() as { n: number }).n;
  const counts = {
    uploads: number("select count(*) n from uploads"),
    asynchronous: number("select count(*) n from transcriptions where entrance = 'asynchronous'"),
    synchronous: number("select count(*) n from transcriptions where entrance = 'synchronous'"),
    endpoints: number("select count(*) n from webhook_endpoints"),
    "unfinished transcriptions": number("select count(*) n from transcriptions where finished_at is null"),
    usage: number("select count(*) n from usage_events"),
  };
  database.close();
  return counts;
}

function filesIn(dataDir: string, name: string): number {
  const folder = join(dataDir, name);
  return existsSync(folder) ? readdirSync(folder, { recursive: true }).length : 0;
}

async function main(): Promise<void> {
  const installation = await install({
    environment: {
      SHRUTI_LIMITS_REQUESTS_PER_SECOND: "0",
      SHRUTI_LIMITS_UNPAID_ACTS_PER_SECOND: "0",
      SHRUTI_LIMITS_MAX_QUEUED: "0",
      // Further detectors end only after a minute, and processes are counted here.
      SHRUTI_ENGINE_SPEECH_WORKERS: "1",
      SHRUTI_WEBHOOKS_ALLOWED_NETWORKS: "127.0.0.0/8",
    },
    creditPaise: 1_000_000_000,
  });
  const { dataDir } = installation;
  const findings: string[] = [];
  const kept: string[] = [];
  const statuses = new Map<string, number>();
  const byRuntime = new Map<number, number>();
  const measures: object[] = [];
  const reported: Counts = { uploads: 0, asynchronous: 0, synchronous: 0, endpoints: 0 };
  const untold: Counts = {};
  let lost = 0;
  let answered = 0;
  let unanswered = 0;
  let slowestMs = 0;
  try {
    const server = await (await installation.serve()).ready();
    const world = await openFuzzWorld(installation, server);
    const check = await createAnswerCheck(server.baseUrl);
    const fuzz = createRequestFuzz(world, Number(values.seed));
    const before = rowsOf(dataDir);
    const port = Number(new URL(server.baseUrl).port);
    const startedMs = performance.now();
    let next = 0;

    const note = (request: FuzzedRequest, what: string) => {
      findings.push(`${request.index} (${request.label}): ${what}`);
      if (kept.length < 200) kept.push(`${findings.at(-1)}\n${request.pieces.map(printable).join("¦")}\n`);
    };
    const record = (request: FuzzedRequest, verdict: Verdict) => {
      for (const fault of verdict.faults) note(request, fault);
      statuses.set(verdict.name, (statuses.get(verdict.name) ?? 0) + 1);
      if (verdict.isRuntime) byRuntime.set(verdict.status, (byRuntime.get(verdict.status) ?? 0) + 1);
      if (verdict.stored) reported[verdict.stored] = (reported[verdict.stored] ?? 0) + 1;
    };
    const measure = (done: number) => {
      const { residentMiB, openFiles } = footprintOf(server.pid);
      const children = descendantsOf(server.pid).length;
      const seconds = Math.round((performance.now() - startedMs) / 1000);
      const one = { done, seconds, residentMiB: Math.round(residentMiB), openFiles, children };
      measures.push(one);
      return one;
    };

    /**
     * Bun closes a connection without a response when a request waits for one and the next request is there already
     * (pipelining). Then no response reports what the first request has stored.
     */
    const unsure = (request: FuzzedRequest, answers: number) => {
      if (request.methods.length < 2) return;
      for (const asked of request.asked.slice(answers)) {
        const kind = CREATES[`${asked?.method} ${asked?.target}`];
        if (kind) untold[kind] = (untold[kind] ?? 0) + 1;
        lost += 1;
      }
    };

    async function runOne(request: FuzzedRequest): Promise<void> {
      const beganMs = performance.now();
      const { methods, pieces, afterwards } = request;
      const { answers, rest, ended } = await exchange({
        port,
        pieces,
        methods,
        afterwards,
        timeoutMs: ANSWER_TIMEOUT_MS,
      });
      slowestMs = Math.max(slowestMs, performance.now() - beganMs);
      for (const [at, answer] of answers.entries()) record(request, check(request.asked[at], answer));
      answered += answers.length;
      if (answers.length === 0) unanswered += 1;
      unsure(request, answers.length);
      // After a response to a request's head, its malformed body gets another one from the runtime.
      const isRefusal = !request.mustAnswer && rest.startsWith("HTTP/1.1 400 Bad Request");
      if (isRefusal) byRuntime.set(400, (byRuntime.get(400) ?? 0) + 1);
      else if (rest !== "") note(request, `the connection carried something else: ${rest.slice(0, 200)}`);
      if (ended === "too late") note(request, `no answer within ${ANSWER_TIMEOUT_MS} ms`);
      if (request.mustAnswer && answers.length === 0) note(request, `no answer (${ended})`);
      if (!isAlive(server.pid)) throw new Error(`the server has ended:\n${server.log().slice(-4000)}`);
    }
    async function runUntil(end: number): Promise<void> {
      for (let index = next++; index < end; index = next++) {
        await runOne(fuzz(index));
        if (index % Math.ceil(COUNT / MEASURED_TIMES) === 0) measure(index);
      }
      next = Math.min(next, end);
    }
    const runAllUntil = (end: number) =>
      Promise.all(Array.from({ length: Number(values.jobs) }, () => runUntil(end)));
    const settle = async () => {
      await until(
        "all work has ended",
        () => rowsOf(dataDir)["unfinished transcriptions"] === world.unfinished,
        900_000,
      );
      await until("only workers run", () => descendantsOf(server.pid).length <= 2, 30_000);
      await Bun.sleep(1_000);
    };
    await runAllUntil(Math.ceil(COUNT * WARM_SHARE));
    await settle();
    const warm = measure(next);
    await runAllUntil(COUNT);
    await settle().catch((error: Error) => findings.push(error.message));
    const last = measure(COUNT);

    if (last.openFiles > warm.openFiles + 2)
      findings.push(`open files: ${warm.openFiles}, then ${last.openFiles}`);
    const after = rowsOf(dataDir);
    for (const [what, number] of Object.entries(reported)) {
      // The file of a synchronous request becomes an upload.
      const expected =
        number + (what === "uploads" ? (after.synchronous ?? 0) - (before.synchronous ?? 0) : 0);
      const stored = (after[what] ?? 0) - (before[what] ?? 0);
      // Replays of synchronous requests are reported again, and some synchronous requests end without a result.
      const most = expected + (untold[what] ?? 0);
      if (what !== "synchronous" && (stored < expected || stored > most))
        findings.push(`${stored} rows of ${what} were stored, and answers reported ${expected}`);
    }
    for (const folder of ["work", "incoming"]) {
      if (filesIn(dataDir, folder) > 0) findings.push(`${folder} holds ${filesIn(dataDir, folder)} files`);
    }
    const health = await fetch(`${server.baseUrl}/readyz`);
    if (!health.ok) findings.push(`not ready at the end: ${await health.text()}`);
    const audit = await installation.json<{ ok: boolean; open_reservations: number }>("credit", "audit");
    if (!audit.ok || audit.open_reservations !== 0) findings.push(`audit: ${JSON.stringify(audit)}`);
    const status = await server.stop();
    if (status !== 0) findings.push(`the server stopped with ${status}`);

    console.log(`${COUNT} connections, seed ${values.seed}: ${answered} answers, ${unanswered} without one`);
    for (const [name, times] of [...statuses].sort()) console.log(`${String(times).padStart(7)}  ${name}`);
    console.log(`answered by the HTTP runtime itself: ${JSON.stringify(Object.fromEntries(byRuntime))}`);
    console.log(`stored: ${JSON.stringify(after)}; reported: ${JSON.stringify(reported)}`);
    console.log(
      `pipelined requests without an answer: ${lost}, of them creations: ${JSON.stringify(untold)}`,
    );
    console.log(`audit: ${JSON.stringify(audit)}`);
    console.table(measures);
    console.log(`findings: ${findings.length}; slowest ${Math.round(slowestMs)} ms`);
  } finally {
    for (const finding of findings.slice(0, 100)) console.log(finding.slice(0, 600));
    if (findings.length > 0) {
      writeFileSync(values.keep, kept.join("\n"));
      process.exitCode = 1;
    }
    await installation.remove();
  }
}

const printable = (bytes: Uint8Array) => JSON.stringify(Buffer.from(bytes).toString("latin1").slice(0, 4000));

await main();
