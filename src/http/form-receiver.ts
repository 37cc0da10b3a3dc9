import { randomUUID } from "node:crypto";
import { rmSync } from "node:fs";
import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { createReceivingPlaces } from "../admission/receiving-places.ts";
import type { Caller } from "../domain/api-key.ts";
import { AppError } from "../domain/errors.ts";
import { watchPace } from "../lib/pace.ts";
import type { Attendance } from "../services/transcriptions/synchronous.ts";
import { paceOf } from "../services/uploads/upload-receiving.ts";
import { contextOf } from "./context.ts";
import type { HttpDeps } from "./deps.ts";
import { keepAlive } from "./keep-alive.ts";
import { type FormOptions, type ReceivedForm, receiveForm } from "./wire/multipart.ts";

/** Bounds of a form and of the work with it. */
export type FormBounds = Pick<
  FormOptions,
  "maxFileBytes" | "maxFieldBytes" | "listFields" | "ignoredFields"
> & {
  /** Time for the whole request. */
  timeoutSeconds: number;
};

/** Work with a form that has been received. Its file is at `path` until the work is over. */
export type WithForm<T> = (form: ReceivedForm, path: string, attendance: Attendance) => Promise<T>;

export type FormReceiver = <T>(
  request: Request,
  caller: Caller,
  bounds: FormBounds,
  work: WithForm<T>,
) => Promise<T>;

/**
 * Takes forms in, a bounded number at once: each holds its place until its file was accepted or the work with it is
 * over, so that no more files lie on the disk than there are places. One deadline covers it all.
 */
export function createFormReceiver(deps: HttpDeps): FormReceiver {
  const incomingDir = join(deps.dataDir, "incoming");
  // No request owns what a killed program was receiving: a data directory has one server at a time.
  rmSync(incomingDir, { recursive: true, force: true });
  const places = createReceivingPlaces(deps.config.limits.synchronous_max_receiving);

  return async (request, { organizationId }, bounds, work) => {
    const context = contextOf(request);
    const deadline = new AbortController();
    const timer = setTimeout(() => deadline.abort(new AppError("timeout")), bounds.timeoutSeconds * 1000);
    const path = join(incomingDir, `${randomUUID()}.part`);
    let leave = () => {};
    let lasting: Promise<unknown> = Promise.resolve();
    try {
      leave = places.take(organizationId);
      await mkdir(incomingDir, { recursive: true, mode: 0o700 });
      const form = await receiveInTime(deps, request, path, bounds, deadline.signal);
      // No byte passes while the answer is awaited.
      context.server?.timeout(request, 0);
      return await work(form, path, {
        client: request.signal,
        deadline: deadline.signal,
        onAccepted: leave,
        lastUntil(end) {
          lasting = end;
        },
      });
    } finally {
      const stop = () => clearTimeout(timer);
      void lasting.then(stop, stop);
      leave();
      await rm(path, { force: true });
    }
  };
}

/** Bytes of a form between two checks of the free disk space. */
const DISK_CHECK_BYTES = 4 * 1024 * 1024;

/** Receives a form before the deadline, at the least pace, and while the disk has space beside its reserve. */
async function receiveInTime(
  deps: HttpDeps,
  request: Request,
  path: string,
  { timeoutSeconds: _, ...bounds }: FormBounds,
  deadline: AbortSignal,
): Promise<ReceivedForm> {
  const { server } = contextOf(request);
  const slow = new AbortController();
  const pace = watchPace(paceOf(deps.config), () => slow.abort(new AppError("timeout")));
  const renew = keepAlive({ request, server });
  let uncheckedBytes = 0;
  try {
    const announcedBytes = Number(request.headers.get("content-length") ?? 0);
    await deps.uploads.requireDiskSpace(Math.min(Math.max(1, announcedBytes), bounds.maxFileBytes));
    return await receiveForm(request, {
      fileField: "file",
      path,
      ...bounds,
      signal: AbortSignal.any([request.signal, deadline, slow.signal, deps.stopping]),
      async onPiece(bytes, stored) {
        renew();
        pace.arrived(bytes);
        await pace.during(stored());
        uncheckedBytes += bytes;
        if (uncheckedBytes < DISK_CHECK_BYTES) return;
        uncheckedBytes = 0;
        await deps.uploads.requireDiskSpace(0);
      },
    });
  } catch (error) {
    if (deps.stopping.aborted) throw new AppError("capacity_unavailable");
    if (deadline.aborted || slow.signal.aborted) {
      throw new AppError("timeout", { message: "The body did not arrive in time." });
    }
    throw error;
  } finally {
    pace.end();
  }
}
