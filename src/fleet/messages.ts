import { type Static, type TSchema, Type } from "@sinclair/typebox";
import { Value } from "@sinclair/typebox/value";
import { RAW_CHANNELS, RAW_DEMUXERS, RAW_RATE_HZ } from "../domain/raw-formats.ts";
import { printable } from "../lib/printable.ts";
import { nestsDeeperThan } from "../lib/strict-json.ts";
import { NAME_PATTERN } from "./subjects.ts";

/**
 * The messages between control plane and workers. Both sides check each message when it arrives. Fields may be added
 * within a version: receivers ignore fields that they do not know. A change that older programs cannot ignore raises
 * `PROTOCOL`; the version before it is still understood, so that workers can be upgraded one by one. The control plane is
 * upgraded first: it writes the version that its oldest worker understands (`Registry.protocol`).
 */
export const PROTOCOL = 1;
const OLDEST_PROTOCOL = 1;

/** Largest ticket, and largest of all other messages. */
const MAX_TICKET_BYTES = 8 * 1024;
const MAX_MESSAGE_BYTES = 256 * 1024;
const MAX_DEPTH = 32;
/** Many times what a chunk may cost. */
const MAX_EFFORT = 1_000;
/** A window of 30 s has some dozens of segments. */
const MAX_SEGMENTS = 2_000;
/** More languages than any model has. */
const MAX_SPOKEN_LANGUAGES = 200;
const MAX_TEXT = 4_000;
/** As many as a text of that length can have. */
const MAX_WORDS = MAX_TEXT / 2;
const MAX_REASON = 500;
/** Jobs that one worker can name: places and results that wait. */
const MAX_JOBS = 4_096;
const MAX_MODELS = 100;
export const MAX_LACKING = 20;
/** Above that of any machine, as a multiple of real time. */
const MAX_SPEED = 1_000_000;

const version = Type.Integer({ minimum: OLDEST_PROTOCOL, maximum: PROTOCOL });
const jobId = Type.String({ pattern: "^[0-9a-f]{32}$" });
const sha256 = Type.String({ pattern: "^[0-9a-f]{64}$" });
const name = Type.String({ pattern: NAME_PATTERN.source });
const short = Type.String({ maxLength: 200 });
const reason = Type.String({ maxLength: MAX_REASON });
const milliseconds = Type.Number({ minimum: 0, maximum: 1e12 });

const modelSchema = Type.Object({
  sha256,
  id: short,
  version: short,
  family: Type.String({ pattern: "^[a-z0-9_]{1,64}$" }),
});

/** Asks for the recognition of one chunk. The audio is fetched from `audio.url`. */
const ticketSchema = Type.Object({
  v: version,
  job: jobId,
  /** Names this try. A failure counts only for the try that it names. */
  attempt: Type.String({ pattern: "^[0-9a-f]{16}$" }),
  /** Shows with a result that the worker has received a ticket of the job. */
  proof: Type.String({ minLength: 20, maxLength: 100 }),
  model: modelSchema,
  window_ms: Type.Integer({ minimum: 1, maximum: 3_600_000 }),
  settings: Type.Object({ language: short }, { additionalProperties: true }),
  samples: Type.Integer({ minimum: 1, maximum: 16_000 * 3_600 }),
  audio: Type.Object({
    url: Type.String({ maxLength: 500, pattern: "^https://" }),
    token: Type.String({ maxLength: 200 }),
  }),
  /** No other chunk may run on the machine meanwhile. */
  alone: Type.Boolean(),
});
export type Ticket = Static<typeof ticketSchema>;

/** A place of the control plane at which files are fetched or brought. */
const remoteSchema = Type.Object({
  url: Type.String({ maxLength: 500, pattern: "^https://" }),
  token: Type.String({ maxLength: 200 }),
});

/** Times in a recording travel as numbers of 32 bits: 74 hours. */
export const MAX_SAMPLES = 2 ** 32 - 1;
export const MAX_TRACKS = 64;

const track = Type.Integer({ minimum: 0, maximum: MAX_TRACKS });

const readingSchema = Type.Object({
  format: Type.Optional(
    Type.Object({
      demuxer: Type.Union(RAW_DEMUXERS.map((demuxer) => Type.Literal(demuxer))),
      rateHz: Type.Integer({ minimum: RAW_RATE_HZ.min, maximum: RAW_RATE_HZ.max }),
      channels: Type.Integer({ minimum: 1, maximum: RAW_CHANNELS }),
      codeBits: Type.Optional(Type.Integer({ minimum: 2, maximum: 5 })),
    }),
  ),
  track: Type.Optional(track),
  leftOut: Type.Optional(Type.Array(track, { maxItems: MAX_TRACKS })),
  mixed: Type.Optional(Type.Array(track, { minItems: 2, maxItems: MAX_TRACKS })),
});

