import { readFile, rename, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { PreparedAudio } from "../../engine/engine.ts";
import { errorMessage } from "../../lib/error-message.ts";
import type { Prepared } from "../messages.ts";
import {
  maxBytesOf,
  OUTLINE_FILE,
  readOutline,
  readSpeech,
  speechFile,
  trackBytes,
  trackFile,
} from "../prepared-files.ts";
import { boundsOf } from "./recording-routes.ts";
import type { WantedPreparation } from "./wanted-jobs.ts";

/** What a worker has brought is wrong. The text says what. */
class PreparedError extends Error {}

/** Answers a worker. @param refused why its message is not used */
export type Reply = (refused?: string) => void;

/** A worker's report that a recording is prepared. */
type Report = { worker: string; wanted: WantedPreparation; attempt: string; prepared: Prepared };

export type PreparedResultsDeps = {
  /** Reports whether a job is still wanted. Its files are removed with it, which is not a worker's fault. */
  isWanted: (wanted: WantedPreparation) => boolean;
  accept: (report: Report, outcome: PreparedAudio) => void;
  refuse: (report: Report, reason: string) => void;
};

/** Checks reports one after the other for each job. A worker repeats its report until it has a reply. */
export function createPreparedResults({ isWanted, accept, refuse }: PreparedResultsDeps) {
  const checking = new Set<WantedPreparation>();

  async function check(report: Report, reply: Reply): Promise<void> {
    const { wanted, attempt, prepared } = report;
    if (checking.has(wanted)) return;
    checking.add(wanted);
    try {
      const outcome = await acceptPrepared(wanted, attempt, prepared);
      if (isWanted(wanted)) accept(report, outcome);
      reply();
    } catch (error) {
      if (!isWanted(wanted)) return reply();
      const reason = errorMessage(error);
      refuse(report, reason);
      reply(reason);
    } finally {
      checking.delete(wanted);
    }
  }

  return {
    finish(report: Report, reply: Reply): undefined {
      void check(report, reply);
    },
  };
}

/**
 * Checks what a worker has made of a recording, and moves the tracks to the place where decoding would have put them. A
 * worker must not be able to change the recording's length, or to put speech outside it.
 *
 * @param attempt the try that the worker names
 * @throws PreparedError; the file system's error
 */
async function acceptPrepared(
  wanted: WantedPreparation,
  attempt: string,
  { samples, channels, measurements }: Prepared,
): Promise<PreparedAudio> {
  const { expected, directory, channels: mode, reading = {} } = wanted.job;
  const bounds = boundsOf(wanted);
  const durationMs = Math.round(samples / 16);
  if (Math.abs(durationMs - expected.durationMs) > expected.withinMs)
    throw new PreparedError("another length");
  if (measurements.tracks.length !== expected.tracks) throw new PreparedError("another number of tracks");
  const folder = join(wanted.folder, attempt);
  const tracks = Array.from({ length: expected.tracks }, (_, track) => track);
  const speech: PreparedAudio["speech"] = [];
  for (const track of tracks) {
    if ((await sizeOf(join(folder, trackFile(track)))) !== trackBytes(samples))
      throw new PreparedError("a track of another length");
    const file = speechFile(track);
    const regions = readSpeech(await read(folder, file, maxBytesOf(file, bounds)), samples);
    if (!regions) throw new PreparedError("speech outside the recording, or not in order");
    speech.push(regions);
  }
  const outline = readOutline(
    await read(folder, OUTLINE_FILE, maxBytesOf(OUTLINE_FILE, bounds)),
    tracks.length,
  );
  if (!outline) throw new PreparedError("an outline in another form");
  const files = tracks.map((track) => join(directory, mode === "mix" ? "mix.pcm" : `channel_${track}.pcm`));
  for (const [track, path] of files.entries()) {
    if (samples === 0) await writeFile(path, "");
    else await rename(join(folder, trackFile(track)), path);
  }
  return { decoded: { durationMs, samples, channels, files, measurements, outline, reading }, speech };
}

/** Files without content are not brought. */
async function sizeOf(path: string): Promise<number> {
  return (await stat(path).catch(() => undefined))?.size ?? 0;
}

async function read(folder: string, file: string, most = 0): Promise<Uint8Array> {
  const path = join(folder, file);
  const size = await sizeOf(path);
  if (size > most) throw new PreparedError(`${file} is too large`);
  return size === 0 ? new Uint8Array() : new Uint8Array(await readFile(path));
}
