import { randomBytes } from "node:crypto";
import type { InstalledModel } from "../../domain/model.ts";
import type { ChunkExecutor } from "../../engine/executor.ts";
import type { Log } from "../../lib/log.ts";
import { type Link, type LinkChange, openLink } from "../link.ts";
import {
  type Beat,
  briefly,
  MessageError,
  type Order,
  PROTOCOL,
  readCancel,
  readOrder,
  someJobs,
  type Ticket,
  write,
} from "../messages.ts";
import { createRefusalLog } from "../refusal-log.ts";
import { allFlags, type Skill } from "../skills.ts";
import { type Subjects, subjectsOf } from "../subjects.ts";
import { openGreeting } from "./greeting.ts";
import { createHealth, type Health } from "./health.ts";
import { createModelFetching, type FetchOptions } from "./model-fetching.ts";
import { createOfferedModels } from "./offered-models.ts";
import { createWorkerPlaces } from "./places.ts";
import type { PreparingOptions } from "./preparing.ts";
import { createPulling } from "./pulling.ts";
import { createReports } from "./reports.ts";
import { createRunning, type Running } from "./running.ts";

export type OpenWorkerOptions = {
  /** Addresses of the messaging server, in the form tls://host:port. */
  servers: readonly string[];
  fleet: string;
  worker: string;
  /** PEM text of the fleet's authority, and the secret of the worker's NKEY. */
  ca: string;
  seed: string;
  executor: ChunkExecutor;
  /** Returns the models that are installed on this machine. */
  installed: () => InstalledModel[];
  sha256OfFile: (path: string) => Promise<string>;
  /** Where models run, such as `cuda`. */
  device: () => string;
  /** Chunks at once beyond those that the executor computes, so that a GPU does not wait for audio. */
  placesAhead: number;
  synchronousPlaces: number;
  /** Prepares recordings; left out: only chunks are recognized. */
  preparing?: PreparingOptions;
  /** Fetches models that the worker lacks; left out: they are installed by hand. */
  fetching?: FetchOptions;
  log: Log;
  version: string;
};

/** A machine that recognizes for a fleet. Audio and text are in its memory only. */
export type FleetWorker = {
  /** Waits until the messaging server is reached for the first time. */
  whenConnected(timeoutMs: number): Promise<boolean>;
  /** Takes no more work, and waits until running jobs have ended and their results are taken. */
  drain(timeoutMs: number): Promise<void>;
  close(): Promise<void>;
};

const BEAT_EVERY_MS = 1_000;
const MODELS_EVERY_MS = 5_000;
/** How often the control plane is asked for models that are missing. */
const FETCH_EVERY_MS = 2_000;
/** Results that wait for the control plane, for each place. With more, no new work begins. */
const RESULTS_PER_PLACE = 4;
const DRAIN_STEP_MS = 20;

