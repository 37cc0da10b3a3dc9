import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { audioFilePath } from "../store/audio-files.ts";
import { type ApiClient, ApiError } from "../testing/answers/api-client.ts";
import { until } from "./kit.ts";
import { sampleBytes } from "./samples.ts";

/** A file on its way into the service, and what its client has received about it. */
export type Sending = {
  key: string;
  bytes: Uint8Array<ArrayBuffer>;
  isTus: boolean;
  id: string;
  token: string;
  /** Bytes that an answer confirmed. */
  confirmed: number;
  /** A response said that it is verified. */
  isComplete: boolean;
};

type UploadBody = { state: string; deleted?: boolean };

/** Announces a file, sends it by PUT or in two pieces by tus, and completes it. Stops where the server breaks off. */
export async function send(
  api: ApiClient,
  key: string,
  sample: string,
  sendings: Sending[],
): Promise<Sending> {
  const bytes = sampleBytes(sample);
  const created = await api.createUpload(bytes.length, createHash("sha256").update(bytes).digest("hex"));
  const sending: Sending = {
    key,
    bytes,
    isTus: Math.random() < 0.5,
    id: created.id,
    token: created.upload.headers.authorization ?? "",
    confirmed: 0,
    isComplete: false,
  };
  sendings.push(sending);
  if (sending.isTus) await sendPieces(api, sending, 0, [Math.floor(bytes.length / 2), bytes.length]);
  else await sendWhole(api, sending);
  await complete(api, sending);
  return sending;
}

async function sendWhole(api: ApiClient, sending: Sending): Promise<void> {
  const { id, token, bytes } = sending;
  const headers = { authorization: token, "content-type": "application/octet-stream" };
  const { status } = await api.send(`/storage/uploads/${id}`, { method: "PUT", headers, body: bytes });
  if (status !== 200) throw new Error(`PUT: ${status}`);
  sending.confirmed = bytes.length;
}

async function sendPieces(
  api: ApiClient,
  sending: Sending,
  from: number,
  ends: readonly number[],
): Promise<void> {
  const { id, token, bytes } = sending;
  const base = { authorization: token, "tus-resumable": "1.0.0" };
  const opened = await api.send("/storage/tus", {
    method: "POST",
    headers: { ...base, "upload-length": String(bytes.length), "upload-metadata": `upload_id ${btoa(id)}` },
  });
  if (opened.status !== 201) throw new Error(`tus creation: ${opened.status}`);
  let offset = from;
  for (const end of ends) {
    const sent = await api.send(`/storage/tus/${id}`, {
      method: "PATCH",
      headers: {
        ...base,
        "content-type": "application/offset+octet-stream",
        "upload-offset": String(offset),
      },
      body: bytes.slice(offset, end),
    });
    if (sent.status !== 204) throw new Error(`tus PATCH: ${sent.status}`);
    offset = end;
    sending.confirmed = end;
  }
}

async function complete(api: ApiClient, sending: Sending): Promise<void> {
  const { status, body } = await api.call<UploadBody>("POST", `/v1/uploads/${sending.id}/complete`);
  if (status === 200 && body.state === "complete") sending.isComplete = true;
}

/**
 * Continues an interrupted upload, as a real client would, until it is verified.
 *
 * @returns what was confirmed earlier and is missing now
 */
export async function settleSending(api: ApiClient, sending: Sending): Promise<string[]> {
  const { id, bytes } = sending;
  const state = async () => (await api.call<UploadBody>("GET", `/v1/uploads/${id}`)).body;
  const first = await state();
  if (first.deleted) return [];
  const lost: string[] = [];
  if (sending.isComplete && first.state !== "complete")
    lost.push(`${id} was complete, and is ${first.state}`);
  if (first.state === "rejected") lost.push(`${id} is rejected`);
  if (first.state === "allocated") {
    lost.push(...(await resume(api, sending)));
    await complete(api, sending);
  }
  await until(`${id} is complete`, async () => (await state()).state === "complete");
  sending.confirmed = bytes.length;
  sending.isComplete = true;
  return lost;
}

async function resume(api: ApiClient, sending: Sending): Promise<string[]> {
  const { id, token, bytes, confirmed } = sending;
  const path = `/storage/uploads/${id}`;
  const { headers } = await api.send(path, { method: "HEAD", headers: { authorization: token } });
  const stored = Number(headers.get("upload-offset"));
  const lost =
    stored < confirmed ? [`${id}: ${confirmed} bytes were confirmed, and ${stored} are there`] : [];
  if (stored < bytes.length) {
    if (sending.isTus) await sendPieces(api, sending, stored, [bytes.length]);
    else await sendWhole(api, sending);
  }
  return lost;
}

/** Repeats deletions that succeeded, or may have succeeded. Afterwards nothing of the deleted content may exist. */
export async function requireDeleted(
  api: ApiClient,
  dataDir: string,
  id: string,
  uploadId: string,
): Promise<void> {
  if ((await api.remove(id)).content_deleted_at === undefined) throw new Error(`${id} is not deleted`);
  const outcome = await api.result(id).catch((error: unknown) => error);
  if (!(outcome instanceof ApiError && outcome.code === "content_deleted"))
    throw new Error(`${id} has a result`);
  const { body } = await api.call<UploadBody>("GET", `/v1/uploads/${uploadId}`);
  if (!body.deleted) throw new Error(`${uploadId} is not deleted`);
  await until(`${uploadId} has no file`, () => !existsSync(audioFilePath(dataDir, uploadId)), 5_000);
}
