import { randomBytes } from "node:crypto";
import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { AppError } from "../../domain/errors.ts";
import { writeDurably } from "../../lib/durable-files.ts";
import { giveToOwner } from "../../lib/give-to-owner.ts";
import { asWriterOf } from "../../lib/rights.ts";
import { toTimestamp } from "../../lib/time.ts";
import { MEMBERS_FILE, type Member, readMembers } from "../control/members.ts";
import { FLEET_FILES, fleetFolderOf, readFleetFile } from "../fleet-folder.ts";
import { CONTROL_MEMBER, NAME_PATTERN } from "../subjects.ts";
import { makeAuthority, makeServerCertificate } from "./certificates.ts";
import { makeMemberKey, publicKeyOf } from "./keys.ts";
import { NATS_FILES, renderNatsConfig } from "./nats-config.ts";

/** What an admin says when a fleet is made. It is kept beside the fleet's keys. */
export type FleetPlan = {
  name: string;
  /** Addresses of the messaging server, tls://host:port. */
  nats: string[];
  /** Address of the control plane for workers, https://host:port. */
  baseUrl: string;
  /** Folder of the messaging server's files on its machine. */
  natsFolder: string;
};

const PLAN_FILE = "fleet.json";
const SECRET_MODE = 0o600;
const PUBLIC_MODE = 0o644;
const FOLDER_MODE = 0o700;
const DEFAULT_PORT = 4222;

/** Returns the folder, in the data directory, of the files that the messaging server needs. */
export function natsFolderOf(dataDir: string): string {
  return join(fleetFolderOf(dataDir), "nats");
}

/**
 * Makes the files of a fleet: an authority, certificates, keys, and the configuration of the messaging server.
 *
 * @throws AppError `conflict` when the data directory has a fleet, `not_found` without a data directory
 */
export async function initFleet(dataDir: string, plan: FleetPlan): Promise<void> {
  const folder = fleetFolderOf(dataDir);
  if (!existsSync(dataDir)) {
    throw new AppError("not_found", {
      message: `There is no data directory ${dataDir}; \`shruti init\` makes it.`,
    });
  }
  if (existsSync(join(folder, PLAN_FILE))) {
    throw new AppError("conflict", { message: `${folder} has the files of a fleet already.` });
  }
  for (const path of [folder, natsFolderOf(dataDir)]) {
    mkdirSync(path, { recursive: true, mode: FOLDER_MODE });
    giveToOwner(path);
  }
  const here = ["localhost", "127.0.0.1"];
  const authority = await makeAuthority(plan.name);
  const listener = await makeServerCertificate(authority, [hostOf(plan.baseUrl), ...here]);
  const server = await makeServerCertificate(authority, [...plan.nats.map(hostOf), ...here]);
  const own = (name: keyof typeof FLEET_FILES) => join(folder, FLEET_FILES[name]);
  const nats = (name: keyof typeof NATS_FILES) => join(natsFolderOf(dataDir), NATS_FILES[name]);
  await writeDurably(own("caKey"), authority.key, SECRET_MODE);
  await writeDurably(own("ca"), authority.cert, PUBLIC_MODE);
  await writeDurably(own("listenerKey"), listener.key, SECRET_MODE);
  await writeDurably(own("listenerCert"), listener.cert, PUBLIC_MODE);
  await writeDurably(nats("key"), server.key, SECRET_MODE);
  await writeDurably(nats("cert"), server.cert, PUBLIC_MODE);
  await writeDurably(own("tokenSecret"), `${randomBytes(32).toString("hex")}\n`, SECRET_MODE);
  await writeDurably(own("controlKey"), `${makeMemberKey().seed}\n`, SECRET_MODE);
  await writeDurably(join(folder, MEMBERS_FILE), "[]\n", SECRET_MODE);
  await writeNatsConfig(dataDir, plan);
  // The plan comes last: it says that all files are there.
  await writeDurably(join(folder, PLAN_FILE), `${JSON.stringify(plan, null, 2)}\n`, SECRET_MODE);
}

/** @throws AppError `not_found` when the data directory has no fleet */
export function readPlan(dataDir: string): FleetPlan {
  const path = join(fleetFolderOf(dataDir), PLAN_FILE);
  if (!existsSync(path)) {
    throw new AppError("not_found", {
      message: `There is no fleet in ${dataDir}; \`shruti fleet init\` makes one.`,
    });
  }
  return JSON.parse(readFileSync(path, "utf8")) as FleetPlan;
}

/** The files for a worker's machine. */
export type WorkerFiles = { folder: string; config: string; key: string; ca: string };

/**
 * Adds a worker: its rights at the messaging server, and a folder with the files for its machine.
 *
 * @param folder receives the worker's files; it must not exist
 * @throws AppError `conflict` when the name or the folder is taken, `invalid_request` for a name that cannot be used
 */
