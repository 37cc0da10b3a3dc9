import { join } from "node:path";
import type { Config } from "../../config/schema.ts";
import type { Engine } from "../../engine/engine.ts";
import type { Log } from "../../lib/log.ts";
import { FLEET_FILES, fleetFolderOf, readFleetFile } from "../fleet-folder.ts";
import { preparingCodeOf } from "../job-id.ts";
import { type Link, type LinkChange, type LinkMessage, openLink } from "../link.ts";
import { type HelloReply, MessageError, readBeat, readHello, write } from "../messages.ts";
import { createRefusalLog, type RefusalLog } from "../refusal-log.ts";
import { SKILLS, type Skill } from "../skills.ts";
import { CONTROL_MEMBER, subjectsOf } from "../subjects.ts";
import { createJobTokens } from "../tokens.ts";
import { audioRoute } from "./audio-route.ts";
import { createFleetEngine } from "./fleet-engine.ts";
import { createFleetExecutor, type FleetExecutor } from "./fleet-executor.ts";
import { type FleetStatus, statusOf } from "./fleet-status.ts";
import { openListener } from "./listener.ts";
import { type Members, openMembers } from "./members.ts";
import { createServedModels, type ModelWithManifest } from "./model-route.ts";
import { RECONCILE_EVERY_MS } from "./reconcile.ts";
import { recordingRoutes } from "./recording-routes.ts";
import { createRegistry, type Registry } from "./registry.ts";
import { type Sent, senderOf } from "./senders.ts";
import { createTickets } from "./tickets.ts";
import type { WantedJob } from "./wanted-jobs.ts";

export type OpenFleetOptions = {
  config: Config;
  dataDir: string;
  /** The engine of this machine. */
  local: Engine;
  /** Names the code of this machine that decodes and finds speech (open-engine.ts). */
  soundCode: string;
  log: Log;
  /** Version of the program. */
  version: string;
  /** Opens the link to the messaging server; replaced in tests. */
  dial?: typeof openLink;
};

/** The control plane's side of a fleet. */
export type Fleet = {
  /** Recognizes on the fleet's workers. Closing it ends the fleet's parts on this machine. */
  engine: Engine;
  status(): FleetStatus;
  /** Calls a function whenever workers or places have changed. */
  onPlaces(listener: () => void): void;
  /** Sets the function that returns the installed models, from which workers may fetch. */
  serveModels(models: () => readonly ModelWithManifest[]): void;
};

/**
 * Opens a fleet. The messaging server need not be reachable yet.
 *
 * @throws Error when a file of the fleet is missing, or the listener cannot listen
 */
export function openFleet(options: OpenFleetOptions): Fleet {
  const { config, dataDir, local, log } = options;
  const folder = fleetFolderOf(dataDir);
  const { fleet } = config;
  const file = (name: keyof typeof FLEET_FILES) => readFleetFile(join(folder, FLEET_FILES[name]));
  const link = (options.dial ?? openLink)({
    servers: fleet.nats,
    ca: readFleetFile(fleet.ca_file || join(folder, FLEET_FILES.ca)),
    member: CONTROL_MEMBER,
    seed: readFleetFile(fleet.key_file || join(folder, FLEET_FILES.controlKey)),
    onChange: (change) => logChange(log, change),
  });
  const subjects = subjectsOf(fleet.name);
  const preparingCode = preparingCodeOf(options.version, options.soundCode);
  const registry = createRegistry();
  const members = openMembers(folder, (error) =>
    log.error({ err: error }, "the fleet's workers cannot be read"),
  );
  const tokens = createJobTokens(file("tokenSecret"), Date.now);
  const late: { models: () => readonly ModelWithManifest[] } = { models: () => [] };
  const served = createServedModels({
    tokens,
    models: () => late.models(),
    isUsed: (hash) => executor.used.has(hash),
  });
  const listener = openListener({
    listen: fleet.listen,
    tls: { cert: file("listenerCert"), key: file("listenerKey") },
    routes: [
      audioRoute({ tokens, audioOf: (job) => wantedOf(executor, job, "chunk")?.job.audio }),
      served.route,
      ...recordingRoutes({ tokens, find: (job) => wantedOf(executor, job, "prepare") }),
    ],
  });
  const baseUrl = () => fleet.base_url || `https://127.0.0.1:${listener.port}`;
  const refused = createRefusalLog((worker, reason, count) =>
    log.warn({ worker, reason, count }, "a message of a worker was refused"),
  );
  const unskilled = createRefusalLog((model, reason, count) => log.warn({ model, count }, reason));
  const tickets = createTickets(link, subjects, fleet.replicas);
  const executor = createFleetExecutor({
    ...{ link, registry, subjects, tokens, baseUrl },
    tickets,
    lostAfterMs: fleet.lost_after_seconds * 1000,
    preparingCode,
    onUnskilled: (model, skill) => unskilled(model, UNSKILLED[skill]),
    onNotPrepared: (reason) => log.warn({ reason }, "a recording was not prepared by a worker"),
    isMember: (worker) => members.find(worker) !== undefined,
    onLost: ({ name, jobs }) =>
      log.warn({ worker: name, chunks: jobs.length }, "a worker of the fleet is lost"),
    onRefused: refused,
  });
  const places = watchPlaces(registry, preparingCode);
  places.listen(() => {
    // Without it workers cannot ask for tickets.
    if (registry.preparingPlaces(preparingCode) > 0) void tickets.ensure(preparingCode).catch(() => {});
  });
  const heard = { executor, registry, members, log, refused, changed: places.look };
  const strange = createRefusalLog((subject, reason, count) => log.warn({ subject, count }, reason));
  const hear = { link, strange };
  hearWorkers(hear, subjects.done, "request", executor.results.take);
  hearWorkers(hear, subjects.beat, "sign", (worker, { data }) => hearBeat(heard, worker, data));
  hearWorkers(hear, subjects.hello, "request", (worker, { data }, respond) => {
    // A worker may ask right after it was added.
    if (!members.find(worker)) members.refresh();
    if (!members.find(worker)) return;
    answerHello(data, respond, { worker, base_url: baseUrl(), version: options.version }, served.describe);
  });
  const timer = setInterval(() => {
    members.refresh();
    giveOrders(members, registry, executor.wantedSkills(), (worker, order) =>
      link.publish(subjects.order(worker), write({ v: registry.protocol(), ...order })),
    );
    executor.reconcile.lose(removedWorkers(members, registry));
    void executor.reconcile.tick().then(places.look);
  }, RECONCILE_EVERY_MS);

  const close = async () => {
    clearInterval(timer);
    executor.close();
    await listener.close();
    await link.close();
  };
  return {
    engine: createFleetEngine(local, executor, registry, close),
    status: () => statusOf({ executor, registry, members, link, listener }),
    onPlaces: places.listen,
    serveModels(models) {
      late.models = models;
    },
  };
}

