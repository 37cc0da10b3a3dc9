import { AppError } from "../../domain/errors.ts";
import { toSeconds, toTimestamp } from "../../lib/time.ts";
import type { PlayableAudio } from "../../services/listening/listening.ts";
import type { TranscriptionRow } from "../../store/transcriptions.ts";
import { contextOf } from "../context.ts";
import type { HttpDeps } from "../deps.ts";
import { defineKeyedRoutes, operation } from "../route.ts";
import { type ByteRange, namesTag, readRange } from "../wire/byte-range.ts";
import { errorResponse } from "../wire/errors.ts";
import { AudioLink, AudioQuery, Waveform } from "../wire/schemas.ts";
import { BYTES_PER_SAMPLE, WAV_HEAD_BYTES, wavHead } from "../wire/wav-head.ts";

const SAMPLES_PER_SECOND = 16_000;
/** Most of a 206, and what is decoded at once: 32 s of one channel. */
const PORTION_BYTES = 1024 * 1024;

const SHARED = { tag: "Transcriptions", scope: "transcriptions:read" } as const;

const AUDIO = operation({
  ...SHARED,
  id: "getTranscriptionAudio",
  summary: "Listen to the recording",
  description:
    "The recording as WAV: 16 kHz and 16 bit, one channel, or with channel mode `separate` all of them. `Range` with one range is answered by at most 1 MiB. Players that cannot send a key use the address of an audio link.",
  query: AudioQuery,
  errors: ["not_found", "content_deleted", "audio_decode_failed"],
  responses: {
    200: "The whole recording.",
    206: "The part that `Content-Range` names: the range, or its beginning.",
    304: "It has the tag of `If-None-Match`.",
  },
  alternatives: { "audio/wav": "The recording." },
  refusals: { 416: "`invalid_request`: the range begins behind the end, which `Content-Range` names." },
});

const LINK = operation({
  ...SHARED,
  id: "createAudioLink",
  summary: "Make an address for a player",
  description: "The address opens the audio without the key for four hours, unless the key ends before.",
  errors: ["not_found", "content_deleted"],
  responses: { 201: "The address." },
});

const WAVEFORM = operation({
  ...SHARED,
  id: "getTranscriptionWaveform",
  summary: "Get the shape of the sound",
  description: "Peaks for a picture of the recording, and where speech was found.",
  errors: ["not_found", "content_deleted", "audio_decode_failed"],
  responses: { 200: "The waveform." },
});

/** Listening to recordings (docs/console.md section 2); callers need the scope `transcriptions:read`. */
export function listeningRoutes(deps: HttpDeps) {
  const { listening, stopping } = deps;
  return defineKeyedRoutes("listening")
    .get(
      "/v1/transcriptions/:transcription_id/audio",
      ({ caller, request, params }) => {
        const audio = listening.audio(caller, params.transcription_id);
        waitLong(request);
        return audioResponse(deps, request, audio);
      },
      AUDIO,
    )
    .post(
      "/v1/transcriptions/:transcription_id/audio_links",
      ({ caller, params, status }) => {
        const { id } = listening.audio(caller, params.transcription_id).transcription;
        const { link, expiresAt } = listening.create(caller, id);
        const url = `${deps.baseUrl()}/v1/transcriptions/${id}/audio?link=${link}`;
        return status(201, {
          ...{ id, object: "transcription.audio_link" as const, url },
          expires_at: toTimestamp(expiresAt),
        });
      },
      { response: { 201: AudioLink }, ...LINK },
    )
    .get(
      "/v1/transcriptions/:transcription_id/waveform",
      async ({ caller, request, params }): Promise<Waveform> => {
        waitLong(request);
        const either = AbortSignal.any([request.signal, stopping]);
        return toWaveform(await listening.waveform(caller, params.transcription_id, either));
      },
      { response: { 200: Waveform }, ...WAVEFORM },
    );
}

/** Keeps the connection while a long recording is decoded; after the answer the usual time holds again. */
function waitLong(request: Request): void {
  contextOf(request).server?.timeout(request, 0);
}

