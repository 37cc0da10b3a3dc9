import { expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { insertLedgerOwner } from "../testing/programs/ledger-work.ts";
import { openDatabase, transaction } from "./database.ts";
import { appendGrant, creditOf } from "./ledger.ts";
import { auditLedger } from "./ledger-audit.ts";

const WORKER = join(import.meta.dir, "../testing/programs/ledger-worker.ts");
const ROUNDS = 3;

test("two processes that compete for scarce credit and are killed leave a sound ledger", async () => {
  const folder = mkdtempSync(join(tmpdir(), "shruti-ledger-crash-"));
  const path = join(folder, "shruti.db");
  const database = openDatabase(path);
  insertLedgerOwner(database, 0);
  let entriesBefore = 0;
  for (let round = 0; round < ROUNDS; round++) {
    transaction(database.store, (tx) =>
      appendGrant(tx, { organizationId: "org_0", amountPaise: 200, nowMs: 0 }),
    );
    const workers = [0, 1].map((n) =>
      Bun.spawn([process.execPath, WORKER, path, `${round}_${n}`], { stdout: "pipe", stderr: "inherit" }),
    );
    // Each prints one line once it works.
    await Promise.all(workers.map((worker) => worker.stdout.getReader().read()));
    await Bun.sleep(50 + Math.random() * 150);
    for (const worker of workers) worker.kill("SIGKILL");
    await Promise.all(workers.map((worker) => worker.exited));
    for (const worker of workers) expect(worker.signalCode).toBe("SIGKILL");

    const report = auditLedger(database.store);
    expect(report.problems).toEqual([]);
    expect(report.entries).toBeGreaterThan(entriesBefore + 1);
    entriesBefore = report.entries;
    expect(creditOf(database.store, "org_0").availablePaise).toBeGreaterThanOrEqual(0);
  }
  database.close();
  rmSync(folder, { recursive: true });
}, 30_000);
