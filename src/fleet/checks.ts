import { X509Certificate } from "node:crypto";
import { join } from "node:path";
import { jetstreamManager } from "@nats-io/jetstream";
import type { Config } from "../config/schema.ts";
import { errorMessage } from "../lib/error-message.ts";
import { DAY_MS, toTimestamp } from "../lib/time.ts";
import { readMembers } from "./control/members.ts";
import { FLEET_FILES, fleetFolderOf, readFleetFile } from "./fleet-folder.ts";
import { type Link, openLink } from "./link.ts";
import { type HelloReply, PROTOCOL, readHelloReply, write } from "./messages.ts";
import { CONTROL_MEMBER, subjectsOf } from "./subjects.ts";

/** What `shruti doctor` has found about a fleet, one line each. */
export type FleetFinding = { check: string; ok: boolean; detail: string };

type Checked = { config: Config; dataDir: string; version: string };

const CONNECT_WITHIN_MS = 5_000;
const ANSWER_WITHIN_MS = 3_000;
/** Tokens hold for ten minutes. */
const MAX_CLOCK_DIFFERENCE_MS = 60_000;
/** The oldest server that the tests have run with. */
const OLDEST_SERVER = [2, 9, 10];
/** Older servers lack repairs of 2026 for rights to publish, client certificates and JetStream. */
const REPAIRED_SERVERS = "2.11.16 and 2.12.7";
const SOON_MS = 30 * DAY_MS;

/** Examines the fleet from the side that the config describes: a worker, or the control plane. */
export async function examineFleet(checked: Checked): Promise<FleetFinding[]> {
  const isWorker = checked.config.fleet.worker !== "";
  try {
    return isWorker ? await examineWorker(checked) : await examineControl(checked);
  } catch (error) {
    return [{ check: "fleet", ok: false, detail: errorMessage(error) }];
  }
}

async function examineWorker({ config, dataDir, version }: Checked): Promise<FleetFinding[]> {
  const { fleet } = config;
  const ca = readFleetFile(fleet.ca_file || join(dataDir, "ca.pem"));
  const seed = readFleetFile(fleet.key_file || join(dataDir, "worker.key"));
  const refusals: string[] = [];
  const link = openLink({
    ...{ servers: fleet.nats, ca, member: fleet.worker, seed },
    onChange: (change) => void (change.state === "refused" && refusals.push(change.problem)),
  });
  try {
    const server = await examineServer(link);
    if (!server.ok) return [server];
    const subjects = subjectsOf(fleet.name);
    // A worker must not hear the results of others. The server's refusal shows that it enforces rights.
    link.subscribe(subjects.done("*"), () => {});
    const findings = [
      server,
      ...(await examineControlPlane(link, { subject: subjects.hello(fleet.worker), ca, version, fleet })),
    ];
    const ok = refusals.length > 0;
    const detail = ok
      ? "the messaging server refuses what a worker may not do"
      : "the messaging server lets a worker hear everything: it does not use the configuration of `shruti fleet`";
    return [...findings, { check: "rights", ok, detail }];
  } finally {
    await link.close();
  }
}

async function examineServer(link: Link): Promise<FleetFinding> {
  await link.whenUp(CONNECT_WITHIN_MS);
  const { isUp, server, version = "", problem } = link.status();
  if (!isUp) return { check: "nats", ok: false, detail: `not connected: ${problem}` };
  if (isOlder(version, OLDEST_SERVER)) {
    return { check: "nats", ok: false, detail: `${server}: version ${version} is too old` };
  }
  const advice = isOlder(version, [2, 11, 16]) ? `; repairs of 2026 are in ${REPAIRED_SERVERS}` : "";
  return { check: "nats", ok: true, detail: `${server}, version ${version}${advice}` };
}

function isOlder(version: string, than: readonly number[]): boolean {
  const parts = version.split(/[.-]/).map(Number);
  const index = than.findIndex((number, at) => (parts[at] ?? 0) !== number);
  return index >= 0 && (parts[index] ?? 0) < (than[index] ?? 0);
}

