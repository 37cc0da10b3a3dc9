import { isDeepStrictEqual } from "node:util";
import type { TranscriptionResult } from "../../domain/result.ts";
import { isFinal } from "../../domain/transcription.ts";
import { printable } from "../../lib/printable.ts";
import { sha256Hex } from "../../lib/sha256.ts";
import { toSeconds, toTimestamp } from "../../lib/time.ts";
import { type ResultInfo, resultBody } from "../../pipeline/render.ts";
import type { Evidence } from "../../services/signed/evidence.ts";
import { readingDocument } from "../../services/signed/reading-document.ts";
import { canonicalJson } from "../../services/signed/signed-documents.ts";
import type { Store } from "../../store/database.ts";
import { findFetchOfUpload } from "../../store/fetches.ts";
import { findResult } from "../../store/results.ts";
import { findTranscription, resultInfoOf, type TranscriptionRow } from "../../store/transcriptions.ts";
import { findUpload, readingOf } from "../../store/uploads.ts";
import { CommandError } from "../frame/context.ts";

const HASHED =
  "sha256: the result as the API sends it in JSON, in the form of RFC 8785 (keys sorted, no spaces), UTF-8. text_sha256: its field text, UTF-8.";

/** Readers of evidence refuse longer texts. Those of a fleet were the devices of all its workers. */
const MAX_DEVICE = 1_000;

/**
 * Makes the evidence of a transcription.
 *
 * @throws CommandError `not_found`; `conflict` for one that is unfinished, without a result, deleted, or from a version
 *   that did not keep what evidence needs
 */
export function makeEvidence(store: Store, id: string, nowMs: number): Evidence {
  const row = findTranscription(store, id);
  if (!row) throw new CommandError("not_found", `there is no transcription ${id}`);
  const result = findResult(store, id);
  if (!result) throw new CommandError("conflict", whyNoResult(row));
  const means = row.work?.means;
  const upload = findUpload(store, row.uploadId);
  const sha256 = upload?.storedSha256 ?? upload?.sha256;
  if (!means || !upload || !sha256) {
    const missing = means ? "the hash of its recording" : "with what it was recognized";
    throw new CommandError("conflict", `${id}: ${missing} was not stored, so there is no evidence`);
  }
  const reading = readingOf(upload);
  const source = findFetchOfUpload(store, upload.id)?.source;
  const time = (ms: number | null) => (ms === null ? null : toTimestamp(ms));
  return {
    ...{ object: "transcription_evidence", format: 1, created_at: toTimestamp(nowMs) },
    transcription: {
      ...{ id, organization_id: row.organizationId, project_id: row.projectId, state: row.state },
      created_at: toTimestamp(row.createdAt),
      ...{ started_at: time(row.startedAt), finished_at: time(row.finishedAt) },
    },
    audio: {
      ...{ upload_id: upload.id, sha256, bytes: upload.bytes },
      ...{ duration_seconds: toSeconds(row.durationMs), channels: row.channels },
      ...(isDeepStrictEqual(reading, {}) ? {} : { reading: readingDocument(reading) }),
      ...(source === undefined ? {} : { source }),
    },
    model: {
      ...{ id: row.modelId, version: row.modelVersion, sha256: means.modelSha256 },
      ...(means.modelFiles ? { files: means.modelFiles } : {}),
      hashed: means.isHashedAtLoad ? "loaded" : "manifest",
    },
    request: {
      ...{
        language: row.language,
        ...(row.task === null ? {} : { task: row.task }),
        mode: row.mode,
        timestamps: row.timestamps,
        channel_mode: row.channelMode,
        ...(row.numerals === null ? {} : { numerals: row.numerals }),
        ...(row.script === null ? {} : { script: row.script }),
        ...(row.metadata === null ? {} : { metadata: row.metadata }),
      },
      diarization: row.diarization ? { min_speakers: row.minSpeakers, max_speakers: row.maxSpeakers } : null,
    },
    engine: {
      // Earlier versions stored what the workers of a fleet called their devices, whatever it was.
      device: means.device === null ? null : printable(means.device).slice(0, MAX_DEVICE),
      cpu_variant: means.cpuVariant ?? null,
      ...{ precision: means.precision, decoding: means.decoding },
      ...(means.doubtfulText ? { doubtful_text: means.doubtfulText } : {}),
      ...(means.speakerWeights ? { speaker_weights: means.speakerWeights } : {}),
      ...(means.punctuation ? { punctuation: means.punctuation } : {}),
    },
    executable: { version: means.executable, commit: means.commit ?? null },
    result: {
      ...hashesOf(result, resultInfoOf(row)),
      hashed: HASHED,
    },
  };
}

/** Returns the hashes of a result and of its words alone. */
export function hashesOf(result: TranscriptionResult, info: ResultInfo) {
  return {
    sha256: sha256Hex(canonicalJson(resultBody(info, result))),
    text_sha256: sha256Hex(result.text),
  };
}

function whyNoResult({ id, state, contentDeletedAt }: TranscriptionRow): string {
  if (contentDeletedAt !== null) return `the content of ${id} is deleted`;
  return isFinal(state) ? `${id} has no result: it is ${state}` : `${id} is not finished`;
}
