import { mkdir, open, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { Engine } from "../../engine/engine.ts";
import { freeBytesOf } from "../../lib/disk-space.ts";
import { createFile } from "../../lib/durable-files.ts";
import type { Prepared, PrepareTicket } from "../messages.ts";
import {
  OUTLINE_FILE,
  speechFile,
  trackBytes,
  trackFile,
  writeOutline,
  writeSpeech,
} from "../prepared-files.ts";
import { bringBytes, bringFile, FetchError, fetchFile } from "./fetching-file.ts";

export type PreparingOptions = {
  engine: Pick<Engine, "decode" | "detectSpeech">;
  /** Names the code that prepares recordings (`preparingCodeOf` of the control plane). */
  code: string;
  /** Recordings at once, at least 1. */
  places: number;
  /** An absolute path of a private folder for recordings that are being prepared. The caller empties it at the start. */
  folder: string;
  /** Bytes that stay free on the disk. */
  reserveBytes: number;
};

export type PreparingTools = Pick<PreparingOptions, "engine" | "folder" | "reserveBytes"> & {
  ca: string;
  /** Waits until the machine may do the work, and returns a function that ends it. */
  enter: () => Promise<() => void>;
};

const FILE_MODE = 0o600;
const FOLDER_MODE = 0o700;

/**
 * Fetches a recording, decodes it, finds its speech, and brings all of that to the control plane. Nothing of it stays on
 * this machine.
 *
 * @throws FetchError, AppError or EngineError; the signal's reason when it is aborted
 */
export async function prepareRecording(
  ticket: PrepareTicket,
  tools: PreparingTools,
  signal: AbortSignal,
): Promise<Prepared> {
  const folder = join(tools.folder, `${ticket.job}-${ticket.attempt}`);
  await mkdir(folder, { recursive: true, mode: FOLDER_MODE });
  try {
    requireSpace(ticket, tools);
    const path = join(folder, "recording");
    await fetchRecording(ticket, path, tools.ca, signal);
    const leave = await tools.enter();
    try {
      return await prepare(ticket, { path, directory: folder }, tools, signal);
    } finally {
      leave();
    }
  } finally {
    await rm(folder, { recursive: true, force: true, maxRetries: 3 });
  }
}

/** @throws FetchError when the recording and its decoded tracks would not fit */
function requireSpace(
  { recording, expected }: PrepareTicket,
  { folder, reserveBytes }: PreparingTools,
): void {
  const bytes = recording.bytes + expected.tracks * trackBytes(expected.samples);
  if (freeBytesOf(dirname(folder)) >= bytes + reserveBytes) return;
  throw new FetchError(`the worker's disk has no space for ${Math.ceil(bytes / 1e6)} MB`);
}

async function fetchRecording(
  { recording: { url, token, bytes } }: PrepareTicket,
  path: string,
  ca: string,
  signal: AbortSignal,
): Promise<void> {
  const file = await createFile(path, FILE_MODE);
  try {
    await fetchFile({ url, bytes, ca, token: () => token }, file, signal);
  } finally {
    await file.close();
  }
}

async function prepare(
  ticket: PrepareTicket,
  { path, directory }: { path: string; directory: string },
  { engine, ca }: PreparingTools,
  signal: AbortSignal,
): Promise<Prepared> {
  const { channels: mode, max_duration_ms: maxDurationMs, reading } = ticket;
  const decoded = await engine.decode({ path, reading, directory, channels: mode, maxDurationMs }, signal);
  await rm(path);
  const { files, samples, channels, measurements, outline } = decoded;
  const remote = (file: string) => ({
    ...{ url: `${ticket.prepared.url}/${file}`, token: () => ticket.prepared.token, ca },
  });
  const limits = { maxSamples: ticket.limits.max_samples, gapSamples: ticket.limits.gap_samples };
  await together(signal, [
    ...files.flatMap((pcmPath, track) => [
      (stop: AbortSignal) => bringTrack(pcmPath, remote(trackFile(track)), stop),
      async (stop: AbortSignal) => {
        const regions = samples === 0 ? [] : await engine.detectSpeech({ pcmPath, limits }, stop);
        await bringBytes(remote(speechFile(track)), writeSpeech(regions), stop);
      },
    ]),
    (stop) => bringBytes(remote(OUTLINE_FILE), writeOutline(outline), stop),
  ]);
  return { samples, channels, measurements };
}

async function bringTrack(
  path: string,
  remote: Parameters<typeof bringFile>[0],
  signal: AbortSignal,
): Promise<void> {
  const file = await open(path, "r");
  try {
    await bringFile(remote, file, signal);
  } finally {
    await file.close();
  }
}

/** Does work side by side. The first failure stops the rest, and is thrown once everything has ended. */
async function together(
  signal: AbortSignal,
  work: readonly ((stop: AbortSignal) => Promise<void>)[],
): Promise<void> {
  const failed = new AbortController();
  const stop = AbortSignal.any([signal, failed.signal]);
  await Promise.allSettled(work.map((each) => each(stop).catch((error: unknown) => failed.abort(error))));
  signal.throwIfAborted();
  failed.signal.throwIfAborted();
}
