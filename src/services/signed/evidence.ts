import { type Static, Type } from "@sinclair/typebox";
import { Value } from "@sinclair/typebox/value";
import { RAW_DEMUXERS } from "../../domain/raw-formats.ts";
import { DOUBTFUL_TEXT_CHOICES } from "../../domain/result.ts";
import { CHANNEL_MODES, MODES, TIMESTAMPS } from "../../domain/transcription.ts";

/**
 * Evidence says from which recording, and with what, a transcript was made. It has hashes of recording and transcript,
 * but nothing of their content. The request's metadata is in it.
 */

/** What a signed document says is printed on terminals, so it has no control characters. */
const Text = Type.String({ maxLength: 1000, pattern: "^[^\\u0000-\\u001f\\u007f-\\u009f]*$" });
const SourceAddress = Type.String({ maxLength: 4096, pattern: "^[^\\u0000-\\u001f\\u007f-\\u009f]*$" });
const Sha256 = Type.String({ pattern: "^[0-9a-f]{64}$" });
const OrNull = <T extends Parameters<typeof Type.Union>[0][number]>(type: T) =>
  Type.Union([type, Type.Null()]);
const oneOf = <T extends string>(values: readonly T[]) =>
  Type.Union(values.map((value) => Type.Literal(value)));
const Track = Type.Integer({ minimum: 0, maximum: 31 });
const Speakers = Type.Integer({ minimum: 1, maximum: 1000 });

/** How a file was read. */
export const ReadingDocument = Type.Object({
  format: Type.Optional(
    Type.Object({
      demuxer: oneOf(RAW_DEMUXERS),
      rate_hz: Type.Integer(),
      channels: Type.Integer(),
      code_bits: Type.Optional(Type.Integer()),
    }),
  ),
  track: Type.Optional(Track),
  left_out: Type.Optional(Type.Array(Track)),
  mixed: Type.Optional(Type.Array(Track)),
});
export type ReadingDocument = Static<typeof ReadingDocument>;

const EVIDENCE = Type.Object({
  object: Type.Literal("transcription_evidence"),
  format: Type.Literal(1),
  created_at: Text,
  transcription: Type.Object({
    id: Text,
    organization_id: Text,
    project_id: Text,
    state: Text,
    created_at: Text,
    started_at: OrNull(Text),
    finished_at: OrNull(Text),
  }),
  /** The bytes as they were sent. */
  audio: Type.Object({
    upload_id: Text,
    sha256: Sha256,
    bytes: Type.Integer(),
    duration_seconds: Type.Number(),
    channels: Type.Integer(),
    /** How the file was read; absent where it has one track and says itself what it is. */
    reading: Type.Optional(ReadingDocument),
    /** The address from which the server has fetched it, without user and query; absent where it was sent. */
    source: Type.Optional(SourceAddress),
  }),
  model: Type.Object({
    id: Text,
    version: Text,
    sha256: Sha256,
    /** The files of a model that has several. */
    files: Type.Optional(Type.Array(Type.Object({ name: Text, sha256: Sha256 }))),
    /** `loaded`: of the bytes that recognized; `manifest` or left out, by older versions: as the manifest said. */
    hashed: Type.Optional(oneOf(["loaded", "manifest"])),
  }),
  request: Type.Object({
    language: Text,
    /** Left out: the text is in the language that is spoken. */
    task: Type.Optional(oneOf(["translate"])),
    mode: oneOf(MODES),
    timestamps: oneOf(TIMESTAMPS),
    channel_mode: oneOf(CHANNEL_MODES),
    /** Left out: numbers as they were said, and the script of the language. */
    numerals: Type.Optional(oneOf(["written"])),
    script: Type.Optional(Text),
    /** What the client noted of it; left out: nothing. */
    metadata: Type.Optional(Type.Record(Text, Text)),
    diarization: OrNull(Type.Object({ min_speakers: OrNull(Speakers), max_speakers: OrNull(Speakers) })),
  }),
  engine: Type.Object({
    device: OrNull(Text),
    /** The code for the machine's processor, such as `haswell`. */
    cpu_variant: OrNull(Text),
    precision: Text,
    decoding: Type.Record(Type.String(), Type.Unknown()),
    /** Left out by older versions. */
    doubtful_text: Type.Optional(oneOf(DOUBTFUL_TEXT_CHOICES)),
    /** SHA-256 of the nets that distinguished the speakers; left out: the built-in method did. */
    speaker_weights: Type.Optional(Type.Object({ segmentation: Sha256, speaker: Sha256 })),
    /** SHA-256 of the files of the model that added punctuation; left out: none did. */
    punctuation: Type.Optional(Type.Object({ model: Sha256, tokenizer: Sha256, config: Sha256 })),
  }),
  executable: Type.Object({ version: Text, commit: OrNull(Text) }),
  result: Type.Object({
    /** Hash of the result as the API sends it in JSON, in the form of RFC 8785. */
    sha256: Sha256,
    /** Hash of the field `text` of that result, in UTF-8. */
    text_sha256: Sha256,
    /** Says what the two hashes are of, for readers of the document. */
    hashed: Text,
  }),
});

export type Evidence = Static<typeof EVIDENCE>;

/** Reports whether a document is evidence that this version can read. */
export function isEvidence(document: unknown): document is Evidence {
  return Value.Check(EVIDENCE, document);
}
