import { type Static, type TObject, type TString, Type } from "@sinclair/typebox";
import { AppError } from "../../domain/errors.ts";
import { isFinal, MODES, TIMESTAMPS } from "../../domain/transcription.ts";
import {
  Diarization,
  Metadata,
  oneOf,
  type Transcription,
  type TranscriptionList,
  type Upload,
  type UploadCreated,
} from "../wire/schemas.ts";
import type { Api } from "./api.ts";

/** What assistants can do (docs/clients/mcp.md). Each tool is some requests of the API. */

/** What a call of a tool has beside its arguments. */
export type ToolCall = {
  api: Api;
  /** Aborts when the answer is not awaited any more. */
  signal: AbortSignal;
  /** Says how far the work is, 0 to 1. */
  onProgress: (share: number) => Promise<void>;
};

/** A tool, with the shape of its arguments. */
export type Tool = {
  name: string;
  title: string;
  description: string;
  input: TObject;
  /** It changes nothing. */
  isReading: boolean;
  /** @returns what the assistant reads; an object is written as JSON */
  run: (args: never, call: ToolCall) => Promise<object | string>;
};

/** The argument by which a transport gets recordings, beside uploads. */
export type RecordingSource = {
  name: string;
  schema: TString;
  /** Says in the tool's description what the argument is. */
  description: string;
  /** @throws AppError for a recording that cannot be had */
  open: (text: string) => Promise<Blob>;
};

const MAX_WAIT_SECONDS = 300;
/** Clients give up after a minute where their program sets no other time. */
const WAIT_SECONDS = 45;
const MAX_CHARACTERS = 100_000;
const CHARACTERS = 20_000;
/** Transcripts that one call of a search reads. */
const SEARCHED = 25;
const AROUND = 80;

const transcriptionId = Type.String({ minLength: 1, maxLength: 64, description: "ID, such as tr_01…" });
const characters = Type.Optional(
  Type.Integer({
    minimum: 1,
    maximum: MAX_CHARACTERS,
    description: `Longest text, characters; left out: ${CHARACTERS}.`,
  }),
);
const metadata = Type.Optional(
  Type.Record(Type.String(), Type.String(), {
    description: `Such as {"agent": "12"}; only where the server has metadata switched on.`,
  }),
);
const after = Type.Optional(
  Type.String({ minLength: 1, maxLength: 64, description: "`next` of the page before." }),
);

const closed = <T extends TObject["properties"]>(properties: T) =>
  Type.Object(properties, { additionalProperties: false });

/** Returns the tools for a transport. */
export function toolsFor(source: RecordingSource): Tool[] {
  return [transcribeTool(source), LIST, READ, SEARCH, MODELS];
}

const TRANSCRIBE_FIELDS = {
  upload_id: Type.Optional(
    Type.String({ minLength: 1, maxLength: 64, description: "A complete upload of the project." }),
  ),
  language: Type.String({
    minLength: 1,
    maxLength: 35,
    description: "Code, such as hi; `list_models` names all.",
  }),
  mode: Type.Optional(oneOf(MODES, { description: "`codemix` writes English words in Latin letters." })),
  timestamps: Type.Optional(oneOf(TIMESTAMPS)),
  diarization: Type.Optional(Diarization),
  model: Type.Optional(Type.String({ minLength: 1, maxLength: 128 })),
  metadata: Type.Optional(Metadata),
  wait_seconds: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: MAX_WAIT_SECONDS,
      description: `How long to wait for the transcript; left out: ${WAIT_SECONDS}. After that \`read_transcription\` has it.`,
    }),
  ),
};
const TRANSCRIBE_INPUT = closed(TRANSCRIBE_FIELDS);

function transcribeTool(source: RecordingSource): Tool {
  return {
    name: "transcribe",
    title: "Transcribe a recording",
    description: `Turns speech into text. It is charged as any transcription of this key. The recording is ${source.description}, or \`upload_id\`.`,
    input: closed({ [source.name]: Type.Optional(source.schema), ...TRANSCRIBE_FIELDS }),
    isReading: false,
    async run(args: Static<typeof TRANSCRIBE_INPUT> & Record<string, unknown>, call) {
      const { upload_id, wait_seconds = WAIT_SECONDS } = args;
      const given = args[source.name];
      if ((typeof given === "string") === (upload_id !== undefined)) {
        const message = `Give the recording once: ${source.name} or upload_id.`;
        throw new AppError("invalid_request", { message });
      }
      const id = upload_id ?? (await upload(call, await source.open(String(given))));
      const own = ["language", "mode", "timestamps", "diarization", "model", "metadata"] as const;
      const fields = own.flatMap((name) => (args[name] === undefined ? [] : [[name, args[name]]]));
      const body = { audio: { upload_id: id }, ...Object.fromEntries(fields) };
      const begun = await call.api.post<Transcription>("/v1/transcriptions", body);
      return described(await ended(call, begun, wait_seconds), call.api, 0, CHARACTERS);
    },
  };
}

/** Sends a recording, and waits until it has been verified. Returns the upload's ID. */
async function upload(call: ToolCall, recording: Blob): Promise<string> {
  const { api } = call;
  if (recording.size === 0) throw new AppError("audio_decode_failed", { message: "The recording is empty." });
  const { id, upload: target } = await api.post<UploadCreated>("/v1/uploads", { bytes: recording.size });
  await api.put(target.url, target.headers, recording);
  let found = await api.post<Upload>(`/v1/uploads/${id}/complete`, {});
  while (found.state === "verifying") {
    await pause(1, call.signal);
    found = await api.get<Upload>(`/v1/uploads/${id}`);
  }
  if (found.state !== "complete") {
    const { code = "upload_rejected", message } = found.error ?? {};
    throw new AppError(code, message === undefined ? {} : { message });
  }
  return id;
}

