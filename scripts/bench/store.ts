/**
 * Measures latencies of the store as its tables grow: acceptance, settlement, look-ups, lists, usage, ledger, audit.
 * Only the audit may grow with the table.
 *
 *   bun scripts/bench/store.ts [rows …]  rows: finished transcriptions, default 1000 100000 1000000
 *
 * The rows are generated as the program would have written them (the audit proves it): one organization has half
 * of all work, 99 others share the rest; each transcription has its reservation, release, charge and usage event.
 */
import { closeSync, fdatasyncSync, mkdtempSync, openSync, rmSync, statSync, writeSync } from "node:fs";
import { cpus, tmpdir } from "node:os";
import { join } from "node:path";
import { encodeTime } from "ulid";
import { type Caller, SCOPES } from "../../src/domain/api-key.ts";
import { type LedgerKind, ledgerEffect } from "../../src/domain/credit.ts";
import type { InstalledModel } from "../../src/domain/model.ts";
import { systemClock } from "../../src/lib/clock.ts";
import { chargePaise } from "../../src/lib/money.ts";
import { dayIn } from "../../src/lib/time.ts";
import { createApiKeyService } from "../../src/services/api-keys.ts";
import { createCreditService } from "../../src/services/credit.ts";
import { type AcceptanceDeps, acceptTranscription } from "../../src/services/transcriptions/acceptance.ts";
import { settleTranscription } from "../../src/services/transcriptions/settlement.ts";
import { type Database, databasePath, openDatabase, transaction } from "../../src/store/database.ts";
import { entryHash, GENESIS_HASH, listLedger } from "../../src/store/ledger.ts";
import { auditLedger } from "../../src/store/ledger-audit.ts";
import { packResult } from "../../src/store/results.ts";
import { findTranscription, listTranscriptions } from "../../src/store/transcriptions.ts";
import { listUsageEvents } from "../../src/store/usage.ts";
import { testConfig } from "../../src/testing/kits/test-config.ts";

const ORGANIZATIONS = 100;
const RUNS = 300;
const PRICE_PAISE = 3000;
const TIME_ZONE = "Asia/Kolkata";
const START_MS = Date.UTC(2025, 0, 1);
/** Time between two transcriptions, so that a million of them spread over about a year. */
const STEP_MS = 30_000;

type Owner = { organizationId: string; projectId: string; uploadId: string };

const ownerRowOf = (n: number): Owner => ({
  organizationId: `org_${n}`,
  projectId: `prj_${n}`,
  uploadId: `up_${n}`,
});
/** Returns the organization of the nth transcription. The busy one has every second. */
const ownerOf = (row: number) => (row % 2 === 0 ? 0 : 1 + (((row - 1) / 2) % (ORGANIZATIONS - 1)));
const ulidAt = (row: number) => encodeTime(START_MS + row * STEP_MS, 10) + String(row).padStart(16, "0");

type Append = (
  organizationId: string,
  kind: LedgerKind,
  amountPaise: number,
  transcriptionId: string | null,
  createdAt: number,
) => void;

/** Writes ledger entries fast: the chain is kept in memory instead of being read back. */
function ledgerWriter(database: Database): { append: Append; balances: Map<string, number> } {
  const insert = database.sqlite.prepare("INSERT INTO ledger VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)");
  const balances = new Map<string, number>();
  let sequence = 0;
  let previousHash = GENESIS_HASH;
  const append: Append = (organizationId, kind, amountPaise, transcriptionId, createdAt) => {
    sequence++;
    const names = { organizationId, kind, amountPaise, transcriptionId, note: null };
    const hash = entryHash({ sequence, ...names, createdAt, previousHash });
    insert.run(
      sequence,
      organizationId,
      kind,
      amountPaise,
      transcriptionId,
      null,
      createdAt,
      previousHash,
      hash,
    );
    previousHash = hash;
    const { balance } = ledgerEffect(kind, amountPaise);
    balances.set(organizationId, (balances.get(organizationId) ?? 0) + balance);
  };
  return { append, balances };
}