/** Asks for a recording to be decoded and searched for speech. Workers that do not offer that do not see such tickets. */
const prepareTicketSchema = Type.Object({
  v: version,
  job: jobId,
  attempt: Type.String({ pattern: "^[0-9a-f]{16}$" }),
  proof: Type.String({ minLength: 20, maxLength: 100 }),
  recording: Type.Object({ ...remoteSchema.properties, bytes: Type.Integer({ minimum: 1, maximum: 1e13 }) }),
  /** Where the worker brings what it has made, file by file. */
  prepared: remoteSchema,
  channels: Type.Union([Type.Literal("mix"), Type.Literal("separate")]),
  /** How the file is read; left out: the decoder finds it. Only a control plane of this version sends such tickets. */
  reading: Type.Optional(readingSchema),
  max_duration_ms: milliseconds,
  /** What verification has found. */
  expected: Type.Object({
    samples: Type.Integer({ minimum: 0, maximum: MAX_SAMPLES }),
    tracks: Type.Integer({ minimum: 1, maximum: MAX_TRACKS }),
  }),
  /** Limits of the chunks that the speech will be packed into, in samples. */
  limits: Type.Object({
    max_samples: Type.Integer({ minimum: 1, maximum: MAX_SAMPLES }),
    gap_samples: Type.Integer({ minimum: 0, maximum: MAX_SAMPLES }),
  }),
  alone: Type.Boolean(),
});
export type PrepareTicket = Static<typeof prepareTicketSchema>;

const level = Type.Number({ minimum: -1_000, maximum: 1_000 });

/** What a worker has found in a recording beside the files that it has brought. */
const preparedSchema = Type.Object({
  /** Samples of each track. */
  samples: Type.Integer({ minimum: 0, maximum: MAX_SAMPLES }),
  /** Channels of the recording, also when they were mixed. */
  channels: Type.Integer({ minimum: 1, maximum: 1_024 }),
  measurements: Type.Object({
    truncated: Type.Boolean(),
    clippedRatio: Type.Number({ minimum: 0, maximum: 1 }),
    peakDb: level,
    rmsDb: level,
    highFrequencyDb: level,
    identicalChannels: Type.Boolean(),
    tracks: Type.Array(Type.Object({ peakDb: level }), { minItems: 1, maxItems: MAX_TRACKS }),
  }),
});
export type Prepared = Static<typeof preparedSchema>;

const wordSchema = Type.Object({
  text: Type.String({ minLength: 1, maxLength: MAX_TEXT, pattern: "^\\S+$" }),
  startMs: Type.Number(),
  endMs: Type.Number(),
  confidence: Type.Number({ minimum: 0, maximum: 1 }),
});

const segmentSchema = Type.Object({
  startMs: Type.Number(),
  endMs: Type.Number(),
  text: Type.String({ maxLength: MAX_TEXT }),
  language: short,
  confidence: Type.Number({ minimum: 0, maximum: 1 }),
  noSpeechProbability: Type.Optional(Type.Number({ minimum: 0, maximum: 1 })),
  spokenLanguages: Type.Optional(
    Type.Array(Type.Object({ language: short, probability: Type.Number({ minimum: 0, maximum: 1 }) }), {
      maxItems: MAX_SPOKEN_LANGUAGES,
    }),
  ),
  isCut: Type.Optional(Type.Boolean()),
  words: Type.Optional(Type.Array(wordSchema, { maxItems: MAX_WORDS })),
});

/** Ways in which a worker can fail at a job. `elsewhere`: the job is not the cause, another worker may do it. */
export const FAILURES = ["crashed", "hung", "failed", "unusable_model", "elsewhere"] as const;
const failureKind = Type.Union(FAILURES.map((kind) => Type.Literal(kind)));

/** Reports a result or a failure. The worker repeats it until it has a reply. */
const doneSchema = Type.Object({
  v: version,
  job: jobId,
  attempt: Type.String({ pattern: "^[0-9a-f]{16}$" }),
  proof: Type.String({ minLength: 20, maxLength: 100 }),
  outcome: Type.Optional(
    Type.Object({
      segments: Type.Array(segmentSchema, { maxItems: MAX_SEGMENTS }),
      elapsed_ms: milliseconds,
      /** As `Recognition` of domain/recognition.ts has it. */
      effort: Type.Optional(Type.Number({ minimum: 0, maximum: MAX_EFFORT })),
    }),
  ),
  /** The outcome of a job that asks for a recording to be prepared. */
  prepared: Type.Optional(preparedSchema),
  failed: Type.Optional(
    Type.Object({
      kind: failureKind,
      reason,
      /** The process ended with several chunks whose steps were made together: each is repeated alone. */
      suspect: Type.Optional(Type.Boolean()),
    }),
  ),
});
export type Done = Static<typeof doneSchema>;

