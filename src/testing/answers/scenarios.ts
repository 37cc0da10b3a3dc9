import { expect } from "bun:test";
import { getTableColumns, getTableName, isTable, sql } from "drizzle-orm";
import { ERROR_TABLE, type ErrorCode } from "../../domain/errors.ts";
import * as schema from "../../store/schema.ts";
import type { TestApp } from "../kits/open-test-app.ts";

/** The expected refusal of a request. */
export type Refusal = {
  code: ErrorCode;
  /** The exact `detail`. With undefined there must be none. */
  detail?: string;
};

/** Columns with times of use, which change with every request. */
const IGNORED_COLUMNS = new Set(["last_used_at"]);

/**
 * Checks a response against docs/interface.md section 7: status, body shape, `detail`, `Retry-After` where 7.2 asks for
 * it, `x-request-id`, and that the body reveals no internals.
 */
export async function expectRefusal(response: Response, { code, detail }: Refusal): Promise<void> {
  const text = await response.text();
  const body = JSON.parse(text) as { error: { code: string; message: string; detail?: string } };
  expect({ status: response.status, code: body.error.code, detail: body.error.detail }).toEqual({
    status: ERROR_TABLE[code].status,
    code,
    detail,
  });
  expect(Object.keys(body)).toEqual(["error"]);
  expect(typeof body.error.message).toBe("string");
  expect(Object.keys(body.error).filter((name) => !["code", "message", "detail"].includes(name))).toEqual([]);
  expect(response.headers.get("content-type")).toStartWith("application/json");
  expect(response.headers.get("x-request-id")).toMatch(/^req_[0-9A-HJKMNP-TV-Z]{26}$/);
  if (response.status === 429 || response.status === 503) {
    expect(Number(response.headers.get("retry-after"))).toBeGreaterThanOrEqual(1);
  }
  expect(text).not.toMatch(/\bat \/|node_modules|SELECT |INSERT |\/tmp\/|shr_[0-9A-Za-z]{24}/);
}

/** Returns the number of rows and a checksum of each table, to compare that nothing was stored. */
export function fingerprint({ app }: TestApp): Record<string, string> {
  const prints: Record<string, string> = {};
  for (const table of Object.values(schema)) {
    if (!isTable(table)) continue;
    const columns = Object.values(getTableColumns(table))
      .map(({ name }) => name)
      .filter((name) => !IGNORED_COLUMNS.has(name));
    const rows = app.database.store.all(
      sql.raw(`SELECT ${columns.map((name) => `"${name}"`).join(", ")} FROM ${getTableName(table)}`),
    );
    prints[getTableName(table)] = `${rows.length} ${Bun.hash(JSON.stringify(rows))}`;
  }
  return prints;
}