function insertOrganizations(database: Database, append: Append): void {
  for (let n = 0; n < ORGANIZATIONS; n++) {
    const { organizationId, projectId, uploadId } = ownerRowOf(n);
    database.sqlite.run("INSERT INTO organizations (id, name, created_at) VALUES (?, 'o', 0)", [
      organizationId,
    ]);
    database.sqlite.run(
      "INSERT INTO projects (id, organization_id, name, created_at) VALUES (?, ?, 'p', 0)",
      [projectId, organizationId],
    );
    database.sqlite.run(
      `INSERT INTO uploads (id, organization_id, project_id, state, bytes, token_hash, created_at, expires_at, duration_ms, channels)
       VALUES (?, ?, ?, 'complete', 1, '', 0, 0, 60000, 1)`,
      [uploadId, organizationId, projectId],
    );
    append(organizationId, "grant", 1_000_000_000, null, START_MS);
  }
}

/** Writes the nth finished transcription. One in twenty failed and was free. */
function rowWriter({ sqlite }: Database, append: Append): (row: number) => void {
  const insertTranscription = sqlite.prepare(`INSERT INTO transcriptions
    (id, organization_id, project_id, upload_id, entrance, model_id, model_version, language, mode, timestamps, diarization, channel_mode,
     state, created_at, started_at, finished_at, duration_ms, channels, price_paise_per_audio_hour, reserved_paise, progress_ms)
    VALUES (?, ?, ?, ?, 'asynchronous', 'model', '1', 'hi', 'native', 'segment', 0, 'mix', ?, ?, ?, ?, ?, 1, ?, ?, ?)`);
  const insertUsage = sqlite.prepare(
    "INSERT INTO usage_events VALUES (?, ?, ?, ?, 'model', ?, ?, ?, 1, ?, ?)",
  );
  const addDay = sqlite.prepare(
    "INSERT INTO daily_charges VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET charged_paise = charged_paise + excluded.charged_paise",
  );
  return (row) => {
    const { organizationId: organization, projectId: project, uploadId } = ownerRowOf(ownerOf(row));
    const id = `tr_${ulidAt(row)}`;
    const atMs = START_MS + row * STEP_MS;
    const endMs = atMs + 1000;
    const durationMs = 60_000 + (row % 600) * 1000;
    const reserved = chargePaise(PRICE_PAISE, durationMs);
    const isPaid = row % 20 !== 0;
    const state = isPaid ? "completed" : "failed";
    const charged = isPaid ? reserved : 0;
    const billedMs = isPaid ? durationMs : 0;
    const times = [atMs, atMs, endMs, durationMs];
    insertTranscription.run(
      id,
      organization,
      project,
      uploadId,
      state,
      ...times,
      PRICE_PAISE,
      reserved,
      durationMs,
    );
    append(organization, "reserve", reserved, id, atMs);
    append(organization, "release", reserved, id, endMs);
    if (isPaid) {
      append(organization, "charge", charged, id, endMs);
      addDay.run(organization, dayIn(TIME_ZONE, endMs), charged);
    }
    insertUsage.run(
      `ue_${ulidAt(row)}`,
      organization,
      project,
      id,
      state,
      durationMs,
      billedMs,
      charged,
      endMs,
    );
  };
}

/** Fills a new database, in large transactions. */
function generate(database: Database, rows: number): void {
  const { sqlite } = database;
  sqlite.run("PRAGMA synchronous = OFF");
  const { append, balances } = ledgerWriter(database);
  const writeRow = rowWriter(database, append);
  sqlite.transaction(() => insertOrganizations(database, append))();
  for (let from = 0; from < rows; from += 10_000) {
    sqlite.transaction(() => {
      for (let row = from; row < Math.min(rows, from + 10_000); row++) writeRow(row);
    })();
  }
  for (const [organizationId, balance] of balances) {
    sqlite.run("UPDATE organizations SET balance_paise = ? WHERE id = ?", [balance, organizationId]);
  }
  sqlite.run("PRAGMA synchronous = FULL");
  sqlite.run("PRAGMA wal_checkpoint(TRUNCATE)");
}

