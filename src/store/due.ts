import { gt, lte, or, type SQL } from "drizzle-orm";
import type { AnySQLiteColumn } from "drizzle-orm/sqlite-core";
import { DAY_MS } from "../lib/time.ts";

/**
 * The condition that the time of a next attempt has come, epoch milliseconds. No wait is longer than a day, so a later time
 * means that the clock was put back.
 */
export const isDue = (column: AnySQLiteColumn, nowMs: number): SQL | undefined =>
  or(lte(column, nowMs), gt(column, nowMs + DAY_MS));