const UNSKILLED: Record<Skill, string> = {
  words:
    "chunks wait whose words are to have times: all workers with the model are of versions that give none; upgrade one",
  translations:
    "chunks wait that are to be translated: all workers with the model are of versions that cannot; upgrade one",
};
const STRANGE = "a message that no worker can have sent was dropped";

/** Receives one kind of message of all workers, and drops what none of them can have sent. */
function hearWorkers(
  { link, strange }: { link: Pick<Link, "subscribe">; strange: RefusalLog },
  subjectOf: (worker: string) => string,
  sent: Sent,
  onMessage: (worker: string, message: LinkMessage, respond: (data: Uint8Array) => void) => void,
): void {
  const all = subjectOf("*");
  link.subscribe(all, (message, respond) => {
    const worker = senderOf(message, subjectOf, sent);
    if (worker === undefined) strange(all, STRANGE);
    else onMessage(worker, message, respond);
  });
}

/** Finds a wanted job of one kind. */
function wantedOf<Kind extends WantedJob["kind"]>({ jobs }: FleetExecutor, id: string, kind: Kind) {
  const wanted = jobs.get(id);
  return wanted?.kind === kind ? (wanted as Extract<WantedJob, { kind: Kind }>) : undefined;
}

type Heard = {
  executor: FleetExecutor;
  registry: Registry;
  members: Members;
  log: Log;
  refused: RefusalLog;
  changed: () => void;
};

function hearBeat(
  { executor, registry, members, log, refused, changed }: Heard,
  worker: string,
  data: Uint8Array,
): void {
  if (!members.find(worker)) return;
  try {
    const beat = readBeat(data);
    const isNew = !registry.list().some(({ name }) => name === worker);
    const before = registry.beat(worker, beat, performance.now());
    if (isNew)
      log.info(
        { worker, version: beat.version, device: beat.device, places: beat.places },
        "a worker has come",
      );
    if (before) executor.reconcile.lose([before]);
    executor.reconcile.observe(worker, beat);
    changed();
  } catch (error) {
    if (!(error instanceof MessageError)) throw error;
    registry.countRefused(worker);
    refused(worker, error.message);
  }
}

function answerHello(
  data: Uint8Array,
  respond: (data: Uint8Array) => void,
  facts: Pick<HelloReply, "worker" | "base_url" | "version">,
  models: () => NonNullable<HelloReply["models"]>,
): void {
  try {
    const { v, wants_models: wantsModels } = readHello(data);
    const reply = { v, now_ms: Date.now(), ...facts };
    respond(write(wantsModels ? { ...reply, models: models() } : reply));
  } catch (error) {
    // The worker receives no answer, and reports that.
    if (!(error instanceof MessageError)) throw error;
  }
}

/** Repeats the wishes of the admin, and for skills, to each worker that does not follow them yet. */
function giveOrders(
  members: Members,
  registry: Registry,
  skills: Record<Skill, boolean>,
  order: (worker: string, order: { drain: boolean } & Record<Skill, boolean>) => void,
): void {
  for (const { name, beat } of registry.list()) {
    const drain = members.find(name)?.isDraining ?? false;
    const isFollowed = SKILLS.every((skill) => skills[skill] === (beat[skill] ?? skills[skill]));
    if (drain !== beat.draining || !isFollowed) order(name, { drain, ...skills });
  }
}

function removedWorkers(members: Members, registry: Registry) {
  return registry.list().flatMap(({ name }) => (members.find(name) ? [] : (registry.remove(name) ?? [])));
}

/** Calls listeners when the number of places of any model, or of those that prepare recordings, has changed. */
function watchPlaces(registry: Registry, preparingCode: string) {
  const listeners: (() => void)[] = [];
  let seen = "";
  return {
    listen: (listener: () => void) => void listeners.push(listener),
    look() {
      const hashes = new Set(registry.list().flatMap(({ beat }) => beat.models.map(({ sha256 }) => sha256)));
      const models = [...hashes].map((hash) => `${hash} ${registry.places(hash)}`);
      const now = `${models.join()} ${registry.preparingPlaces(preparingCode)}`;
      if (now === seen) return;
      seen = now;
      for (const listener of listeners) listener();
    },
  };
}

function logChange(log: Log, change: LinkChange): void {
  if (change.state === "up")
    log.info({ server: change.server, version: change.version }, "connected to the messaging server");
  else if (change.state === "down")
    log.warn({ problem: change.problem }, "the messaging server is not reachable");
  else log.error({ problem: change.problem }, "the messaging server refuses something");
}
