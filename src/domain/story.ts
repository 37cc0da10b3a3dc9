import type { PunctuationHashes, SpeakerWeightHashes } from "./model.ts";
import type { DoubtfulText, GapReason } from "./result.ts";

/** A move to another state: when, in epoch milliseconds, and to which state. */
export type Moved<State extends string> = [atMs: number, state: State];

/** A chunk of which at least one attempt failed. */
export type TroubledChunk = {
  channel: number;
  startMs: number;
  endMs: number;
  /** Attempts that failed, and those of them that ended the worker process. */
  failures: number;
  crashes: number;
  /** Why it has no text; null: a later attempt succeeded. */
  reason: GapReason | null;
};

/** Counts of a transcription's chunks. */
export type ChunkCounts = {
  chunks: number;
  /** Chunks with an outcome: those that became gaps are among them. */
  ended: number;
  gaps: number;
  failures: number;
  crashes: number;
  /** The first of them. */
  troubled: TroubledChunk[];
};

/** With what a recording was recognized. */
export type RecognitionMeans = {
  /** Such as `cpu`; null: no chunk was recognized in this process. */
  device: string | null;
  /** SHA-256 of the model's weights; of several files that with the role `model`. */
  modelSha256: string;
  /** All files of a model that has several. */
  modelFiles?: { name: string; sha256: string }[];
  /** The engine has compared the hashes with the bytes that it loaded. Older versions left it out, and took the manifest's. */
  isHashedAtLoad?: boolean;
  /** Hashes of installed weights that distinguished the speakers. */
  speakerWeights?: SpeakerWeightHashes;
  /** Hashes of the model that added punctuation. */
  punctuation?: PunctuationHashes;
  /** Names the code for this machine's processor, such as `haswell`; left out in rows of older versions. */
  cpuVariant?: string | null;
  /** Version of the executable. */
  executable: string;
  /** The commit it was built from, with `-dirty` where files differed; null: not known; left out by older versions. */
  commit?: string | null;
  /** What else decides about the words: `engine.precision` and the model's own settings. */
  precision: string;
  decoding: Readonly<Record<string, unknown>>;
  /** `engine.doubtful_text` when the recognition began or was continued; left out in rows of older versions. */
  doubtfulText?: DoubtfulText;
};

/** How a transcription was recognized. It stays when the chunks are removed. */
export type TranscriptionWork = ChunkCounts & { means: RecognitionMeans | null };