/** Replies to `Done`. `taken`: the worker need not keep the result. */
const replySchema = Type.Object({
  v: version,
  taken: Type.Boolean(),
  refused: Type.Optional(reason),
});
export type DoneReply = Static<typeof replySchema>;

/** A worker's sign of life, sent each second. */
const beatSchema = Type.Object({
  v: version,
  /** Made at the worker's start, so that a worker that has started again is not taken for the earlier one. */
  instance: Type.String({ pattern: "^[0-9a-f]{16}$" }),
  /** Version of the program. */
  version: short,
  device: short,
  places: Type.Integer({ minimum: 0, maximum: 1_024 }),
  synchronous_places: Type.Integer({ minimum: 0, maximum: 1_024 }),
  models: Type.Array(
    Type.Object({
      sha256,
      id: short,
      usable: Type.Boolean(),
      /** How many of `places` may have chunks of this model at once; absent, as from an older worker: all. */
      places: Type.Optional(Type.Integer({ minimum: 0, maximum: 1_024 })),
    }),
    { maxItems: MAX_MODELS },
  ),
  /** Jobs of both kinds that run, and jobs whose results have not been taken yet. */
  jobs: Type.Array(jobId, { maxItems: MAX_JOBS }),
  /** Absent where the worker does not prepare recordings, such as one of an older version. */
  preparing: Type.Optional(
    Type.Object({
      /** Names the code that does it. Its results count only where the control plane has the same. */
      sha256,
      places: Type.Integer({ minimum: 0, maximum: 1_024 }),
      jobs: Type.Integer({ minimum: 0, maximum: MAX_JOBS }),
    }),
  ),
  draining: Type.Boolean(),
  /** Whether the worker looks for chunks that need a skill; absent: it is too old for them (`skills.ts`). */
  words: Type.Optional(Type.Boolean()),
  translations: Type.Optional(Type.Boolean()),
  /** Why the worker takes no work although it is not draining. */
  problem: Type.Optional(reason),
  /** Recognized audio per time and place, since the start, as a ratio; absent before the first chunk. */
  speed: Type.Optional(Type.Number({ minimum: 0, maximum: MAX_SPEED })),
  /** Models of the control plane that a worker with `fleet.fetch_models` lacks, and why it does. */
  lacking: Type.Optional(Type.Array(Type.Object({ id: short, reason }), { maxItems: MAX_LACKING })),
});
export type Beat = Static<typeof beatSchema>;

const cancelSchema = Type.Object({ v: version, jobs: Type.Array(jobId, { maxItems: MAX_JOBS }) });
export type Cancel = Static<typeof cancelSchema>;

const orderSchema = Type.Object({
  v: version,
  drain: Type.Boolean(),
  /** Whether the worker is to look for chunks that need a skill; absent, as from an older control plane: it is not. */
  words: Type.Optional(Type.Boolean()),
  translations: Type.Optional(Type.Boolean()),
});
export type Order = Static<typeof orderSchema>;

/** A worker's question at its start, and of `shruti doctor`. */
const helloSchema = Type.Object({
  v: version,
  version: short,
  /** The worker fetches models that it lacks. */
  wants_models: Type.Optional(Type.Boolean()),
});
export type Hello = Static<typeof helloSchema>;

/** A model of the control plane. Its files are under `models/SHA256/` of the address for workers. */
const remoteModelSchema = Type.Object({
  /** By which machines find the model: that of its file, or of several files together. */
  sha256,
  id: short,
  files: Type.Array(
    Type.Object({
      name: Type.String({ pattern: "^\\w[\\w.-]{0,127}$" }),
      bytes: Type.Integer({ minimum: 1, maximum: 1e12 }),
    }),
    { minItems: 1, maxItems: 100 },
  ),
  token: Type.String({ maxLength: 200 }),
});
export type RemoteModel = Static<typeof remoteModelSchema>;

const helloReplySchema = Type.Object({
  v: version,
  version: short,
  /** The control plane's clock, milliseconds since 1970. */
  now_ms: Type.Number(),
  /** Where workers fetch audio. */
  base_url: Type.String({ maxLength: 300 }),
  worker: name,
  /** The models that the fleet uses, for workers that want them. An older control plane sends none. */
  models: Type.Optional(Type.Array(remoteModelSchema, { maxItems: MAX_MODELS })),
});
export type HelloReply = Static<typeof helloReplySchema>;

/** A message that cannot be used. The text says why. */
export class MessageError extends Error {}

