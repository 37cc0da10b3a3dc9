import type { RunEnd } from "./running.ts";

/**
 * Lets a worker rest that fails at every job of a kind. Otherwise a machine with a broken driver, or without a way to the audio,
 * would take and fail all work of the fleet.
 */
export type Health = {
  observe(end: RunEnd): void;
  /** Records that the machine can do such work: the jobs are to blame. It rests for a short time at most, until a job is done. */
  acquit(): void;
  isResting(): boolean;
  /** Says why the worker rests; undefined: it does not. */
  problem(): string | undefined;
};

const MAX_FAILURES = 3;
const FIRST_REST_MS = 2_000;
const LONGEST_REST_MS = 60_000;
/** Most often the network, or the control plane, is away for all workers. It may come back at any time. */
const LONGEST_AUDIO_REST_MS = 8_000;

/** @param jobs what the jobs of this kind are called */
export function createHealth(
  jobs: "chunks" | "recordings" = "chunks",
  now: () => number = () => performance.now(),
): Health {
  let failures = 0;
  let restsUntil = 0;
  let reason = "";
  const isResting = () => now() < restsUntil;
  return {
    observe(end) {
      if (end === "done") failures = 0;
      if (end !== "failed" && end !== "audio") return;
      failures++;
      if (failures < MAX_FAILURES) return;
      const longest = end === "audio" ? LONGEST_AUDIO_REST_MS : LONGEST_REST_MS;
      restsUntil = now() + Math.min(longest, FIRST_REST_MS * 2 ** (failures - MAX_FAILURES));
      reason =
        end === "audio"
          ? `the audio of ${failures} ${jobs} in a row could not be fetched`
          : `${failures} ${jobs} in a row have failed`;
    },
    acquit() {
      failures = Math.min(failures, MAX_FAILURES - 1);
      restsUntil = Math.min(restsUntil, now() + FIRST_REST_MS);
    },
    isResting,
    problem: () => (isResting() ? reason : undefined),
  };
}
