import { Database as SqliteDatabase } from "bun:sqlite";
import { AppError } from "../domain/errors.ts";
import { printable } from "../lib/printable.ts";
import { type Database, migrate } from "./database.ts";
import { identifierColumns } from "./identifier-columns.ts";
import type { AuditReport } from "./ledger-audit.ts";
import { auditLedger } from "./ledger-audit.ts";
import { MIGRATIONS } from "./migrations/index.ts";

/** Checks of a file before it may replace the database. It may come from anywhere, so nothing in it is trusted. */

type SchemaRow = { type: string; name: string; sql: string | null };

/** Tables that `ANALYZE` makes. */
const STATISTICS = /^sqlite_stat[1-4]$/;
const MAX_NAMED = 3;

/**
 * Checks a file before it is migrated: it must have exactly the tables, indexes and triggers that its own migrations
 * make. Any other trigger would run with the first statement.
 *
 * @param path only read
 * @param name what messages call the file
 * @throws AppError `invalid_request` with what is wrong
 */
export function checkBackupFile(path: string, name: string): void {
  const sqlite = openReadOnly(path, name);
  try {
    const problems = readable(name, () => problemsOfSchema(sqlite));
    if (problems.length > 0) throw refusal(name, problems);
    const state = readable(name, () =>
      sqlite.query<{ integrity_check: string }, []>("PRAGMA integrity_check(1)").get(),
    );
    if (state?.integrity_check !== "ok") throw noBackup(name);
  } finally {
    sqlite.close();
  }
}

/**
 * Checks the content of a migrated file: schema, references, identifiers and ledger.
 *
 * @returns the ledger's audit, without problems
 * @throws AppError `invalid_request` with what is wrong
 */
export function checkRestored({ sqlite, store }: Database, name: string): AuditReport {
  const problems = [
    ...problemsOfSchema(sqlite),
    ...problemsOfReferences(sqlite),
    ...problemsOfIdentifiers(sqlite),
  ];
  if (problems.length > 0) throw refusal(name, problems);
  const ledger = auditLedger(store);
  if (ledger.ok) return ledger;
  const [first] = ledger.problems;
  throw refusal(name, [
    `its ledger does not hold: ${ledger.problemCount} problems, the first: ${first?.check}: ${first?.detail}`,
  ]);
}

function openReadOnly(path: string, name: string): SqliteDatabase {
  return readable(name, () => {
    const sqlite = new SqliteDatabase(path, { readonly: true });
    sqlite.run("PRAGMA trusted_schema = OFF");
    return sqlite;
  });
}

/** Turns each error of SQLite into `invalid_request`: a file that SQLite cannot read is not a backup. */
function readable<T>(name: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (error instanceof AppError) throw error;
    throw noBackup(name);
  }
}

const noBackup = (name: string) =>
  new AppError("invalid_request", {
    message: `${name} is not a valid backup of this program, or is damaged.`,
  });

function refusal(name: string, problems: readonly string[]): AppError {
  const named = problems.slice(0, MAX_NAMED).map((problem) => printable(problem));
  const more = problems.length > MAX_NAMED ? `; and ${problems.length - MAX_NAMED} more` : "";
  return new AppError("invalid_request", { message: `${name} is not restored: ${named.join("; ")}${more}.` });
}

function schemaOf(sqlite: SqliteDatabase): Map<string, string> {
  const rows = sqlite.query<SchemaRow, []>("SELECT type, name, sql FROM sqlite_schema").all();
  return new Map(
    rows
      .filter(({ name }) => !STATISTICS.test(name))
      .map(({ type, name, sql }) => [`${type} ${name}`, (sql ?? "").replaceAll(/\s+/g, " ").trim()]),
  );
}

/** Lists what only the schema has, and what only the migrations make. */
function problemsOfSchema(sqlite: SqliteDatabase): string[] {
  const found = schemaOf(sqlite);
  // This comes before the list of migrations is read, because the list could be a view.
  const list = schemaAfter([]).get(MIGRATIONS_TABLE);
  if (list === undefined || found.get(MIGRATIONS_TABLE) !== list)
    return ["it has no list of migrations as this program keeps it"];
  const applied = sqlite.query<{ name: string }, []>("SELECT name FROM schema_migrations").all();
  const newer = applied.find(({ name }) => !MIGRATIONS.some((known) => known.name === name));
  if (newer) return [`it was written by a newer version of this program (it has ${newer.name})`];
  if (applied.length === 0) return ["it is empty: no migration has been applied"];
  const names = new Set(applied.map(({ name }) => name));
  return differences(found, schemaAfter(MIGRATIONS.filter(({ name }) => names.has(name))));
}

const MIGRATIONS_TABLE = "table schema_migrations";

function differences(found: Map<string, string>, expected: Map<string, string>): string[] {
  const problems: string[] = [];
  for (const [what, sql] of found) {
    const own = expected.get(what);
    if (own === undefined) problems.push(`it has a ${what} that is not this program's`);
    else if (own !== sql) problems.push(`its ${what} differs from this program's`);
  }
  for (const what of expected.keys()) if (!found.has(what)) problems.push(`its ${what} is missing`);
  return problems;
}

function schemaAfter(migrations: typeof MIGRATIONS): Map<string, string> {
  const sqlite = new SqliteDatabase(":memory:");
  try {
    migrate(sqlite, migrations);
    return schemaOf(sqlite);
  } finally {
    sqlite.close();
  }
}

function problemsOfReferences(sqlite: SqliteDatabase): string[] {
  return sqlite
    .query<{ table: string; parent: string; rows: number }, []>(
      `SELECT "table", parent, count(*) AS rows FROM pragma_foreign_key_check GROUP BY 1, 2`,
    )
    .all()
    .map(({ table, parent, rows }) => `${rows} of its ${table} refer to ${parent} that are not there`);
}

function problemsOfIdentifiers(sqlite: SqliteDatabase): string[] {
  return identifierColumns(sqlite).columns.flatMap(({ table, column, what, isOther }) => {
    const example = sqlite
      .query<{ value: unknown }, []>(
        `SELECT substr("${column}", 1, 60) AS value FROM "${table}" WHERE ${isOther} LIMIT 1`,
      )
      .get();
    if (!example) return [];
    return [`${table}.${column} holds ${JSON.stringify(String(example.value))}, which is not ${what}`];
  });
}