/** Runs work repeatedly and returns the sorted milliseconds of the runs. */
function time(work: (run: number) => void, runs = RUNS): number[] {
  const times: number[] = [];
  for (let run = 0; run < runs; run++) {
    const start = performance.now();
    work(run);
    times.push(performance.now() - start);
  }
  return times.sort((a, b) => a - b);
}

const MODEL = { id: "model", version: "1" } as InstalledModel;
const RESULT = await packResult({
  status: "completed",
  durationMs: 60_000,
  channels: 1,
  languages: ["hi"],
  text: "नमस्ते ".repeat(100),
  segments: [],
  warnings: [],
  gaps: [],
});

/** Accepts and settles with the program's own functions. The upload is inserted directly. */
function acceptance(database: Database) {
  const clock = systemClock;
  const config = testConfig({
    limits: { max_queued: 0 },
    billing: { daily_spend_limit_paise: 1_000_000_000 },
  });
  const credit = createCreditService({ database, clock, config });
  const upload = { id: "up_0", durationMs: 60_000, channels: 1 };
  const uploads = { requireComplete: () => upload };
  const ages = () => ({ nowMs: clock.now(), wrong: [] });
  const deps = { database, clock, config, credit, uploads, ages } as unknown as AcceptanceDeps;
  const caller: Caller = { keyId: "key_0", ...ownerRowOf(0), scopes: new Set(SCOPES) };
  const request = { language: "hi", mode: "native", timestamps: "segment", channelMode: "mix" } as const;
  return {
    accept: (run: number) =>
      acceptTranscription(deps, caller, {
        submission: "asynchronous",
        model: MODEL,
        request,
        uploadId: upload.id,
        idempotency: { key: `bench-${run}`, requestHash: "x" },
      }).transcription.id,
    settle: (id: string) =>
      transaction(database.store, (tx) =>
        settleTranscription(
          tx,
          id,
          { kind: "result", result: RESULT, billedMs: 60_000 },
          { nowMs: clock.now(), timeZone: TIME_ZONE },
        ),
      ),
  };
}

/** Moves a transcription to the state from which it is settled. */
function makeFinalizing(database: Database, id: string): void {
  database.sqlite.run("UPDATE transcriptions SET state = 'finalizing' WHERE id = ?", [id]);
}

/** Measures the lower bound of a commit on this machine: 8 KiB appended to a file and synced. */
function timeDisk(folder: string): number[] {
  const page = new Uint8Array(8192);
  const file = openSync(join(folder, "disk"), "a");
  const times = time(() => {
    writeSync(file, page);
    fdatasyncSync(file);
  });
  closeSync(file);
  return times;
}

