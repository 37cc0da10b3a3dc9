import type { Database as SqliteDatabase } from "bun:sqlite";
import { ID_PREFIXES, type IdKind } from "../lib/ids.ts";

/** The kind of identifier that a column holds, by its name. The kind of `id` follows from its table. */
const KIND_OF_COLUMN: Record<string, IdKind> = {
  transcription_id: "transcription",
  retry_of_id: "transcription",
  upload_id: "upload",
  project_id: "project",
  organization_id: "organization",
  endpoint_id: "webhookEndpoint",
  webhook_endpoint_id: "webhookEndpoint",
  event_id: "event",
  api_key_id: "apiKey",
};
const KIND_OF_TABLE: Record<string, IdKind> = {
  api_keys: "apiKey",
  events: "event",
  organizations: "organization",
  projects: "project",
  receipts: "receipt",
  transcriptions: "transcription",
  uploads: "upload",
  usage_events: "usageEvent",
  webhook_endpoints: "webhookEndpoint",
};

/** A column, and an SQL condition that is true for values of another form. */
export type IdentifierColumn = { table: string; column: string; what: string; isOther: string };

/**
 * Finds all text columns with identifiers, by their names `id` and `…_id`. The public half of a key is not one of them.
 *
 * @returns `unknown`: columns whose form this module does not know, such as `table.column`
 */
export function identifierColumns(sqlite: SqliteDatabase): {
  columns: IdentifierColumn[];
  unknown: string[];
} {
  const columns: IdentifierColumn[] = [];
  const unknown: string[] = [];
  for (const { table, column } of textColumns(sqlite)) {
    if (!/(^|_)id$/.test(column) || column === "public_id") continue;
    const kind = column === "id" ? KIND_OF_TABLE[table] : KIND_OF_COLUMN[column];
    if (column === "model_id") {
      columns.push({ table, column, what: "a model's id", isOther: otherThanModelId(column) });
    } else if (kind === undefined) unknown.push(`${table}.${column}`);
    else {
      columns.push({
        ...{ table, column, what: `an identifier ${ID_PREFIXES[kind]}_…` },
        isOther: otherThanId(column, kind),
      });
    }
  }
  return { columns, unknown };
}

function textColumns(sqlite: SqliteDatabase): { table: string; column: string }[] {
  return sqlite
    .query<{ table: string; column: string }, []>(
      `SELECT t.name AS "table", c.name AS "column" FROM sqlite_schema t, pragma_table_info(t.name) c
       WHERE t.type = 'table' AND lower(c.type) = 'text' ORDER BY 1, c.cid`,
    )
    .all();
}

/** The form of `isId` as SQL: the prefix, a digit up to 7, and 25 of Crockford's base 32. The length counts NUL too. */
function otherThanId(column: string, kind: IdKind): string {
  const prefix = `${ID_PREFIXES[kind]}_`;
  const pattern = `${prefix}[0-7]${"[0-9A-HJKMNP-TV-Z]".repeat(25)}`;
  return `"${column}" IS NOT NULL AND (typeof("${column}") <> 'text'
    OR length(CAST("${column}" AS BLOB)) <> ${prefix.length + 26} OR "${column}" NOT GLOB '${pattern}')`;
}

/** `MODEL_ID_PATTERN` as SQL. */
function otherThanModelId(column: string): string {
  return `"${column}" IS NOT NULL AND (typeof("${column}") <> 'text'
    OR length(CAST("${column}" AS BLOB)) NOT BETWEEN 1 AND 64 OR length(CAST("${column}" AS BLOB)) <> length("${column}")
    OR "${column}" GLOB '*[^a-z0-9._-]*' OR "${column}" NOT GLOB '[a-z0-9]*' OR "${column}" NOT GLOB '*[a-z0-9]')`;
}
