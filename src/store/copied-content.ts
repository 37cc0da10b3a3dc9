import { Database as SqliteDatabase } from "bun:sqlite";
import { firstIdAt, MAX_ID_AHEAD_MS } from "../lib/ids.ts";
import { hasTable, rowsOnce } from "./once.ts";

/**
 * Content in the older databases that a data directory keeps. They may be of any version, so they are read and written
 * with plain SQL.
 */

const BUSY_TIMEOUT_MS = 1_000;
const PAGE = 500;
/** Tables with the content of transcriptions; older versions lack some. */
const CONTENT = ["results", "chunks", "outlines", "fetches", "result_copies"];

function withCopy<T>(path: string, work: (sqlite: SqliteDatabase) => T): T {
  const sqlite = new SqliteDatabase(path, { readwrite: true, create: false });
  try {
    sqlite.run(`PRAGMA busy_timeout = ${BUSY_TIMEOUT_MS}`);
    // What is deleted is overwritten.
    sqlite.run("PRAGMA secure_delete = ON");
    return work(sqlite);
  } finally {
    sqlite.close();
  }
}

type NotedRow = { endpoint: string | null; finished: number | null };

/** As `markContentDeleted` and `forgetMetadata` (webhooks/event-rows.ts) do it, with the same index of the events. */
function forgetMetadataIn(sqlite: SqliteDatabase, id: string): void {
  const noted =
    "SELECT webhook_endpoint_id AS endpoint, finished_at AS finished FROM transcriptions WHERE id = ? AND metadata IS NOT NULL";
  const [row] = rowsOnce<NotedRow>(sqlite, noted, id);
  if (!row) return;
  rowsOnce(sqlite, "UPDATE transcriptions SET metadata = NULL WHERE id = ?", id);
  if (row.endpoint === null || row.finished === null) return;
  const inEvents = `UPDATE events SET body = json_remove(body, '$.data.metadata')
    WHERE endpoint_id = ? AND id >= ? AND id < ? AND transcription_id = ?`;
  const behind = row.finished + MAX_ID_AHEAD_MS + 1;
  rowsOnce(sqlite, inEvents, row.endpoint, firstIdAt("event", row.finished), firstIdAt("event", behind), id);
}

/** Deletes transcripts, chunks, outlines and metadata of transcriptions. @throws SQLite's error for a copy that cannot be used */
export function deleteContentIn(path: string, transcriptionIds: readonly string[]): void {
  withCopy(path, (sqlite) => {
    const tables = CONTENT.filter((table) => hasTable(sqlite, table));
    const hasMetadata = hasTable(sqlite, "transcription_metadata");
    sqlite.transaction(() => {
      for (const id of transcriptionIds) {
        for (const table of tables) rowsOnce(sqlite, `DELETE FROM ${table} WHERE transcription_id = ?`, id);
        if (hasMetadata) forgetMetadataIn(sqlite, id);
      }
    })();
  });
}

/**
 * Reports whether a copy has an organization whose content was not removed yet.
 *
 * @throws SQLite's error for a copy that cannot be used
 */
export function holdsOrganization(path: string, organizationId: string): boolean {
  return withCopy(path, (sqlite) => {
    const purged = rowsOnce(
      sqlite,
      "SELECT 1 FROM pragma_table_info('organizations') WHERE name = 'purged_at'",
    );
    const kept = purged.length > 0 ? "AND purged_at IS NULL" : "";
    return rowsOnce(sqlite, `SELECT 1 FROM organizations WHERE id = ? ${kept}`, organizationId).length > 0;
  });
}

/** Lists the uploads of an organization that a copy knows, page by page. @throws SQLite's error */
export function* uploadsIn(path: string, organizationId: string): Generator<string[]> {
  for (let after = ""; ; ) {
    const sql = "SELECT id FROM uploads WHERE organization_id = ? AND id > ? ORDER BY id LIMIT ?";
    const page = withCopy(path, (sqlite) =>
      rowsOnce<{ id: string }>(sqlite, sql, organizationId, after, PAGE),
    );
    const last = page.at(-1);
    if (!last) return;
    yield page.map(({ id }) => id);
    after = last.id;
  }
}
