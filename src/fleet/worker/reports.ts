import type { Link } from "../link.ts";
import { type Done, MessageError, readReply, write } from "../messages.ts";

/** Results that the control plane has not taken yet. They are in memory only. */
export type Reports = {
  /** Repeats a report until it is taken or refused, for some minutes at most. Resolves when it need not be kept. */
  tell(done: Done): Promise<void>;
  /** Drops the report of a job that is not wanted any more. */
  drop(job: string): void;
  jobs(): string[];
  /** Reports whether the result of a job waits, which is not a failure. */
  hasResult(job: string): boolean;
};

const REPLY_WITHIN_MS = 2_000;
const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 1_000;
/** A control plane that is away for longer recognizes the chunk again. */
const KEPT_MS = 10 * 60_000;

/** @param onRefused called when the control plane refuses a report, with its reason */
export function createReports(
  link: Pick<Link, "request">,
  subject: string,
  onRefused: (job: string, reason: string) => void,
): Reports {
  const kept = new Map<string, { dropped: AbortController; isResult: boolean }>();

  async function repeat(job: string, data: Uint8Array, dropped: AbortSignal): Promise<void> {
    const deadline = performance.now() + KEPT_MS;
    let pause = FIRST_PAUSE_MS;
    while (!dropped.aborted && performance.now() < deadline) {
      try {
        const reply = readReply((await link.request(subject, data, REPLY_WITHIN_MS)).data);
        if (!reply.taken) onRefused(job, reply.refused ?? "");
        return;
      } catch (error) {
        if (error instanceof MessageError) return onRefused(job, error.message);
        await Bun.sleep(pause);
        pause = Math.min(2 * pause, LONGEST_PAUSE_MS);
      }
    }
  }

  return {
    async tell(done) {
      kept.get(done.job)?.dropped.abort();
      const own = { dropped: new AbortController(), isResult: done.outcome !== undefined };
      kept.set(done.job, own);
      try {
        await repeat(done.job, write(done), own.dropped.signal);
      } finally {
        if (kept.get(done.job) === own) kept.delete(done.job);
      }
    },
    drop: (job) => kept.get(job)?.dropped.abort(),
    jobs: () => [...kept.keys()],
    hasResult: (job) => kept.get(job)?.isResult === true,
  };
}
