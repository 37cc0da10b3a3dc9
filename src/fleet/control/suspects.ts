/**
 * Finds the chunks that end whole machines. A worker that is lost alone makes its jobs suspect, and a suspect runs alone
 * on its next machine. When that one is lost alone too, the chunk is the cause. When several workers are lost at about
 * the same time, the cause is a network, a power supply or a person, and no job is suspect.
 */
export type Suspects = {
  /**
   * Records that a worker was lost, before `blame` is called for its jobs.
   *
   * @param at time of its last beat, on the clock of `performance.now()`
   */
  lost(at: number): void;
  /**
   * Makes a job of a lost worker suspect. Returns whether it is now known to end machines.
   *
   * @param at time of the worker's last beat
   */
  blame(job: string, at: number): boolean;
  isSuspect(job: string): boolean;
  isGuilty(job: string): boolean;
  /** Forgets a job that has been recognized. */
  clear(job: string): void;
};

/** Machines that a chunk may end. */
const MAX_MACHINES = 2;
/**
 * Workers with last beats this close are lost together. They beat each second. A chunk that ends machines one after the
 * other needs longer, because each loss is noticed first.
 */
const TOGETHER_MS = 1_200;
/** Bounds on memory: jobs whose transcription was cancelled are never cleared. */
const MAX_SUSPECTS = 10_000;
const MAX_LOSSES = 1_000;

export function createSuspects(): Suspects {
  /** For each suspect job, the times at which its workers were lost. */
  const machines = new Map<string, number[]>();
  const losses: number[] = [];
  const areTogether = (one: number, other: number) => Math.abs(one - other) <= TOGETHER_MS;

  function acquit(at: number): void {
    for (const [job, times] of machines) {
      const left = times.filter((other) => !areTogether(at, other));
      if (left.length === 0) machines.delete(job);
      else if (left.length < times.length) machines.set(job, left);
    }
  }

  return {
    lost(at) {
      acquit(at);
      losses.push(at);
      if (losses.length > MAX_LOSSES) losses.shift();
    },
    blame(job, at) {
      if (losses.filter((other) => areTogether(at, other)).length > 1) return false;
      if (machines.size >= MAX_SUSPECTS) machines.clear();
      const times = [...(machines.get(job) ?? []), at];
      machines.set(job, times);
      return times.length >= MAX_MACHINES;
    },
    isSuspect: (job) => machines.has(job),
    isGuilty: (job) => (machines.get(job)?.length ?? 0) >= MAX_MACHINES,
    clear: (job) => void machines.delete(job),
  };
}