/** @throws MessageError */
function read<T extends TSchema>(schema: T, data: Uint8Array, maxBytes = MAX_MESSAGE_BYTES): Static<T> {
  if (data.length > maxBytes) throw new MessageError(`a message of ${data.length} bytes`);
  let value: unknown;
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(data);
    if (nestsDeeperThan(MAX_DEPTH, text)) throw new MessageError("a message that nests too deep");
    value = JSON.parse(text);
  } catch (cause) {
    if (cause instanceof MessageError) throw cause;
    throw new MessageError("a message that is not JSON", { cause });
  }
  const found = (value as { v?: unknown } | null)?.v;
  if (typeof found === "number" && (found < OLDEST_PROTOCOL || found > PROTOCOL)) {
    throw new MessageError(
      `a message of protocol ${found}; this program understands ${OLDEST_PROTOCOL} to ${PROTOCOL}`,
    );
  }
  if (Value.Check(schema, value)) return value;
  const [error] = Value.Errors(schema, value);
  throw new MessageError(`a message whose ${error?.path || "form"} is wrong`);
}

/**
 * These read a received message. What a worker says of itself becomes a line that can be shown, whatever is in it.
 *
 * @throws MessageError
 */
export const readTicket = (data: Uint8Array) => read(ticketSchema, data, MAX_TICKET_BYTES);
export const readPrepareTicket = (data: Uint8Array) => read(prepareTicketSchema, data, MAX_TICKET_BYTES);
export function readBeat(data: Uint8Array): Beat {
  const { models, problem, lacking, ...beat } = read(beatSchema, data);
  return {
    ...{ ...beat, version: printable(beat.version), device: printable(beat.device) },
    models: models.map((model) => ({ ...model, id: printable(model.id) })),
    ...(problem === undefined ? {} : { problem: printable(problem) }),
    ...(lacking === undefined
      ? {}
      : { lacking: lacking.map(({ id, reason: why }) => ({ id: printable(id), reason: printable(why) })) }),
  };
}
export const readCancel = (data: Uint8Array) => read(cancelSchema, data);
export const readOrder = (data: Uint8Array) => read(orderSchema, data);
export const readHello = (data: Uint8Array) => read(helloSchema, data);
export const readHelloReply = (data: Uint8Array) => read(helloReplySchema, data);
export const readReply = (data: Uint8Array) => read(replySchema, data);
export function readDone(data: Uint8Array): Done {
  const done = read(doneSchema, data);
  const outcomes = [done.outcome, done.prepared, done.failed].filter((outcome) => outcome !== undefined);
  if (outcomes.length !== 1) {
    throw new MessageError("a report without one outcome");
  }
  const { failed } = done;
  return failed === undefined ? done : { ...done, failed: { ...failed, reason: printable(failed.reason) } };
}

/** Writes a message. @throws MessageError when it is larger than receivers accept */
export function write(
  message: Ticket | PrepareTicket | Done | DoneReply | Beat | Cancel | Order | Hello | HelloReply,
): Uint8Array {
  const data = new TextEncoder().encode(JSON.stringify(message));
  const max = "audio" in message || "recording" in message ? MAX_TICKET_BYTES : MAX_MESSAGE_BYTES;
  if (data.length > max) throw new MessageError(`a message of ${data.length} bytes`);
  return data;
}

/** Shortens a reason to what a message may contain. */
export function briefly(text: string): string {
  return text.slice(0, MAX_REASON);
}

/** Shortens a list of jobs to what a message may contain. */
export function someJobs(jobs: Iterable<string>): string[] {
  return [...jobs].slice(0, MAX_JOBS);
}

/** What a result may not exceed: the milliseconds of the chunk's audio, and those of the model's window. */
export type ResultBounds = { audioMs: number; windowMs: number };

/** Models end segments at the end of their window, which may be later than that of the audio. */
const MAX_BYTES_OF_TEXT = 64 * 1024;
const ROUNDING_MS = 1_000;

/**
 * Says what is wrong with a result that has the right form; undefined: nothing. A worker must not be able to put text
 * outside its chunk.
 */
export function faultOf(
  { segments }: NonNullable<Done["outcome"]>,
  { audioMs, windowMs }: ResultBounds,
): string | undefined {
  const lastMs = Math.max(audioMs, Math.ceil(audioMs / windowMs) * windowMs) + ROUNDING_MS;
  let bytes = 0;
  for (const { startMs, endMs, text, words = [] } of segments) {
    if (!(startMs >= 0 && startMs <= endMs && endMs <= lastMs)) return "times outside the audio";
    bytes += Buffer.byteLength(text);
    let atMs = startMs;
    for (const word of words) {
      if (!(word.startMs >= atMs && word.startMs <= word.endMs && word.endMs <= endMs))
        return "words outside their segment, or out of order";
      atMs = word.endMs;
    }
    const letters = words.reduce((sum, word) => sum + word.text.length, 0);
    if (letters > text.length) return "words that are more than their text";
  }
  return bytes > MAX_BYTES_OF_TEXT ? "too much text" : undefined;
}