async function ended(call: ToolCall, begun: Transcription, seconds: number): Promise<Transcription> {
  const until = performance.now() + seconds * 1000;
  let found = begun;
  // Clients may drop a notification that comes together with the answer, which the only other one may do.
  await call.onProgress(found.progress ?? 0);
  for (let wait = 0.25; !isFinal(found.state); wait = Math.min(3, wait * 1.5)) {
    const left = (until - performance.now()) / 1000;
    if (left <= 0) break;
    await pause(Math.min(wait, left), call.signal);
    found = await call.api.get<Transcription>(`/v1/transcriptions/${found.id}`);
    await call.onProgress(found.progress ?? 0);
  }
  return found;
}

/** @throws the signal's reason when it aborts meanwhile */
async function pause(seconds: number, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  await Bun.sleep(seconds * 1000);
  signal.throwIfAborted();
}

const hasText = ({ state, content_deleted_at }: Transcription) =>
  (state === "completed" || state === "partial") && content_deleted_at === undefined;

const textOf = (api: Api, id: string) => api.text(`/v1/transcriptions/${id}/result?format=text`);

/** A transcription with a part of its text, and where the next part begins. */
async function described(found: Transcription, api: Api, offset: number, length: number): Promise<object> {
  if (!hasText(found)) return found;
  const text = await textOf(api, found.id);
  const end = offset + length;
  return {
    ...found,
    text: text.slice(offset, end),
    ...(end < text.length ? { next_offset: end, characters: text.length } : {}),
  };
}

const READ_INPUT = closed({
  transcription_id: transcriptionId,
  format: Type.Optional(
    oneOf(["text", "srt", "vtt", "json"], { description: "`json`: segments with times. Left out: text." }),
  ),
  offset: Type.Optional(
    Type.Integer({ minimum: 0, description: "First character; `next_offset` of the part before." }),
  ),
  max_characters: characters,
});
const READ: Tool = {
  name: "read_transcription",
  title: "Read a transcription",
  description: "Its state, and its text where there is one. A long text is read in parts.",
  input: READ_INPUT,
  isReading: true,
  async run(args: Static<typeof READ_INPUT>, { api }) {
    const { transcription_id: id, format = "text", offset = 0, max_characters: length = CHARACTERS } = args;
    const found = await api.get<Transcription>(`/v1/transcriptions/${encodeURIComponent(id)}`);
    if (format === "text" || !hasText(found)) return described(found, api, offset, length);
    const text = await api.text(`/v1/transcriptions/${found.id}/result?format=${format}`);
    const end = offset + length;
    const part = text.slice(offset, end);
    return end < text.length ? { text: part, next_offset: end, characters: text.length } : part;
  },
};

const LIST_INPUT = closed({
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 100, description: "Left out: 20." })),
  state: Type.Optional(Type.String({ minLength: 1, description: "States, such as completed,partial." })),
  metadata,
  after,
});
const LIST: Tool = {
  name: "list_transcriptions",
  title: "List transcriptions",
  description: "Those of the project, newest first, without their text.",
  input: LIST_INPUT,
  isReading: true,
  run: ({ limit = 20, ...filter }: Static<typeof LIST_INPUT>, { api }) =>
    api.get<TranscriptionList>(listPath(limit, filter)),
};

type Filter = { state?: string; metadata?: Record<string, string>; after?: string };

function listPath(limit: number, { state, metadata, after }: Filter): string {
  const query = new URLSearchParams({ limit: String(limit) });
  if (state !== undefined) query.set("state", state);
  if (after !== undefined) query.set("after", after);
  for (const [name, value] of Object.entries(metadata ?? {})) query.set(`metadata[${name}]`, value);
  return `/v1/transcriptions?${query}`;
}

const SEARCH_INPUT = closed({
  query: Type.String({
    minLength: 1,
    maxLength: 200,
    description: "Words as they are written in the transcript.",
  }),
  metadata,
  after,
});
const SEARCH: Tool = {
  name: "search_transcriptions",
  title: "Search transcripts",
  description: `Looks for words in the texts of the project, newest first, whatever their case is. A call reads ${SEARCHED} transcripts; \`next\` leads to older ones.`,
  input: SEARCH_INPUT,
  isReading: true,
  async run({ query, ...filter }: Static<typeof SEARCH_INPUT>, { api, signal }) {
    const { data, next } = await api.get<TranscriptionList>(
      listPath(SEARCHED, { ...filter, state: "completed,partial" }),
    );
    const wanted = folded(query);
    const matches: object[] = [];
    const readable = data.filter(hasText);
    for (const { id, created_at, metadata } of readable) {
      signal.throwIfAborted();
      const text = folded(await textOf(api, id));
      const at = text.indexOf(wanted);
      if (at < 0) continue;
      const around = text.slice(Math.max(0, at - AROUND), at + wanted.length + AROUND);
      matches.push({ id, created_at, ...(metadata ? { metadata } : {}), around });
    }
    return { matches, searched: readable.length, next };
  },
};

/** Texts that readers take for the same are the same afterwards. */
const folded = (text: string) => text.normalize("NFC").toLowerCase().replaceAll(/\s+/g, " ");

const MODELS: Tool = {
  name: "list_models",
  title: "List models and languages",
  description: "What the server can transcribe.",
  input: closed({}),
  isReading: true,
  run: (_: object, { api }) => api.get<object>("/v1/models"),
};
