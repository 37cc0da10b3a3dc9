import { Database } from "bun:sqlite";
import { readFileSync } from "node:fs";
import { loadavg } from "node:os";
import { join } from "node:path";
import { jetstreamManager } from "@nats-io/jetstream";
import { FLEET_FILES, fleetFolderOf, readFleetFile } from "../fleet/fleet-folder.ts";
import { openLink } from "../fleet/link.ts";
import { readPlan } from "../fleet/setup/fleet-setup.ts";
import { CONTROL_MEMBER, subjectsOf } from "../fleet/subjects.ts";
import { errorMessage } from "../lib/error-message.ts";
import type { FleetInstallation, FleetMember } from "./fleet-kit.ts";
import type { RunningServer } from "./kit.ts";

/** What is known of a fleet; `server` is missing before the first start. */
export type ReportedFleet = {
  fleet: FleetInstallation;
  members: readonly FleetMember[];
  server?: RunningServer | undefined;
};

const WORKER_LINES = 12;
const SERVER_LINES = 40;
const NATS_LINES = 15;
const ANSWER_WITHIN_MS = 3_000;
const MAX_SUBJECTS = 20;

/**
 * Runs work on a fleet. When it fails, the error says what all processes have logged last, and what the stream of tickets
 * and the database hold: the failure may not come again.
 */
export async function explained<T>(world: ReportedFleet, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw new Error(`${errorMessage(error)}\n${await reportOf(world)}`, { cause: error });
  }
}

async function reportOf({ fleet, members, server }: ReportedFleet): Promise<string> {
  const nats = join(fleet.dataDir, "fleet/nats/nats.log");
  const parts: [string, () => unknown][] = [
    ["load", () => loadavg().join(" ")],
    ["fleet", () => JSON.stringify(fleet.latest() ?? "no status")],
    ["readiness", async () => server && (await answerOf(`${server.baseUrl}/readyz`))],
    ["tickets", () => ticketsOf(fleet)],
    ["database", () => unfinishedOf(fleet.dataDir)],
    ...members.map((member): [string, () => unknown] => [
      `worker ${member.name}, ${member.isRunning() ? "running" : "not running"}`,
      () => lastLines(member.log(), WORKER_LINES),
    ]),
    ["messaging server", () => lastLines(readFileSync(nats, "utf8"), NATS_LINES)],
    ["control plane", () => server && lastLines(withoutRequests(server.log()), SERVER_LINES)],
  ];
  const texts: string[] = [];
  for (const [heading, read] of parts) {
    const text = await Promise.resolve()
      .then(read)
      .catch((error: unknown) => `cannot be read: ${errorMessage(error)}`);
    texts.push(`--- ${heading}\n${text}`);
  }
  return texts.join("\n");
}

const lastLines = (text: string, count: number) => text.trimEnd().split("\n").slice(-count).join("\n");

/** The test itself asks for the state of transcriptions, many times. */
const withoutRequests = (log: string) =>
  log
    .split("\n")
    .filter((line) => !line.includes('"msg":"request"'))
    .join("\n");

async function answerOf(url: string): Promise<string> {
  const response = await fetch(url, { signal: AbortSignal.timeout(ANSWER_WITHIN_MS) });
  return `${response.status} ${await response.text()}`;
}

/** Reads the stream with the control plane's key, past all relays. */
async function ticketsOf({ dataDir }: FleetInstallation): Promise<string> {
  const folder = fleetFolderOf(dataDir);
  const plan = readPlan(dataDir);
  const file = (name: "ca" | "controlKey") => readFleetFile(join(folder, FLEET_FILES[name]));
  const link = openLink({
    ...{ servers: plan.nats, ca: file("ca"), member: CONTROL_MEMBER, seed: file("controlKey") },
  });
  try {
    await link.whenUp(2 * ANSWER_WITHIN_MS);
    const connection = link.connection();
    if (!connection) return `not connected: ${link.status().problem}`;
    const { stream, jobs } = subjectsOf(plan.name);
    const manager = await jetstreamManager(connection, { timeout: ANSWER_WITHIN_MS, checkAPI: false });
    const { state } = await manager.streams.info(stream, { subjects_filter: jobs });
    const consumers = await manager.consumers.list(stream).next();
    return JSON.stringify({
      ...{ messages: state.messages, last: state.last_seq },
      subjects: Object.keys(state.subjects ?? {}).slice(0, MAX_SUBJECTS),
      consumers: consumers.map(({ name, delivered, num_ack_pending, num_pending, num_waiting }) => ({
        ...{ name, delivered: delivered.stream_seq, num_ack_pending, num_pending, num_waiting },
      })),
    });
  } finally {
    await link.close();
  }
}

/** Returns the transcriptions that are not final, and the states of their chunks. */
function unfinishedOf(dataDir: string): string {
  const database = new Database(join(dataDir, "shruti.db"), { readonly: true });
  try {
    database.run("PRAGMA busy_timeout = 5000");
    const rows = database
      .query(
        `SELECT t.id, t.state, c.state AS chunks, count(*) AS count, sum(c.failures) AS failures,
           min(c.position) AS first FROM transcriptions t LEFT JOIN chunks c ON c.transcription_id = t.id
         WHERE t.state NOT IN ('completed', 'partial', 'failed', 'cancelled') GROUP BY t.id, c.state`,
      )
      .all();
    return rows.map((row) => JSON.stringify(row)).join("\n");
  } finally {
    database.close();
  }
}