function toWaveform(found: {
  transcription: TranscriptionRow;
  peakSamples: number;
  lanes: Uint8Array[];
  speech: [number, number][][] | null;
}): Waveform {
  const { transcription, speech } = found;
  const isSeparate = transcription.channelMode === "separate";
  return {
    id: transcription.id,
    object: "transcription.waveform",
    duration_seconds: toSeconds(transcription.durationMs),
    seconds_per_peak: found.peakSamples / SAMPLES_PER_SECOND,
    lanes: found.lanes.map((peaks, lane) => ({
      ...(isSeparate ? { channel: lane } : {}),
      peaks: Buffer.from(peaks).toString("base64"),
      speech: speech && (speech[lane] ?? []).map(([start, end]) => [toSeconds(start), toSeconds(end)]),
    })),
  };
}

/** Answers with the file, or with the part of it that the request asks for. */
async function audioResponse(deps: HttpDeps, request: Request, audio: PlayableAudio): Promise<Response> {
  const total = WAV_HEAD_BYTES + audio.samples * audio.lanes * BYTES_PER_SAMPLE;
  const tag = `"${audio.transcription.id}.${audio.samples}.${audio.lanes}"`;
  const headers = { "content-type": "audio/wav", "accept-ranges": "bytes", etag: tag };
  if (namesTag(request.headers.get("if-none-match"), tag)) {
    return new Response(null, { status: 304, headers: { etag: tag } });
  }
  if (request.method === "HEAD") {
    // Elysia replaces the length of an answer to HEAD by that of its body.
    contextOf(request).responseFields["content-length"] = String(total);
    return new Response(null, { headers });
  }
  const isSame = !request.headers.has("if-range") || namesTag(request.headers.get("if-range"), tag);
  const range = isSame ? readRange(request.headers.get("range"), total) : undefined;
  if (range === undefined) return new Response(wholeFile(deps, request, audio, total), { headers });
  if (range === "unsatisfiable") return unsatisfiable(total);
  const to = Math.min(range.to, range.from + PORTION_BYTES - 1);
  const either = AbortSignal.any([request.signal, deps.stopping]);
  const bytes = await readBytes(deps, audio, { from: range.from, to }, either);
  return new Response(bytes, {
    status: 206,
    headers: { ...headers, "content-range": `bytes ${range.from}-${to}/${total}` },
  });
}

/** The status that RFC 9110 section 15.5.17 asks for; no code has it. */
function unsatisfiable(total: number): Response {
  const refusal = errorResponse(
    new AppError("invalid_request", { detail: "range", message: "The range begins behind the end." }),
  );
  const headers = new Headers(refusal.headers);
  headers.set("content-range", `bytes */${total}`);
  return new Response(refusal.body, { status: 416, headers });
}

/** Decodes the bytes of a range of the file, which may begin and end within a sample. */
async function readBytes(
  { listening }: HttpDeps,
  audio: PlayableAudio,
  { from, to }: ByteRange,
  signal: AbortSignal,
): Promise<Uint8Array<ArrayBuffer>> {
  const block = audio.lanes * BYTES_PER_SAMPLE;
  const bytes = new Uint8Array(to - from + 1);
  const head = wavHead(audio.lanes, audio.samples).subarray(from, to + 1);
  bytes.set(head);
  if (head.length === bytes.length) return bytes;
  const soundFrom = Math.max(from, WAV_HEAD_BYTES) - WAV_HEAD_BYTES;
  const fromSample = Math.floor(soundFrom / block);
  const toSample = Math.floor((to - WAV_HEAD_BYTES) / block);
  const sound = await listening.read(audio, { fromSample, samples: toSample - fromSample + 1 }, signal);
  const skipped = soundFrom - fromSample * block;
  bytes.set(sound.subarray(skipped, skipped + bytes.length - head.length), head.length);
  return bytes;
}

/** The whole file. A portion is decoded when the client has taken the one before: a slow client holds no decoder. */
function wholeFile(
  deps: HttpDeps,
  request: Request,
  audio: PlayableAudio,
  total: number,
): ReadableStream<Uint8Array> {
  const gone = new AbortController();
  const signal = AbortSignal.any([request.signal, deps.stopping, gone.signal]);
  let from = 0;
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const to = Math.min(total, from + PORTION_BYTES) - 1;
        controller.enqueue(await readBytes(deps, audio, { from, to }, signal));
        from = to + 1;
        if (from === total) controller.close();
      },
      cancel: () => gone.abort(new Error("the client is gone")),
    },
    { highWaterMark: 0 },
  );
}
