import { computed, signal } from "@preact/signals";
import type { Transcription, Upload, UploadCreated } from "../../http/wire/schemas.ts";
import { asFailure, Failure } from "../lib/api.ts";
import { forget, keep, keptUnder } from "../lib/kept.ts";
import { askBeforeLeaving } from "../lib/leaving.ts";
import { OFFLINE_SECONDS, patiently, seldom } from "../lib/patience.ts";
import { noteName } from "../notes/names.ts";
import { account, askWithKey, keyName, models, read, refreshAccount } from "../session.ts";
import { lookNow } from "../transcriptions/transcriptions.ts";
import type { ErrorCode } from "../words/en.ts";
import { type Choices, modelFor, priceOf, requestOf } from "./choices.ts";
import { type Destination, type Sending, startSending } from "./sending.ts";

/**
 * `waiting`: another file goes first · `sending` · `paused` · `lost`: no connection, continues by itself · `unpicked`: the
 * page was loaded again and needs the file · `checking`: the server verifies it · `ready`: waits for a person's start ·
 * `starting` · `failed`
 */
export type UploadStep =
  | "waiting"
  | "sending"
  | "paused"
  | "lost"
  | "unpicked"
  | "checking"
  | "ready"
  | "starting"
  | "failed";

/** What a reload keeps of an upload. */
type KeptUpload = {
  id: string;
  fileName: string;
  bytes: number;
  lastModified: number;
  sentBytes: number;
  choices: Choices;
  /** The highest price that a person has agreed to; undefined: none was known. */
  agreedPaise: number | undefined;
  owner: string;
  /** Undefined before the server has given a place. */
  uploadId: string | undefined;
  destination: Destination | undefined;
  isSent: boolean;
};

export type UploadItem = KeptUpload & {
  step: UploadStep;
  file: File | undefined;
  failure: Failure | undefined;
  /** Measured by the server. */
  seconds: number | undefined;
  /** The exact price, once the server has measured the recording. */
  pricePaise: number | undefined;
};

/** A file with what a person chose for it. */
export type Picked = { file: File; choices: Choices; agreedPaise: number | undefined };

const SENT_AT_ONCE = 2;
const VERIFY_EVERY_MS = 1000;
/** The server is asked at most this often about the uploads that it checks, all of them together. */
const VERIFY_TOGETHER_EVERY_MS = 200;
/** The list and the credit are read at most this often, even when many recordings begin. */
const LOOK_AFTER_STARTS_EVERY_MS = 1000;
/** Progress is kept this often. */
const KEEP_EVERY_BYTES = 8_000_000;

export const uploads = signal<readonly UploadItem[]>([]);
const sendings = new Map<string, Sending>();

const ACTIVE: readonly UploadStep[] = ["sending", "lost"];
/** What continues by itself as long as the page is open. */
const ON_ITS_WAY: ReadonlySet<UploadStep> = new Set([...ACTIVE, "waiting", "checking", "starting"]);
/** Whether closing the page would interrupt something: it also starts what the server has checked. */
export const isOnItsWay = computed(() => uploads.value.some(({ step }) => ON_ITS_WAY.has(step)));

askBeforeLeaving(() => isOnItsWay.value);

const find = (id: string) => uploads.value.find((item) => item.id === id);

/** Does something for an upload, and again as often as the server asks to come back, until the upload is given up. */
const patientlyFor = <T>(id: string, act: () => Promise<T>): Promise<T> =>
  patiently(act, () => find(id) !== undefined);

function change(id: string, patch: Partial<UploadItem>): void {
  uploads.value = uploads.value.map((item) => (item.id === id ? { ...item, ...patch } : item));
}

/** Names are random. `crypto.randomUUID` is missing on pages that came over plain HTTP. */
function newName(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) =>
    byte.toString(16).padStart(2, "0"),
  ).join("");
}

/** Takes up new files, in their order. */
export function addUploads(picked: readonly Picked[]): void {
  const items = picked.map(
    ({ file, choices, agreedPaise }): UploadItem => ({
      id: newName(),
      fileName: file.name,
      bytes: file.size,
      lastModified: file.lastModified,
      sentBytes: 0,
      choices,
      agreedPaise,
      owner: keyName.value,
      uploadId: undefined,
      destination: undefined,
      isSent: false,
      step: "waiting",
      file,
      failure: undefined,
      seconds: undefined,
      pricePaise: undefined,
    }),
  );
  uploads.value = [...uploads.value, ...items];
  next();
}

/** Brings back what an earlier page left unfinished with the same key. */
export async function restoreUploads(): Promise<void> {
  const found = await keptUnder<KeptUpload>("uploads").catch(() => new Map<string, KeptUpload>());
  const known = new Set(uploads.value.map(({ id }) => id));
  const items = [...found.values()]
    .filter(({ owner, id }) => owner === keyName.value && !known.has(id))
    .map(
      (kept): UploadItem => ({
        ...kept,
        step: kept.isSent ? "checking" : "unpicked",
        file: undefined,
        failure: undefined,
        seconds: undefined,
        pricePaise: undefined,
      }),
    );
  uploads.value = [...uploads.value, ...items];
  for (const { id, isSent } of items) if (isSent) void verify(id);
}

