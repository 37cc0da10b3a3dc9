import { createGate } from "../../admission/gate.ts";
import type { ChunkExecutor } from "../../engine/executor.ts";
import { EngineError } from "../../engine/protocol.ts";
import { errorMessage } from "../../lib/error-message.ts";
import {
  briefly,
  type Done,
  FAILURES,
  PROTOCOL,
  type Prepared,
  type PrepareTicket,
  type Ticket,
} from "../messages.ts";
import { AudioError, fetchAudio, UnwantedError } from "./audio.ts";
import { FetchError } from "./fetching-file.ts";
import type { OfferedModels } from "./offered-models.ts";
import { type PreparingOptions, prepareRecording } from "./preparing.ts";
import type { Reports } from "./reports.ts";

/** Work that the control plane asks for. */
export type AnyTicket = Ticket | PrepareTicket;

export type RunningDeps = {
  /** Prepares recordings; left out: the worker does not. */
  preparing?: Pick<PreparingOptions, "engine" | "folder" | "reserveBytes"> | undefined;
  executor: ChunkExecutor;
  models: OfferedModels;
  reports: Reports;
  ca: string;
  /** Called when a job begins, before anything of it is done. */
  onBegin: () => void;
};

/** The jobs that run on this worker. */
export type Running = {
  /**
   * Does a ticket's work. Resolves with the way it ended; the report is sent meanwhile.
   *
   * @param isUrgent a client waits for it with an open connection
   */
  run(ticket: AnyTicket, isUrgent: boolean): Promise<RunEnd>;
  /** Reports whether this machine can recognize silence of a ticket's length, after chunks have failed. */
  recognizesSilence(ticket: Ticket): Promise<boolean>;
  /** Stops a job, or drops its result. */
  cancel(job: string): void;
  jobs(): string[];
  /** Returns how many of the jobs prepare recordings. */
  preparing(): number;
  /** Returns recognized audio per time, as a ratio; undefined before the first chunk. */
  speed(): number | undefined;
};
/** `suspect`: the process ended with several chunks, one of which may be the cause. */
export type RunEnd = "done" | "failed" | "suspect" | "audio" | "cancelled" | "doubled";

const BYTES_PER_SAMPLE = 2;
/** A machine that needs longer for silence is not healthy. */
const SILENCE_WITHIN_MS = 60_000;

export function createRunning(deps: RunningDeps): Running {
  const { executor, models, reports } = deps;
  const running = new Map<string, { stop: AbortController; ended: Promise<void>; isPreparing: boolean }>();
  const sum = { audioMs: 0, elapsedMs: 0 };
  const gate = createGate();

  async function recognize(
    ticket: Ticket,
    isUrgent: boolean,
    signal: AbortSignal,
  ): Promise<NonNullable<Done["outcome"]>> {
    const model = models.find(ticket.model.sha256);
    if (!model || model.family !== ticket.model.family) {
      throw new EngineError("interrupted", "the worker does not have the model");
    }
    const audio = await fetchAudio(ticket, deps.ca, signal);
    const { settings, window_ms: windowMs, alone: isAlone } = ticket;
    const leave = await gate.enter(isAlone, signal);
    try {
      const beganAt = performance.now();
      const sharers = running.size - preparing();
      const job = { model, windowMs, audio, settings, sharers, isAlone, isUrgent };
      const { segments, effort } = await executor.recognize(job, signal);
      const elapsedMs = performance.now() - beganAt;
      sum.audioMs += ticket.samples / 16;
      sum.elapsedMs += elapsedMs;
      return { segments, elapsed_ms: elapsedMs, ...(effort === undefined ? {} : { effort }) };
    } finally {
      leave();
    }
  }

  async function prepare(ticket: PrepareTicket, signal: AbortSignal): Promise<Prepared> {
    if (!deps.preparing) throw new EngineError("interrupted", "the worker does not prepare recordings");
    const enter = () => gate.enter(ticket.alone, signal);
    return prepareRecording(ticket, { ...deps.preparing, ca: deps.ca, enter }, signal);
  }

  function preparing(): number {
    return [...running.values()].filter(({ isPreparing }) => isPreparing).length;
  }

  function tell(ticket: AnyTicket, report: Pick<Done, "outcome" | "prepared" | "failed">): void {
    const { job, attempt, proof } = ticket;
    const head = { v: PROTOCOL, job, attempt, proof };
    reports.tell({ ...head, ...report }).catch((error: unknown) => {
      // A result that is larger than a message can be.
      const failed = { kind: "failed", reason: briefly(errorMessage(error)) } as const;
      return reports.tell({ ...head, failed });
    });
  }

  function tellFailure(ticket: AnyTicket, error: unknown): RunEnd {
    const reason = briefly(errorMessage(error));
    if (error instanceof EngineError && error.kind === "unusable_model" && "model" in ticket)
      models.distrust(ticket.model.sha256, reason);
    const isSuspect = error instanceof EngineError && error.isSuspect;
    tell(ticket, { failed: { kind: failureOf(error), reason, ...(isSuspect ? { suspect: true } : {}) } });
    if (error instanceof UnwantedError) return "cancelled";
    if (isSuspect) return "suspect";
    return isOfTheWay(error) ? "audio" : "failed";
  }

  return {
    async run(ticket, isUrgent) {
      const { job } = ticket;
      // A cancelled try needs a moment to end.
      for (let earlier = running.get(job); earlier?.stop.signal.aborted; earlier = running.get(job)) {
        await earlier.ended;
      }
      // The control plane has lost its ticket: the job runs, or its result waits.
      if (running.has(job) || reports.hasResult(job)) return "doubled";
      const { promise: ended, resolve } = Promise.withResolvers<void>();
      const own = { stop: new AbortController(), ended, isPreparing: "recording" in ticket };
      running.set(job, own);
      deps.onBegin();
      try {
        const { signal } = own.stop;
        if ("recording" in ticket) tell(ticket, { prepared: await prepare(ticket, signal) });
        else tell(ticket, { outcome: await recognize(ticket, isUrgent, signal) });
        return "done";
      } catch (error) {
        return own.stop.signal.aborted ? "cancelled" : tellFailure(ticket, error);
      } finally {
        running.delete(job);
        resolve();
      }
    },
    async recognizesSilence({ model: { sha256 }, samples, window_ms: windowMs, settings }) {
      const model = models.find(sha256);
      if (!model) return false;
      const audio = { pcm: new Uint8Array(BYTES_PER_SAMPLE * samples), totalSamples: samples };
      const signal = AbortSignal.timeout(SILENCE_WITHIN_MS);
      try {
        const leave = await gate.enter(false, signal);
        const job = { model, windowMs, audio, settings, sharers: 1, isAlone: false };
        await executor.recognize(job, signal).finally(leave);
        return true;
      } catch {
        return false;
      }
    },
    cancel(job) {
      running.get(job)?.stop.abort(new EngineError("aborted", "the job is not wanted any more"));
      reports.drop(job);
    },
    jobs: () => [...running.keys()],
    preparing,
    speed: () => (sum.elapsedMs === 0 ? undefined : sum.audioMs / sum.elapsedMs),
  };
}

/** Sound could not be fetched or brought, which is not the fault of the job. */
const isOfTheWay = (error: unknown) => error instanceof AudioError || error instanceof FetchError;

function failureOf(error: unknown): (typeof FAILURES)[number] {
  if (!(error instanceof EngineError)) return isOfTheWay(error) ? "elsewhere" : "failed";
  return FAILURES.find((kind) => kind === error.kind) ?? "elsewhere";
}
