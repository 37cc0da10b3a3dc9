import { availableParallelism } from "node:os";
import type { Shruti } from "./shruti.ts";

/**
 * A sample takes the server 2 to 4 ms, and this program some more. Five a second took 2 % of two cores (four recordings of
 * 600 s), which the recognizer did not have. One a second takes 0.4 %.
 */
const SAMPLE_EVERY_MS = 1000;

/** What the recognizer had of the machine while chunks waited for a slot. */
export type WaitingShare = {
  /** Share of the processor time, 0 to 1; undefined when chunks never waited in two samples in a row. */
  share: number | undefined;
  waitedMs: number;
};

/**
 * Measures, while work runs, how much of the machine the recognizer has as long as chunks wait. Only the time between two
 * samples that both saw a waiting chunk counts.
 */
export async function shareWhileWaiting(shruti: Shruti, work: () => Promise<unknown>): Promise<WaitingShare> {
  let isDone = false;
  let waitedMs = 0;
  let recognizedMs = 0;
  const sampling = (async () => {
    let last = await sampleOf(shruti);
    while (!isDone) {
      await Bun.sleep(SAMPLE_EVERY_MS);
      const now = await sampleOf(shruti);
      if (last.waiting > 0 && now.waiting > 0) {
        waitedMs += now.atMs - last.atMs;
        recognizedMs += busiestMs(last.workers, now.workers);
      }
      last = now;
    }
  })();
  try {
    await work();
  } finally {
    isDone = true;
    await sampling;
  }
  const share = waitedMs === 0 ? undefined : recognizedMs / (waitedMs * availableParallelism());
  return { share, waitedMs };
}

async function sampleOf(shruti: Shruti) {
  const waiting = await shruti.chunksWaiting();
  const { workers } = shruti.cpuSeconds();
  return { waiting, workers, atMs: performance.now() };
}

/** Returns the processor time of the busiest worker process, milliseconds: the one that recognizes. */
function busiestMs(before: ReadonlyMap<string, number>, after: ReadonlyMap<string, number>): number {
  const spent = [...after].map(([pid, seconds]) => seconds - (before.get(pid) ?? 0));
  return Math.max(0, ...spent) * 1000;
}
