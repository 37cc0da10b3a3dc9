import type { ErrorBody } from "../../http/wire/errors.ts";
import type {
  Transcription,
  TranscriptionCreate,
  TranscriptionList,
  TranscriptionResult,
  Upload,
  UploadCreated,
  Usage,
} from "../../http/wire/schemas.ts";
import type { TestClient } from "../kits/open-test-app.ts";

/** The error body of a response. */
export class ApiError extends Error {
  readonly status: number;
  readonly code: string;
  readonly detail: string | undefined;

  constructor(status: number, body: { error: { code: string; message: string; detail?: string } }) {
    super(`${status} ${body.error.code} ${body.error.detail ?? ""}: ${body.error.message}`);
    this.status = status;
    this.code = body.error.code;
    this.detail = body.error.detail;
  }
}

/** Fields of the synchronous endpoint's form, without the file. */
export type FormFields = Record<string, string>;

const FINAL = new Set(["completed", "partial", "failed", "cancelled"]);

/** Makes a typed client of the HTTP interface. */
export function apiClient(send: TestClient) {
  async function call<T>(method: string, path: string, body?: unknown, headers: Record<string, string> = {}) {
    const json = body === undefined ? {} : { body: JSON.stringify(body) };
    const type: Record<string, string> = body === undefined ? {} : { "content-type": "application/json" };
    const response = await send(path, { method, headers: { ...type, ...headers }, ...json });
    return { status: response.status, headers: response.headers, body: await readBody<T>(response) };
  }

  const client = {
    send,
    call,

    createUpload: async (bytes: number, sha256?: string): Promise<UploadCreated> =>
      (await call<UploadCreated>("POST", "/v1/uploads", { bytes, ...(sha256 ? { sha256 } : {}) })).body,

    /** Creates an upload, sends the file and completes the upload. */
    async upload(bytes: Uint8Array<ArrayBuffer>): Promise<Upload> {
      const created = await client.createUpload(bytes.byteLength);
      const { method, url, headers } = created.upload;
      const sent = await send(new URL(url).pathname, { method, headers, body: bytes });
      if (!sent.ok) throw new ApiError(sent.status, (await sent.json()) as ErrorBody);
      return (await call<Upload>("POST", `/v1/uploads/${created.id}/complete`)).body;
    },

    start: (body: TranscriptionCreate, idempotencyKey?: string) =>
      call<Transcription>(
        "POST",
        "/v1/transcriptions",
        body,
        idempotencyKey === undefined ? {} : { "idempotency-key": idempotencyKey },
      ),

    get: async (id: string) => (await call<Transcription>("GET", `/v1/transcriptions/${id}`)).body,
    list: async (query = "") => (await call<TranscriptionList>("GET", `/v1/transcriptions${query}`)).body,
    result: async (id: string) =>
      (await call<TranscriptionResult>("GET", `/v1/transcriptions/${id}/result`)).body,
    cancel: async (id: string) => (await call<Transcription>("POST", `/v1/transcriptions/${id}/cancel`)).body,
    remove: async (id: string) => (await call<Transcription>("DELETE", `/v1/transcriptions/${id}`)).body,
    usage: async (query = "") => (await call<Usage>("GET", `/v1/usage${query}`)).body,

    /** Calls the synchronous endpoint. */
    async transcribe(
      file: Uint8Array<ArrayBuffer>,
      fields: FormFields,
      headers: Record<string, string> = {},
    ): Promise<TranscriptionResult> {
      const response = await send("/v1/audio/transcriptions", {
        method: "POST",
        headers,
        body: audioForm(file, fields),
      });
      return readBody<TranscriptionResult>(response);
    },

    /** Polls until a transcription has ended. */
    async finished(id: string): Promise<Transcription> {
      const deadline = Date.now() + 10_000;
      for (;;) {
        const transcription = await client.get(id);
        if (FINAL.has(transcription.state)) return transcription;
        if (Date.now() > deadline) throw new Error(`${id} is still ${transcription.state}`);
        await Bun.sleep(2);
      }
    },
  };
  return client;
}

export type ApiClient = ReturnType<typeof apiClient>;

export function audioForm(file: Uint8Array<ArrayBuffer> | undefined, fields: FormFields): FormData {
  const form = new FormData();
  if (file) form.append("file", new File([file], "audio.wav", { type: "audio/wav" }));
  for (const [name, value] of Object.entries(fields)) form.append(name, value);
  return form;
}

async function readBody<T>(response: Response): Promise<T> {
  const body = await response.json();
  if (!response.ok) throw new ApiError(response.status, body as ErrorBody);
  return body as T;
}