/** Starts files that wait, as long as few enough are being sent. */
function next(): void {
  const busy = uploads.value.filter(({ step }) => ACTIVE.includes(step)).length;
  const waiting = uploads.value.filter(({ step }) => step === "waiting");
  for (const { id } of waiting.slice(0, Math.max(0, SENT_AT_ONCE - busy))) void begin(id);
}

async function remember(id: string): Promise<void> {
  const item = find(id);
  if (!item || item.uploadId === undefined) return;
  const {
    step: _step,
    file: _file,
    failure: _failure,
    seconds: _seconds,
    pricePaise: _price,
    ...kept
  } = item;
  await keep("uploads", id, kept).catch(() => undefined);
}

/** Uploads whose place on the server is being asked for. */
const asking = new Set<string>();

/** Gets a place for the file where it has none, and sends it. */
async function begin(id: string): Promise<void> {
  change(id, { step: "sending", failure: undefined });
  // It was paused and resumed while it waits for its place.
  if (asking.has(id)) return;
  asking.add(id);
  try {
    const item = find(id);
    if (item?.destination === undefined) await allocate(id);
  } catch (error) {
    giveNoPlace(id, asFailure(error));
    return next();
  } finally {
    asking.delete(id);
  }
  if (find(id)?.step === "sending") send(id);
}

/** Without an answer it is tried again when the connection is back, or when a person resumes it. */
function giveNoPlace(id: string, failure: Failure): void {
  const isOffline = failure.code === "offline";
  if (isOffline && find(id)?.step === "paused") return;
  change(id, { step: isOffline ? "lost" : "failed", failure });
  if (isOffline) setTimeout(() => find(id)?.step === "lost" && void begin(id), 1000 * OFFLINE_SECONDS);
}

async function allocate(id: string): Promise<void> {
  const item = find(id);
  if (!item) return;
  const body = { bytes: item.bytes };
  const created = await patientlyFor(id, () => read<UploadCreated>("v1/uploads", { method: "POST", body }));
  const tus = created.resumable_upload;
  if (!tus) throw new Failure("page_error", "The server offers no resumable upload.");
  change(id, {
    uploadId: created.id,
    destination: {
      address: tus.endpoint,
      isCreated: false,
      headers: tus.headers,
      // A recording without a header is read as its name says.
      metadata: { ...tus.metadata, filename: item.fileName },
      chunkBytes: tus.chunk_size,
    },
  });
  await remember(id);
}

function send(id: string): void {
  const item = find(id);
  if (!item?.file || !item.destination) return;
  let keptBytes = item.sentBytes;
  const sending = startSending(item.file, item.destination, {
    onProgress(bytes) {
      const now = find(id);
      if (!now) return;
      // After a break the server may have less than was on its way. The bar waits until that has arrived again.
      const sentBytes = Math.max(now.sentBytes, bytes);
      change(id, { sentBytes, step: now.step === "lost" ? "sending" : now.step });
      if (sentBytes - keptBytes < KEEP_EVERY_BYTES) return;
      keptBytes = sentBytes;
      void remember(id);
    },
    onCreated(address) {
      const destination = find(id)?.destination;
      if (destination) change(id, { destination: { ...destination, address, isCreated: true } });
      void remember(id);
    },
    onWaiting: () => change(id, { step: "lost" }),
    onDone() {
      sendings.delete(id);
      change(id, { isSent: true, sentBytes: item.bytes, step: "checking" });
      void remember(id);
      void verify(id);
      next();
    },
    onRefused(status, message) {
      sendings.delete(id);
      change(id, { step: "failed", failure: new Failure("upload_failed", message, { status }) });
      next();
    },
  });
  sendings.set(id, sending);
}

export function pauseUpload(id: string): void {
  sendings.get(id)?.pause();
  change(id, { step: "paused" });
  void remember(id);
  next();
}

export function resumeUpload(id: string): void {
  change(id, { step: "sending" });
  const sending = sendings.get(id);
  if (sending) sending.resume();
  else void begin(id);
}

/** Continues an upload of an earlier page. Returns false when it is another file. */
export function pickAgain(id: string, file: File): boolean {
  const item = find(id);
  if (
    !item ||
    file.size !== item.bytes ||
    file.name !== item.fileName ||
    file.lastModified !== item.lastModified
  ) {
    return false;
  }
  change(id, { file, step: "waiting" });
  next();
  return true;
}

/** Returns the interrupted upload that a file belongs to. */
export function interruptedFor(file: File): UploadItem | undefined {
  return uploads.value.find(
    ({ step, fileName, bytes, lastModified }) =>
      step === "unpicked" &&
      fileName === file.name &&
      bytes === file.size &&
      lastModified === file.lastModified,
  );
}

/** Gives an upload up. What the server has of it expires there. */
export function dropUpload(id: string): void {
  sendings.get(id)?.pause();
  sendings.delete(id);
  uploads.value = uploads.value.filter((item) => item.id !== id);
  void forget("uploads", id).catch(() => undefined);
  next();
}

