import { and, lt, lte, type SQL, sql } from "drizzle-orm";
import type { SQLiteColumn } from "drizzle-orm/sqlite-core";
import type { Ages } from "../domain/clock-trust.ts";

/**
 * The condition of `isOver` in a statement.
 *
 * @param madeAt column with the time when a row was made; what was made while the clock was wrong ends later than it says
 * @param endsAt column with the time when its time ends
 */
export function isOver(madeAt: SQLiteColumn, endsAt: SQLiteColumn, ages: Ages): SQL | undefined {
  return and(lte(endsAt, ages.nowMs), isNotShifted(sql`${madeAt}`, sql`${endsAt}`, ages));
}

/** The condition that something ended before a time: a period that began with its end is over. */
export function isBefore(endedAt: SQLiteColumn, ages: Ages): SQL | undefined {
  return and(lt(endedAt, ages.nowMs), isNotShifted(sql`${endedAt}`, sql`${endedAt}`, ages));
}

/** The part of the condition that knows when the clock was wrong; undefined: it never was. */
export function isNotShifted(madeAt: SQL, endsAt: SQL, { nowMs, wrong }: Ages): SQL | undefined {
  return and(
    ...wrong.map(
      ({ fromMs, toMs, shiftMs }) =>
        sql`NOT (${madeAt} BETWEEN ${fromMs} AND ${toMs} AND ${endsAt} > ${nowMs - shiftMs})`,
    ),
  );
}
