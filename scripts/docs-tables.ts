import { join } from "node:path";
import { openTestApp } from "../src/testing/kits/open-test-app.ts";
import { generatedTables, withRows } from "../src/testing/rules/generated-tables.ts";

/**
 * Writes the tables of docs/ that come from the code: errors, limits, commands, settings and metrics. Other tables are
 * written by hand; src/testing/rules/docs.test.ts compares all of them with the code. Usage: `bun scripts/docs-tables.ts`
 */

const app = await openTestApp();
try {
  const metrics = await (await app.fetch("/metrics")).text();
  for (const table of generatedTables(metrics)) {
    const path = join(import.meta.dirname, "..", table.path);
    await Bun.write(path, withRows(await Bun.file(path).text(), table));
    console.log(`${table.path}: ${table.name}, ${table.rows.length} rows`);
  }
} finally {
  await app.close();
}
