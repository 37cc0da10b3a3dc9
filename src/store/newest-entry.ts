import { sql } from "drizzle-orm";
import type { Store } from "./database.ts";

/**
 * Returns the time of the newest entry; undefined before the first recording, when nothing can be removed yet: a machine may
 * start long after `shruti init`. Entries about the database itself do not count: the command that has just upgraded or
 * restored it may run under a wrong clock.
 */
export function newestEntryMs(store: Store): number | undefined {
  // `get` of a raw statement returns a list of values.
  const [row] = store.all<{ at: number | null }>(sql`
    SELECT max(at) AS at FROM (
      SELECT max(created_at) AS at FROM (
        SELECT created_at FROM audit_log WHERE action NOT LIKE 'database.%' ORDER BY sequence DESC LIMIT 1)
      UNION ALL SELECT max(created_at) FROM (SELECT created_at FROM ledger ORDER BY sequence DESC LIMIT 1)
      UNION ALL SELECT max(created_at) FROM (SELECT created_at FROM usage_events ORDER BY rowid DESC LIMIT 1)
      UNION ALL SELECT max(created_at) FROM (SELECT created_at FROM uploads ORDER BY id DESC LIMIT 1)
      UNION ALL SELECT max(created_at) FROM (SELECT created_at FROM transcriptions ORDER BY id DESC LIMIT 1)
    ) WHERE EXISTS (SELECT 1 FROM uploads)`);
  return row?.at ?? undefined;
}