/** Every measured operation by name, in sorted milliseconds. */
function measure(database: Database, rows: number, folder: string): Map<string, number[]> {
  const { store } = database;
  const busy = ownerRowOf(0);
  const measured = new Map<string, number[]>();
  const apiKeys = createApiKeyService({ database, clock: systemClock });
  const { key } = apiKeys.createKey({ projectId: busy.projectId, name: "bench" });
  apiKeys.authenticate(`Bearer ${key}`);
  measured.set(
    "authenticate, cached",
    time(() => apiKeys.authenticate(`Bearer ${key}`), 10_000),
  );
  const uncached = () => {
    apiKeys.forgetCached();
    apiKeys.authenticate(`Bearer ${key}`);
  };
  measured.set("authenticate, from the database", time(uncached, 3000));
  apiKeys.close();

  measured.set("the disk alone: 8 KiB and fdatasync", timeDisk(folder));
  const { accept, settle } = acceptance(database);
  const accepted: string[] = [];
  for (let run = 0; run < 50; run++) {
    const id = accept(-1 - run);
    makeFinalizing(database, id);
    settle(id);
  }
  measured.set(
    "accept and reserve",
    time((run) => accepted.push(accept(run))),
  );
  for (const id of accepted) makeFinalizing(database, id);
  measured.set(
    "settle and charge",
    time((run) => settle(accepted[run] ?? "")),
  );

  const anyRow = (run: number) => (Math.floor((run * rows) / RUNS) >> 1) << 1;
  const project = { projectId: busy.projectId };
  measured.set(
    "get",
    time((run) => findTranscription(store, `tr_${ulidAt(anyRow(run))}`)),
  );
  measured.set(
    "list, first page of 100",
    time(() => listTranscriptions(store, { ...project, limit: 101 })),
  );
  measured.set(
    "list, page of 100 anywhere",
    time((run) => listTranscriptions(store, { ...project, limit: 101, after: `tr_${ulidAt(anyRow(run))}` })),
  );
  measured.set(
    "list of a state that is nowhere",
    time(() => listTranscriptions(store, { ...project, limit: 101, states: ["cancelled"] })),
  );
  measured.set(
    "usage, first page of 100",
    time(() => listUsageEvents(store, busy, { limit: 100 })),
  );
  measured.set(
    "usage, page of 100 anywhere",
    time((run) => listUsageEvents(store, busy, { limit: 100, after: `ue_${ulidAt(anyRow(run))}` })),
  );
  measured.set(
    "ledger, page of 100",
    time(() => listLedger(store, busy.organizationId, { limit: 100 })),
  );
  measured.set(
    "audit (linear)",
    time(() => requireHolding(database), 1),
  );
  return measured;
}

function requireHolding(database: Database): void {
  const report = auditLedger(database.store);
  if (!report.ok) throw new Error(`the generated ledger does not hold: ${report.problems[0]?.detail}`);
}

const quantile = (sorted: number[], share: number) =>
  sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;

function showMs(milliseconds: number): string {
  return milliseconds < 100 ? milliseconds.toFixed(3) : milliseconds.toFixed(0);
}

function run(rows: number): Map<string, number[]> {
  const folder = mkdtempSync(join(tmpdir(), "shruti-bench-"));
  try {
    const path = databasePath(folder);
    const database = openDatabase(path);
    const start = performance.now();
    generate(database, rows);
    // Data of the generation that is still in the system's buffers must not slow down the measurements.
    Bun.spawnSync(["sync"]);
    const seconds = ((performance.now() - start) / 1000).toFixed(1);
    const mebibytes = (statSync(path).size / 1024 ** 2).toFixed(0);
    process.stderr.write(`${rows} transcriptions: ${mebibytes} MiB, generated in ${seconds} s\n`);
    const measured = measure(database, rows, folder);
    database.close();
    return measured;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

const sizes = process.argv.slice(2).map(Number);
const allSizes = sizes.length > 0 ? sizes : [1000, 100_000, 1_000_000];
if (allSizes.some((rows) => !Number.isSafeInteger(rows) || rows < 1)) {
  process.stderr.write("usage: bun scripts/bench/store.ts [rows …]\n");
  process.exit(2);
}
const columns = allSizes.map(run);
process.stdout.write(
  `${cpus().length} × ${cpus()[0]?.model ?? "?"}, Bun ${Bun.version}; milliseconds, p50 / p99\n\n`,
);
process.stdout.write(`| operation | ${allSizes.map((rows) => `${rows} rows`).join(" | ")} |\n`);
process.stdout.write(`|---|${allSizes.map(() => "--:|").join("")}\n`);
for (const name of columns[0]?.keys() ?? []) {
  const cells = columns.map((column) => {
    const sorted = column.get(name) ?? [];
    return sorted.length === 1
      ? showMs(sorted[0] ?? Number.NaN)
      : `${showMs(quantile(sorted, 0.5))} / ${showMs(quantile(sorted, 0.99))}`;
  });
  process.stdout.write(`| ${name} | ${cells.join(" | ")} |\n`);
}
