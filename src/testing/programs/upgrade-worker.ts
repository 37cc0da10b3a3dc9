import type { migrate } from "../../store/database.ts";
import { MIGRATIONS } from "../../store/migrations/index.ts";
import { upgradeDatabase } from "../../store/upgrade.ts";

/**
 * A process that upgrades a database and is killed meanwhile by a test: `bun upgrade-worker.ts PATH`. Its last migration
 * takes some hundred milliseconds.
 */

/** The migrations of this program, and one that writes many rows. */
export const SLOW_MIGRATIONS = [
  ...MIGRATIONS,
  {
    name: "9000_slow",
    sql: `CREATE TABLE slow (n INTEGER NOT NULL);
      INSERT INTO slow WITH RECURSIVE many(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM many WHERE n < 400000)
      SELECT n FROM many;`,
  },
] satisfies Parameters<typeof migrate>[1];

if (import.meta.main) {
  console.log("begins");
  const upgrade = await upgradeDatabase(process.argv[2] ?? "", {
    nowMs: Date.now(),
    migrations: SLOW_MIGRATIONS,
  });
  console.log(upgrade ? "upgraded" : "was current");
}