/** Does what failed again. */
export function retryUpload(id: string): void {
  const item = find(id);
  if (!item) return;
  change(id, { failure: undefined });
  if (item.isSent) void verify(id);
  else if (item.file) {
    change(id, { step: "waiting" });
    next();
  } else change(id, { step: "unpicked" });
}

function verifyEveryMs(): number {
  const checked = uploads.value.filter(({ step }) => step === "checking").length;
  return Math.max(VERIFY_EVERY_MS, checked * VERIFY_TOGETHER_EVERY_MS);
}

/** Shows what has begun, and what it takes of the credit. */
const lookAfterStarts = seldom(LOOK_AFTER_STARTS_EVERY_MS, () => {
  lookNow();
  void refreshAccount();
});

/** Whether another try with the same file may help, by the code of the refusal. It has every code, so that a new one is not forgotten. */
const MAY_PASS: Record<ErrorCode, boolean> = {
  ...{ audio_decode_failed: false, upload_rejected: false },
  ...{ audio_too_large: false, audio_too_long: false, too_many_channels: false },
  ...{ unauthorized: true, forbidden: true, organization_disabled: true, not_found: true },
  ...{ method_not_allowed: true, invalid_request: true, unknown_parameter: true },
  ...{ unsupported_language: true, unsupported_mode: true, capability_unavailable: true },
  ...{ upload_incomplete: true, result_not_ready: true, idempotency_conflict: true, conflict: true },
  ...{ capacity_unavailable: true, insufficient_credits: true, rate_limited: true },
  ...{ spend_limit_reached: true, too_many_queued: true, content_deleted: true, timeout: true },
  ...{ transcription_failed: true, internal_error: true },
};

/** Whether another try may help. Failures of the page and of the connection have codes of their own, and may pass. */
export const isWorthARetry = ({ step, failure }: UploadItem): boolean =>
  failure !== undefined && (step === "ready" || (step === "failed" && mayPass(failure.code)));

const mayPass = (code: string) => (MAY_PASS as Record<string, boolean>)[code] ?? true;

/** Does everything again that failed and that another try may help. */
export function retryAll(): void {
  for (const item of uploads.value.filter(isWorthARetry)) {
    if (item.step === "ready") void startTranscription(item.id);
    else retryUpload(item.id);
  }
}

/** Completes a sent upload and waits until the server has measured it. */
async function verify(id: string): Promise<void> {
  const { uploadId } = find(id) ?? {};
  if (uploadId === undefined) return;
  change(id, { step: "checking", failure: undefined });
  try {
    let upload = await patientlyFor(id, () =>
      read<Upload>(`v1/uploads/${uploadId}/complete`, { method: "POST" }),
    );
    while (upload.state === "verifying") {
      await new Promise((resolve) => setTimeout(resolve, verifyEveryMs()));
      if (!find(id)) return;
      upload = await patientlyFor(id, () => read<Upload>(`v1/uploads/${uploadId}`)).catch((error) => {
        if (asFailure(error).code === "offline") return upload;
        throw error;
      });
    }
    if (upload.state === "rejected") {
      throw new Failure(upload.error?.code ?? "upload_rejected", upload.error?.message ?? "");
    }
    await measured(id, upload);
  } catch (error) {
    const failure = asFailure(error);
    if (failure.code === "offline") setTimeout(() => find(id) && void verify(id), 1000 * OFFLINE_SECONDS);
    else change(id, { step: "failed", failure });
  }
}

async function measured(id: string, { duration_seconds: seconds = 0, channels = 1 }: Upload): Promise<void> {
  const item = find(id);
  if (!item) return;
  const billed = item.choices.channelMode === "separate" ? channels : 1;
  const hourly =
    account.value?.price_paise_per_audio_hour ??
    modelFor(models.value, item.choices)?.price_paise_per_audio_hour;
  const pricePaise = hourly === undefined ? undefined : priceOf(hourly, seconds, billed);
  change(id, { seconds, pricePaise, step: "ready" });
  const isAgreed =
    item.agreedPaise !== undefined && pricePaise !== undefined && pricePaise <= item.agreedPaise;
  if (isAgreed) await startTranscription(id);
}

/** Starts the transcription of a measured upload. Twice is harmless, because the request carries a key. */
export async function startTranscription(id: string): Promise<void> {
  const item = find(id);
  if (item?.uploadId === undefined) return;
  change(id, { step: "starting", failure: undefined });
  try {
    const request = {
      method: "POST",
      body: requestOf(item.uploadId, item.choices, models.value),
      headers: { "idempotency-key": `console-${item.uploadId}` },
    };
    const answer = await patientlyFor(id, () => askWithKey("v1/transcriptions", request));
    const transcription = (await answer.json()) as Transcription;
    await noteName(transcription.id, item.fileName);
    dropUpload(id);
    lookAfterStarts();
  } catch (error) {
    change(id, { step: "ready", failure: asFailure(error) });
  }
}
