import { remainingMsOf } from "../admission/remaining-work.ts";
import type { SlotsStatus } from "../admission/slots.ts";
import type { Capacity } from "../engine/executor.ts";
import type { TranscriptionRow } from "../store/transcriptions.ts";
import type { Throughput } from "./throughput.ts";

/** Longest `Retry-After` for space in the queue. */
const LONGEST_RETRY_AFTER_SECONDS = 3_600;

/**
 * Estimates the part of the machine, 0 to 1, that one synchronous request has now: all running chunks share it.
 *
 * @param placesTaken synchronous requests at work
 */
export function shareOfSynchronousRequest(
  { running, runningSynchronous, workers: slots }: SlotsStatus,
  placesTaken: number,
  { isElastic, threadGroups = running }: Capacity,
): number {
  const own = Math.max(1, runningSynchronous / Math.max(1, placesTaken));
  // On an executor that is not elastic, a chunk that runs alone uses no more of the machine.
  const least = isElastic ? 1 : slots;
  // Chunks that share threads take no more from others than these threads.
  const busy = Math.min(running - runningSynchronous, threadGroups) + runningSynchronous;
  return own / Math.max(least, busy, own);
}

/**
 * Estimates the whole seconds until one of an organization's waiting transcriptions starts.
 *
 * @param running rows of all running transcriptions
 * @param progressOf returns a transcription's progress in milliseconds
 * @returns 1 to 3600
 */
export function estimateQueueSeconds(
  running: readonly TranscriptionRow[],
  organizationId: string,
  throughput: Throughput,
  progressOf: (transcriptionId: string) => number,
): number {
  const own = running.filter((row) => row.organizationId === organizationId);
  const remaining = (own.length > 0 ? own : running).map((row) => remainingMsOf(row, progressOf(row.id)));
  if (remaining.length === 0) return 1;
  // All running work shares the machine.
  const sharers = new Set(running.map((row) => row.organizationId)).size;
  const seconds = throughput.estimateMs(Math.min(...remaining) * sharers) / 1000;
  return Math.min(LONGEST_RETRY_AFTER_SECONDS, Math.max(1, Math.ceil(seconds)));
}