export function openWorker(options: OpenWorkerOptions): FleetWorker {
  const { worker, log, executor, version } = options;
  const subjects = subjectsOf(options.fleet);
  const instance = randomBytes(8).toString("hex");
  let order: Pick<Order, "drain" | Skill> = { drain: false };
  let isStopping = false;
  let places = 0;
  const link = openLink({
    ...{ servers: options.servers, ca: options.ca, member: worker, seed: options.seed },
    onChange: (change) => logChange(log, change),
  });
  const models = createOfferedModels({
    installed: options.installed,
    sha256OfFile: options.sha256OfFile,
    onProblem: (model, reason) => log.error({ model, reason }, "a model is not offered to the fleet"),
  });
  const chunkPlaces = createWorkerPlaces(models, executor, options.placesAhead);
  const fetching =
    options.fetching &&
    createModelFetching({
      ...{ link, version, log, ca: options.ca, subject: subjects.hello(worker) },
      has: (sha256) => models.find(sha256) !== undefined,
      ...options.fetching,
    });
  const reports = createReports(link, subjects.done(worker), (job, reason) =>
    log.error({ job, reason }, "the control plane refuses a result"),
  );
  const running = createRunning({
    ...{ executor, models, reports, ca: options.ca, preparing: options.preparing },
    // A chunk that ends this machine at once must be known to have been here.
    onBegin: () => beat(),
  });
  const health = { chunks: createHealth(), recordings: createHealth("recordings") };
  const healthFor = (isPreparing: boolean) => (isPreparing ? health.recordings : health.chunks);
  const tryOut = createTrial(running, health.chunks, log);
  const greeting = openGreeting(link, subjects.hello(worker), version, () =>
    log.warn("the control plane gives no answer: it is away, or older than this worker"),
  );
  const pulling = createPulling({
    ...{ link, subjects },
    offers: (kind) =>
      kind === "prepare" ? [{ hash: options.preparing?.code ?? "" }] : chunkPlaces.offers(kind, order),
    mayPull: (kind) =>
      greeting.isAnswered() &&
      !order.drain &&
      !isStopping &&
      !healthFor(kind === "prepare").isResting() &&
      reports.jobs().length <= RESULTS_PER_PLACE * (places + 1),
    async run(ticket, kind) {
      const end = await running.run(ticket, kind === "s");
      log.debug({ job: ticket.job, end }, "a job has ended");
      healthFor("recording" in ticket).observe(end);
      if (end === "failed" && "model" in ticket) void tryOut(ticket);
    },
    onBadTicket: (reason) => log.error({ reason }, "a ticket cannot be read"),
  });

  function beat(): void {
    const problem = health.chunks.problem();
    const speed = running.speed();
    const message: Beat = {
      ...{ v: PROTOCOL, instance, version, device: options.device() },
      places,
      synchronous_places: options.synchronousPlaces,
      models: chunkPlaces.describe(),
      jobs: someJobs(new Set([...running.jobs(), ...reports.jobs()])),
      ...preparingOf(options.preparing, running, health.recordings),
      draining: order.drain || isStopping,
      ...allFlags((skill) => order[skill] ?? false),
      ...(problem === undefined ? {} : { problem: briefly(problem) }),
      ...(speed === undefined ? {} : { speed }),
      ...(fetching ? { lacking: fetching.lacking() } : {}),
    };
    link.publish(subjects.beat(worker), write(message));
  }

  async function lookAtModels(): Promise<void> {
    await models.refresh();
    places = chunkPlaces.most();
    const prepare = options.preparing?.places ?? 0;
    pulling.setPlaces({ a: places, s: options.synchronousPlaces, prepare });
  }

  async function fetchModels(): Promise<void> {
    if (await fetching?.look()) await look();
  }

  listenToControl({ link, subjects, worker, log }, running.cancel, (given) => {
    order = given;
  });
  const look = () =>
    lookAtModels().catch((error: unknown) => log.error({ err: error }, "models cannot be read"));
  const timers = [setInterval(beat, BEAT_EVERY_MS), setInterval(look, MODELS_EVERY_MS)];
  void look().then(() => {
    beat();
    // The models that are here have been read, so that what is missing is known.
    if (fetching && !isStopping) timers.push(setInterval(fetchModels, FETCH_EVERY_MS));
  });

  return {
    whenConnected: link.whenUp,
    async drain(timeoutMs) {
      isStopping = true;
      pulling.stop();
      beat();
      const isBusy = () => pulling.openPlaces() + running.jobs().length + reports.jobs().length > 0;
      await whileBusy(isBusy, timeoutMs);
    },
    async close() {
      isStopping = true;
      greeting.stop();
      pulling.stop();
      for (const timer of timers) clearInterval(timer);
      for (const job of [...running.jobs(), ...reports.jobs()]) running.cancel(job);
      await fetching?.close();
      await link.close();
    },
  };
}

/** Tells a broken machine from broken chunks, by silence. One trial runs at a time. */
function createTrial(
  running: Pick<Running, "recognizesSilence">,
  health: Health,
  log: Log,
): (ticket: Ticket) => Promise<void> {
  let isRunning = false;
  return async (ticket) => {
    if (isRunning || !health.isResting()) return;
    isRunning = true;
    const isHealthy = await running.recognizesSilence(ticket);
    isRunning = false;
    if (isHealthy) health.acquit();
    log.warn({ job: ticket.job, isHealthy }, "several chunks in a row have failed, and silence was tried");
  };
}

/** Describes the preparing of recordings for a beat. A worker that fails at it recognizes as before. */
function preparingOf(
  options: PreparingOptions | undefined,
  running: Pick<Running, "preparing">,
  health: Health,
): Pick<Beat, "preparing"> {
  if (!options) return {};
  const places = health.isResting() ? 0 : options.places;
  return { preparing: { sha256: options.code, places, jobs: running.preparing() } };
}

async function whileBusy(isBusy: () => boolean, timeoutMs: number): Promise<void> {
  const deadline = performance.now() + timeoutMs;
  while (isBusy() && performance.now() < deadline) await Bun.sleep(DRAIN_STEP_MS);
}

function logChange(log: Log, change: LinkChange): void {
  if (change.state === "up") log.info(change, "connected to the messaging server");
  else log.warn(change, "the messaging server is not reachable, or refuses something");
}

type Listening = { link: Link; subjects: Subjects; worker: string; log: Log };

/** Hears which jobs must stop, and what work the worker may take. */
function listenToControl(
  { link, subjects, worker, log }: Listening,
  cancel: (job: string) => void,
  follow: (order: Order) => void,
): void {
  const refused = createRefusalLog((_, reason, count) =>
    log.error({ reason, count }, "a message of the control plane cannot be read"),
  );
  const hear = (subject: string, read: (data: Uint8Array) => void) =>
    link.subscribe(subject, ({ data }) => {
      try {
        read(data);
      } catch (error) {
        if (!(error instanceof MessageError)) throw error;
        refused(subject, error.message);
      }
    });
  hear(subjects.cancel, (data) => readCancel(data).jobs.forEach(cancel));
  hear(subjects.order(worker), (data) => follow(readOrder(data)));
}
