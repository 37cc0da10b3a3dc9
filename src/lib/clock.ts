import { readFileSync } from "node:fs";

/** The source of the time in all code, so that tests can control it. */
export type Clock = {
  /** Milliseconds since the Unix epoch. */
  now(): number;
  /** Returns how long the machine has been running. Absent: not known. */
  sinceBoot?(): SinceBoot;
};

/** A time that cannot be set. */
export type SinceBoot = {
  /** Names one run of the machine. Times of different runs cannot be compared. */
  boot: string;
  /** Milliseconds since its begin, during which the machine was on or asleep. */
  ms: number;
};

export const systemClock: Clock = { now: () => Date.now(), sinceBoot: systemSinceBoot };

const ownRun = `process ${crypto.randomUUID()}`;
let bootId: string | undefined;

/** Reads `CLOCK_BOOTTIME` of Linux. Elsewhere the process counts for itself, and each start is a run of its own. */
function systemSinceBoot(): SinceBoot {
  try {
    bootId ??= readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
    const seconds = Number.parseFloat(readFileSync("/proc/uptime", "utf8"));
    if (bootId !== "" && Number.isFinite(seconds)) return { boot: bootId, ms: Math.round(seconds * 1000) };
  } catch {
    // A container may have no /proc, and other systems have none.
  }
  return { boot: ownRun, ms: performance.now() };
}
