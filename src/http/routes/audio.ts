import { randomUUID } from "node:crypto";
import { rmSync } from "node:fs";
import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import type { Caller } from "../../domain/api-key.ts";
import { AppError } from "../../domain/errors.ts";
import { watchPace } from "../../lib/pace.ts";
import { paceOf } from "../../services/uploads/upload-receiving.ts";
import { contextOf } from "../context.ts";
import type { HttpDeps } from "../deps.ts";
import { createReceivingPlaces } from "../receiving-places.ts";
import { defineKeyedRoutes, operation } from "../route.ts";
import { keepAlive } from "../storage/storage-common.ts";
import { idempotencyKeyOf } from "../wire/idempotency.ts";
import { type ReceivedForm, receiveForm } from "../wire/multipart.ts";
import { RESULT_ALTERNATIVES, resultResponse } from "../wire/results.ts";
import { AudioForm, TranscriptionResult } from "../wire/schemas.ts";
import { refuseUnknown, validate } from "../wire/validate.ts";
import { type Attendance, createSynchronousDesk, type SynchronousOrder } from "./synchronous.ts";

const TRANSCRIBE = operation({
  id: "transcribeAudio",
  summary: "Synchronous transcription of short audio",
  description:
    "Answers with the result. After 503 and 504 try again under another idempotency key, or upload the recording.",
  tag: "Transcriptions",
  scope: "transcriptions:write",
  acceptsIdempotencyKey: true,
  multipart: AudioForm,
  errors: [
    "capability_unavailable",
    "unsupported_language",
    "unsupported_mode",
    "idempotency_conflict",
    "audio_too_large",
    "audio_too_long",
    "audio_decode_failed",
    "too_many_channels",
    "capacity_unavailable",
    "spend_limit_reached",
    "insufficient_credits",
    "conflict",
    "content_deleted",
    "transcription_failed",
    "timeout",
  ],
  responses: { 200: "The finished result." },
  alternatives: RESULT_ALTERNATIVES,
});

/** Synchronous transcription (docs/interface.md section 4.7); needs the scope `transcriptions:write`. */
export function audioRoutes(deps: HttpDeps) {
  const receive = createReceiver(deps);
  const desk = createSynchronousDesk(deps);

  return defineKeyedRoutes("audio").post(
    "/v1/audio/transcriptions",
    async ({ caller, request }) => {
      const key = idempotencyKeyOf(request);
      return receive(request, caller, async (form, path, attendance) => {
        const order = orderOf(form, path, key);
        const row = await desk.transcribe(caller, order, attendance);
        return resultResponse(request, deps.transcriptions.result(caller, row.id));
      });
    },
    { response: { 200: TranscriptionResult }, ...TRANSCRIBE },
  );
}

type WithForm<T> = (form: ReceivedForm, path: string, attendance: Attendance) => Promise<T>;

/**
 * Takes forms in, a bounded number at once: each holds its place until its file was accepted or the work with it is
 * over, so that no more files lie on the disk than there are places. One deadline covers it all.
 */
function createReceiver(deps: HttpDeps) {
  const { synchronous_max_receiving, synchronous_timeout_seconds } = deps.config.limits;
  const incomingDir = join(deps.dataDir, "incoming");
  // No request owns what a killed program was receiving: a data directory has one server at a time.
  rmSync(incomingDir, { recursive: true, force: true });
  const places = createReceivingPlaces(synchronous_max_receiving);

  return async <T>(request: Request, { organizationId }: Caller, work: WithForm<T>): Promise<T> => {
    const context = contextOf(request);
    const deadline = new AbortController();
    const timer = setTimeout(
      () => deadline.abort(new AppError("timeout")),
      synchronous_timeout_seconds * 1000,
    );
    const path = join(incomingDir, `${randomUUID()}.part`);
    let leave = () => {};
    try {
      leave = places.take(organizationId);
      await mkdir(incomingDir, { recursive: true, mode: 0o700 });
      const form = await receiveInTime(deps, request, path, deadline.signal);
      // No byte passes while the answer is awaited.
      context.server?.timeout(request, 0);
      return await work(form, path, {
        client: request.signal,
        deadline: deadline.signal,
        onAccepted: leave,
      });
    } finally {
      clearTimeout(timer);
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
  deadline: AbortSignal,
): Promise<ReceivedForm> {
  const { server } = contextOf(request);
  const maxFileBytes = deps.config.limits.synchronous_max_bytes;
  const slow = new AbortController();
  const pace = watchPace(paceOf(deps.config), () => slow.abort(new AppError("timeout")));
  const renew = keepAlive({ request, method: request.method, server });
  let uncheckedBytes = 0;
  try {
    const announcedBytes = Number(request.headers.get("content-length") ?? 0);
    await deps.uploads.requireDiskSpace(Math.min(Math.max(1, announcedBytes), maxFileBytes));
    return await receiveForm(request, {
      fileField: "file",
      path,
      maxFileBytes,
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

/**
 * Reads an order out of a received form (docs/decisions.md section 2).
 *
 * @throws AppError `unknown_parameter`, `audio_too_large` for a part that was cut off, `invalid_request`, in this order
 */
function orderOf(form: ReceivedForm, path: string, key: string | undefined): SynchronousOrder {
  refuseUnknown(AudioForm, Object.fromEntries(form.names.map((name) => [name, undefined])));
  if (form.isCutOff) throw new AppError("audio_too_large", { detail: "file" });
  if (form.fault) {
    throw new AppError("invalid_request", { detail: form.fault.name, message: form.fault.message });
  }
  const values = { ...Object.fromEntries(form.fields), ...(form.file ? { file: "" } : {}) };
  const fields = validate(AudioForm, values);
  const file = form.file ?? { bytes: 0, sha256: "" };
  return { fields, file: { ...file, path }, isTooLarge: form.isTooLarge, key };
}
