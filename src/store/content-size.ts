import { sql } from "drizzle-orm";
import type { Ages } from "../domain/clock-trust.ts";
import type { Store } from "./database.ts";
import { isNotShifted } from "./over.ts";

/** Recordings and transcripts that an organization keeps. */
export type KeptContent = {
  organizationId: string;
  recordings: number;
  recordingBytes: number;
  transcripts: number;
  transcriptBytes: number;
};

/** Which content is counted. Times are epoch milliseconds. */
export type ContentFilter = {
  organizationId?: string | undefined;
  /** Only what was finished before this time and is not needed by unfinished work. */
  finishedBefore?: Ages | undefined;
};

/** Counts what organizations keep, by organization. Organizations that keep nothing are left out. */
export function measureContent(
  store: Store,
  { organizationId, finishedBefore }: ContentFilter = {},
): KeptContent[] {
  const ofOrganization = organizationId === undefined ? sql`1` : sql`organization_id = ${organizationId}`;
  const finishedAt = sql`finished_at`;
  const isOld = finishedBefore
    ? sql`finished_at < ${finishedBefore.nowMs} AND ${isNotShifted(finishedAt, finishedAt, finishedBefore) ?? sql`1`}`
    : sql`1`;
  const isUnused =
    finishedBefore === undefined
      ? sql`1`
      : sql`NOT EXISTS (SELECT 1 FROM transcriptions t WHERE t.upload_id = uploads.id
              AND t.state IN ('queued', 'preparing', 'transcribing', 'finalizing'))`;
  return store.all<KeptContent>(sql`
    SELECT organization_id AS organizationId, sum(recordings) AS recordings, sum(recording_bytes) AS recordingBytes,
      sum(transcripts) AS transcripts, sum(transcript_bytes) AS transcriptBytes
    FROM (
      SELECT organization_id, count(*) AS recordings, sum(bytes) AS recording_bytes, 0 AS transcripts,
        0 AS transcript_bytes
      FROM uploads
      WHERE state IN ('verifying', 'complete') AND deleted_at IS NULL AND ${ofOrganization} AND ${isOld} AND ${isUnused}
      GROUP BY organization_id
      UNION ALL
      SELECT organization_id, 0, 0, count(*), sum(length(CAST(result AS BLOB)))
      FROM transcriptions JOIN results ON results.transcription_id = transcriptions.id
      WHERE content_deleted_at IS NULL AND ${ofOrganization} AND ${isOld}
      GROUP BY organization_id
    )
    GROUP BY organization_id ORDER BY recordingBytes DESC`);
}