export async function addWorker(
  dataDir: string,
  name: string,
  folder: string,
  nowMs: number,
): Promise<WorkerFiles> {
  const plan = readPlan(dataDir);
  if (!NAME_PATTERN.test(name) || name === CONTROL_MEMBER) {
    throw new AppError("invalid_request", {
      detail: "name",
      message: `${JSON.stringify(name)} cannot be the name of a worker: small letters, digits and hyphens, 32 at most.`,
    });
  }
  const members = readMembers(fleetFolderOf(dataDir));
  if (members.some((member) => member.name === name)) {
    throw new AppError("conflict", { message: `There is a worker ${name} already.` });
  }
  const { seed, publicKey } = makeMemberKey();
  const ca = readFleetFile(join(fleetFolderOf(dataDir), FLEET_FILES.ca));
  const texts = { key: `${seed}\n`, ca: `${ca}\n`, config: workerConfig(plan, name) };
  const files = await asWriterOf(folder, () => writeWorkerFiles(folder, texts));
  const added: Member = { name, key: publicKey, addedAt: toTimestamp(nowMs), isDraining: false };
  await writeMembers(dataDir, plan, [...members, added]);
  return files;
}

/** @throws AppError `conflict` when the folder is there */
async function writeWorkerFiles(
  folder: string,
  { key, ca, config }: Record<"key" | "ca" | "config", string>,
): Promise<WorkerFiles> {
  if (existsSync(folder)) throw new AppError("conflict", { message: `${folder} exists already.` });
  mkdirSync(folder, { mode: FOLDER_MODE });
  giveToOwner(folder);
  const at = (file: string) => join(folder, file);
  const files = { folder, config: at("shruti.toml"), key: at("worker.key"), ca: at("ca.pem") };
  await writeDurably(files.key, key, SECRET_MODE);
  await writeDurably(files.ca, ca, PUBLIC_MODE);
  await writeDurably(files.config, config, PUBLIC_MODE);
  return files;
}

/** Withdraws the rights of a worker. @throws AppError `not_found` */
export async function removeWorker(dataDir: string, name: string): Promise<void> {
  const plan = readPlan(dataDir);
  requireMember(dataDir, name);
  await writeMembers(
    dataDir,
    plan,
    readMembers(fleetFolderOf(dataDir)).filter((member) => member.name !== name),
  );
}

/**
 * Lets a worker finish its work and take no more, or take work again.
 *
 * @returns whether that is a change
 * @throws AppError `not_found`
 */
export async function drainWorker(dataDir: string, name: string, isDraining: boolean): Promise<boolean> {
  const plan = readPlan(dataDir);
  requireMember(dataDir, name);
  const members = readMembers(fleetFolderOf(dataDir));
  if (members.every((member) => member.name !== name || member.isDraining === isDraining)) return false;
  const changed = members.map((member) => (member.name === name ? { ...member, isDraining } : member));
  await writeMembers(dataDir, plan, changed);
  return true;
}

function requireMember(dataDir: string, name: string): void {
  if (readMembers(fleetFolderOf(dataDir)).some((member) => member.name === name)) return;
  throw new AppError("not_found", { message: `There is no worker ${name}.` });
}

/** The server's rights are written first: a worker in the list has them. */
async function writeMembers(dataDir: string, plan: FleetPlan, members: readonly Member[]): Promise<void> {
  await writeNatsConfig(dataDir, plan, members);
  const path = join(fleetFolderOf(dataDir), MEMBERS_FILE);
  await writeDurably(path, `${JSON.stringify(members, null, 2)}\n`, SECRET_MODE);
}

async function writeNatsConfig(
  dataDir: string,
  plan: FleetPlan,
  members: readonly Member[] = [],
): Promise<void> {
  const seed = readFleetFile(join(fleetFolderOf(dataDir), FLEET_FILES.controlKey));
  const [first = ""] = plan.nats;
  const text = renderNatsConfig({
    fleet: plan.name,
    port: Number(new URL(first).port || DEFAULT_PORT),
    folder: plan.natsFolder,
    controlKey: publicKeyOf(seed),
    workers: members,
  });
  await writeDurably(join(natsFolderOf(dataDir), NATS_FILES.config), text, SECRET_MODE);
}

function workerConfig({ name: fleet, nats }: FleetPlan, worker: string): string {
  return `# Made by \`shruti fleet add ${worker}\`. Start in this folder: shruti worker
[storage]
data_dir = "./shruti-data"

[fleet]
nats = ${JSON.stringify(nats)}
name = ${JSON.stringify(fleet)}
worker = ${JSON.stringify(worker)}
key_file = "./worker.key"
ca_file = "./ca.pem"
`;
}

/** Returns the host of an address, without the brackets of IPv6. */
function hostOf(url: string): string {
  return new URL(url).hostname.replace(/^\[|\]$/g, "");
}

/** Returns an absolute folder for a worker's files. */
export function workerFolder(name: string, output: string | undefined): string {
  return resolve(output ?? `./${name}`);
}
