import { randomUUID } from "node:crypto";
import { rmSync } from "node:fs";
import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { AppError } from "../domain/errors.ts";
import { callerOf, contextOf } from "./context.ts";
import type { HttpDeps } from "./deps.ts";
import { idempotencyKeyOf } from "./idempotency.ts";
import { type ReceivedForm, receiveForm } from "./multipart.ts";
import { createReceivingPlaces } from "./receiving-places.ts";
import { resultResponse } from "./results.ts";
import { defineRoutes, operation } from "./route.ts";
import { AudioForm, TranscriptionResult } from "./schemas.ts";
import { keepAlive } from "./storage-common.ts";
import { createSynchronousDesk, type SynchronousOrder } from "./synchronous.ts";
import { refuseUnknown, validate } from "./validate.ts";

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
    "invalid_request",
    "unknown_parameter",
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
  alternatives: {
    "text/vtt": "WebVTT subtitles.",
    "application/x-subrip": "SubRip subtitles.",
    "text/plain": "The text alone.",
  },
});

/** docs/interface.md section 4.7. */
export function audioRoutes(deps: HttpDeps) {
  const receive = createReceiver(deps);
  const desk = createSynchronousDesk(deps);

  return defineRoutes("audio").post(
    "/v1/audio/transcriptions",
    async ({ request }) => {
      const caller = callerOf(request);
      const key = idempotencyKeyOf(request);
      return receive(request, async (form, path) => {
        const order = orderOf(form, path, key);
        const row = await desk.transcribe(caller, order, request.signal);
        return resultResponse(request, deps.transcriptions.result(caller, row.id));
      });
    },
    { parse: "none", response: { 200: TranscriptionResult }, ...TRANSCRIBE },
  );
}

/** Takes forms in, a bounded number at once; the file lies on the disk until the work with it is done. */
function createReceiver(deps: HttpDeps) {
  const { synchronous_max_receiving, synchronous_max_bytes, synchronous_timeout_seconds } =
    deps.config.limits;
  const incomingDir = join(deps.dataDir, "incoming");
  // What a killed program was receiving belongs to nobody: the data directory has one server at a time.
  rmSync(incomingDir, { recursive: true, force: true });
  const places = createReceivingPlaces(synchronous_max_receiving);

  async function receive(request: Request, path: string): Promise<ReceivedForm> {
    const leave = places.take();
    const { server } = contextOf(request);
    const deadline = AbortSignal.timeout(synchronous_timeout_seconds * 1000);
    try {
      await mkdir(incomingDir, { recursive: true, mode: 0o700 });
      return await receiveForm(request, {
        fileField: "file",
        path,
        maxFileBytes: synchronous_max_bytes,
        signal: AbortSignal.any([request.signal, deadline, deps.stopping]),
        onPiece: keepAlive({ request, method: request.method, server }),
      });
    } catch (error) {
      if (deps.stopping.aborted) throw new AppError("capacity_unavailable");
      if (deadline.aborted) throw new AppError("timeout", { message: "The body did not arrive in time." });
      throw error;
    } finally {
      leave();
      // The answer has a deadline of its own, and no byte passes while it is awaited.
      server?.timeout(request, 0);
    }
  }

  return async <T>(request: Request, work: (form: ReceivedForm, path: string) => Promise<T>): Promise<T> => {
    const path = join(incomingDir, `${randomUUID()}.part`);
    let isReceived = false;
    try {
      const form = await receive(request, path);
      isReceived = !form.isCutOff;
      return await work(form, path);
    } catch (error) {
      contextOf(request).closesConnection = !isReceived;
      throw error;
    } finally {
      await rm(path, { force: true });
    }
  };
}

/** What a form orders (docs/decisions.md section 2). */
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
