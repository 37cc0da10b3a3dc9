import type { PrepareTicket, Ticket } from "../messages.ts";
import type { JobTokens } from "../tokens.ts";
import { newAttempt, type WantedChunk, type WantedJob, type WantedPreparation } from "./wanted-jobs.ts";

export type TicketDeps = {
  tokens: Pick<JobTokens, "token" | "proof">;
  /** Returns the address of the listener for workers. */
  baseUrl: () => string;
  /** Returns the version of messages that all workers understand. */
  protocol: () => number;
};

/** Makes the ticket for a new try at a job. */
export function ticketOf(wanted: WantedJob, deps: TicketDeps): Ticket | PrepareTicket {
  wanted.attempt = newAttempt();
  return wanted.kind === "chunk" ? chunkTicket(wanted, deps) : prepareTicket(wanted, deps);
}

function chunkTicket(wanted: WantedChunk, { tokens, baseUrl, protocol }: TicketDeps): Ticket {
  const { id, job, modelSha256: sha256, isAlone, attempt } = wanted;
  const { model, windowMs, settings, audio } = job;
  return {
    v: protocol(),
    job: id,
    attempt,
    proof: tokens.proof(id),
    model: { sha256, id: model.id, version: model.version, family: model.family },
    window_ms: windowMs,
    settings,
    samples: audio.totalSamples,
    audio: { url: `${baseUrl()}/audio/${id}`, token: tokens.token("audio", id) },
    alone: isAlone,
  };
}

function prepareTicket(wanted: WantedPreparation, { tokens, baseUrl, protocol }: TicketDeps): PrepareTicket {
  const { id, job, bytes, isAlone, attempt, timeoutMs } = wanted;
  const { expected, limits } = job;
  return {
    v: protocol(),
    job: id,
    attempt,
    proof: tokens.proof(id),
    recording: {
      url: `${baseUrl()}/recordings/${id}`,
      token: tokens.token("recording", id, timeoutMs),
      bytes,
    },
    prepared: {
      url: `${baseUrl()}/prepared/${id}/${attempt}`,
      token: tokens.token("prepared", `${id} ${attempt}`, timeoutMs),
    },
    channels: job.channels,
    reading: job.reading ?? {},
    max_duration_ms: job.maxDurationMs,
    expected: { samples: Math.round(expected.durationMs * 16), tracks: expected.tracks },
    limits: { max_samples: limits.maxSamples, gap_samples: limits.gapSamples },
    alone: isAlone,
  };
}