async function examineControlPlane(
  link: Link,
  { subject, ca, version, fleet }: { subject: string; ca: string; version: string; fleet: Config["fleet"] },
): Promise<FleetFinding[]> {
  let reply: HelloReply;
  const askedAt = Date.now();
  const hello = { v: PROTOCOL, version, wants_models: fleet.fetch_models };
  try {
    const { data } = await link.request(subject, write(hello), ANSWER_WITHIN_MS);
    reply = readHelloReply(data);
  } catch (error) {
    return [
      { check: "control", ok: false, detail: `the control plane does not answer: ${errorMessage(error)}` },
    ];
  }
  const differenceMs = Math.abs(reply.now_ms - (askedAt + Date.now()) / 2);
  const idle = fleet.preparing_places > 0 ? " and prepares no recordings for it" : "";
  const other = reply.version === version ? "" : `; this worker has version ${version}${idle}`;
  return [
    { check: "control", ok: true, detail: `version ${reply.version}, protocol ${reply.v}${other}` },
    {
      check: "clock",
      ok: differenceMs < MAX_CLOCK_DIFFERENCE_MS,
      detail: `${(differenceMs / 1000).toFixed(1)} s from the control plane's`,
    },
    await examineAudio(reply.base_url, ca),
    ...(fleet.fetch_models ? [examineModels(reply, fleet.fetch_models_max_bytes)] : []),
  ];
}

function examineModels({ models }: HelloReply, maxBytes: number): FleetFinding {
  if (!models)
    return { check: "fetch_models", ok: false, detail: "the control plane is of an older version" };
  const bytes = models.flatMap(({ files }) => files).reduce((sum, file) => sum + file.bytes, 0);
  const [found, allowed] = [bytes, maxBytes].map((value) => Math.ceil(value / 1e6));
  return {
    check: "fetch_models",
    ok: bytes <= maxBytes,
    detail: `${models.length} ${models.length === 1 ? "model" : "models"} of the fleet can be fetched, ${found} MB; at most ${allowed} MB are kept`,
  };
}

async function examineAudio(baseUrl: string, ca: string): Promise<FleetFinding> {
  try {
    const { status } = await fetch(`${baseUrl}/`, {
      signal: AbortSignal.timeout(ANSWER_WITHIN_MS),
      tls: { ca },
    });
    return { check: "audio", ok: status === 200, detail: `${baseUrl} answers ${status}` };
  } catch (error) {
    return { check: "audio", ok: false, detail: `${baseUrl} cannot be reached: ${errorMessage(error)}` };
  }
}

async function examineControl({ config, dataDir }: Checked): Promise<FleetFinding[]> {
  const { fleet } = config;
  const folder = fleetFolderOf(dataDir);
  const ca = readFleetFile(fleet.ca_file || join(folder, FLEET_FILES.ca));
  const seed = readFleetFile(fleet.key_file || join(folder, FLEET_FILES.controlKey));
  const certificate = readFleetFile(join(folder, FLEET_FILES.listenerCert));
  const workers = readMembers(folder);
  const link = openLink({ servers: fleet.nats, ca, member: CONTROL_MEMBER, seed });
  try {
    const server = await examineServer(link);
    return [
      { check: "fleet", ok: true, detail: `${fleet.name}, ${workers.length} workers` },
      examineCertificate(certificate),
      server,
      ...(server.ok ? [await examineStreams(link)] : []),
    ];
  } finally {
    await link.close();
  }
}

function examineCertificate(pem: string): FleetFinding {
  const end = Date.parse(new X509Certificate(pem).validTo);
  const ok = end - Date.now() > SOON_MS;
  return { check: "fleet tls", ok, detail: `the listener's certificate is valid until ${toTimestamp(end)}` };
}

async function examineStreams(link: Link): Promise<FleetFinding> {
  try {
    const connection = link.connection();
    if (!connection) throw new Error("the connection was lost");
    const streams = await jetstreamManager(connection, { timeout: ANSWER_WITHIN_MS });
    const { memory } = await streams.getAccountInfo();
    return { check: "jetstream", ok: true, detail: `available, ${memory} bytes in memory` };
  } catch (error) {
    return { check: "jetstream", ok: false, detail: errorMessage(error) };
  }
}
