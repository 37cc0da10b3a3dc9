import { type Installation, type RunningServer, reached } from "../../e2e/kit.ts";
import { makeWav } from "../makers/audio-makers.ts";

/** Keys, identifiers and tokens of every kind, from which nearly valid requests are made. */
export type FuzzWorld = {
  /** Keys, named by their special property. */
  keys: Record<string, string>;
  transcriptions: string[];
  uploads: string[];
  endpoints: string[];
  /** Uploads that can be written, with their tokens and sizes. */
  open: { id: string; token: string; bytes: number }[];
  /** Operations of the document, except those that remove something, with examples of their JSON bodies. */
  operations: { method: string; path: string; example?: Record<string, unknown> }[];
  model: string;
  recording: Uint8Array<ArrayBuffer>;
  host: string;
  /** Transcriptions that never end by themselves. */
  unfinished: number;
};

/** Number of uploads that stay open. It is high, so that two requests seldom use the same one. */
const OPEN_UPLOADS = 200;

/** Fills an installation with one resource of each kind. Recordings are short and silent, so that they cost little work. */
export async function openFuzzWorld(installation: Installation, server: RunningServer): Promise<FuzzWorld> {
  const api = server.api();
  const recording = silent();
  const first = await api.upload(recording);
  const second = await api.upload(recording);
  const third = await api.upload(recording);
  const allocated = await api.createUpload(recording.length);
  const rejected = await api.upload(new Uint8Array(500)).catch(() => undefined);
  const endpoint = await api.call<{ id: string }>("POST", "/v1/webhook_endpoints", {
    url: "https://127.0.0.1:9/hook",
  });
  const start = async (uploadId: string) =>
    (await api.start({ audio: { upload_id: uploadId }, language: "en" })).body.id;
  const completed = await start(first.id);
  const deleted = await start(third.id);
  await reached(api, completed);
  await reached(api, deleted);
  await api.remove(deleted);
  const cancelled = await start(second.id);
  await api.cancel(cancelled);
  const { keys, foreign } = await openKeys(installation, server, recording);
  const open: FuzzWorld["open"] = [];
  for (let number = 0; number < OPEN_UPLOADS; number++) {
    const created = await api.createUpload(recording.length);
    const token = (created.upload.headers.authorization ?? "").replace("Bearer ", "");
    open.push({ id: created.id, token, bytes: recording.length });
  }
  const models = await api.call<{ data: { id: string }[] }>("GET", "/v1/models");
  return {
    keys: { ...keys, right: installation.key },
    transcriptions: [completed, deleted, cancelled, foreign.transcription],
    uploads: [
      first.id,
      second.id,
      third.id,
      allocated.id,
      ...(rejected ? [rejected.id] : []),
      foreign.upload,
    ],
    endpoints: [endpoint.body.id],
    open,
    operations: operationsOf((await api.call<Document>("GET", "/openapi.json")).body),
    model: models.body.data[0]?.id ?? "demo",
    recording,
    host: new URL(server.baseUrl).host,
    unfinished: 0,
  };
}

async function openKeys(
  installation: Installation,
  server: RunningServer,
  recording: Uint8Array<ArrayBuffer>,
) {
  const organization = async (name: string, ...settings: string[]) => {
    const { id } = await installation.json<{ id: string }>("orgs", "create", name, ...settings);
    const project = await installation.json<{ id: string }>("projects", "create", "main", "--org", id);
    return { id, projectId: project.id };
  };
  const newKey = async (projectId: string, ...options: string[]) =>
    installation.json<{ id: string; key: string }>(
      "keys",
      "create",
      "--project",
      projectId,
      "--name",
      "fuzz",
      ...options,
    );
  const [poor, limited, disabled, other] = [
    await organization("poor"),
    await organization("limited", "--requests-per-second", "1"),
    await organization("disabled"),
    await organization("other"),
  ];
  await installation.output("credit", "grant", "--org", other.id, "--paise", "1000");
  await installation.output("credit", "grant", "--org", limited.id, "--paise", "1000");
  const sibling = await installation.json<{ id: string }>(
    ...["projects", "create", "sibling", "--org", installation.organizationId],
  );
  const revoked = await newKey(installation.projectId);
  await installation.output("keys", "revoke", revoked.id);
  const keys = {
    poor: (await newKey(poor.projectId)).key,
    limited: (await newKey(limited.projectId)).key,
    disabled: (await newKey(disabled.projectId)).key,
    other: (await newKey(other.projectId)).key,
    sibling: (await newKey(sibling.id)).key,
    reader: (await newKey(installation.projectId, "--scopes", "transcriptions:read,models:read")).key,
    uploader: (await newKey(installation.projectId, "--scopes", "uploads:write")).key,
    revoked: revoked.key,
  };
  await installation.output("orgs", "disable", disabled.id);
  // The server notices changes from outside within a second.
  await Bun.sleep(1_500);
  const foreignApi = server.api(keys.other);
  const upload = await foreignApi.upload(recording);
  const { body } = await foreignApi.start({ audio: { upload_id: upload.id }, language: "en" });
  await reached(foreignApi, body.id);
  return { keys, foreign: { upload: upload.id, transcription: body.id } };
}

type Example = { value?: Record<string, unknown> };
type Media = { example?: Record<string, unknown>; examples?: Record<string, Example> };
type Operation = { operationId?: string; requestBody?: { content?: Record<string, Media> } };
export type Document = { paths: Record<string, Record<string, Operation>> };

/** Lists what the OpenAPI document describes. What removes something has makers that know what may go. */
export function operationsOf({ paths }: Document): FuzzWorld["operations"] {
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods)
      .filter(([method, { operationId }]) => operationId !== undefined && method !== "delete")
      .map(([method, { requestBody }]) => {
        const media = requestBody?.content?.["application/json"];
        const example = media && (media.example ?? Object.values(media.examples ?? {})[0]?.value ?? {});
        return { method: method.toUpperCase(), path, ...(example ? { example } : {}) };
      }),
  );
}

/** Makes a fifth of a second of silence. */
function silent(): Uint8Array<ArrayBuffer> {
  const wav = makeWav({ seconds: 0.2, rateHz: 8000 });
  return wav.fill(0, 44);
}
