import { eq } from "drizzle-orm";
import type { Database, Store } from "../../store/database.ts";
import { reserveCredit, settleReservation } from "../../store/ledger.ts";
import { transcriptions, uploads } from "../../store/schema.ts";
import { insertUsageEvent } from "../../store/usage.ts";

/** Inserts organization `org_<n>` with a project `prj_<n>` and an upload `up_<n>`, for work on the ledger. */
export function insertLedgerOwner({ sqlite, store }: Database, n: number): void {
  sqlite.run(`INSERT INTO organizations (id, name, created_at) VALUES ('org_${n}', 'o', 0)`);
  sqlite.run(
    `INSERT INTO projects (id, organization_id, name, created_at) VALUES ('prj_${n}', 'org_${n}', 'p', 0)`,
  );
  const owner = { organizationId: `org_${n}`, projectId: `prj_${n}` };
  store
    .insert(uploads)
    .values({
      id: `up_${n}`,
      ...owner,
      state: "complete",
      bytes: 1,
      tokenHash: "",
      createdAt: 0,
      expiresAt: 0,
    })
    .run();
}

/** Accepts work as the program does: the record and its reservation. */
export function accept(tx: Store, n: number, transcriptionId: string, amountPaise: number): void {
  tx.insert(transcriptions)
    .values({
      id: transcriptionId,
      organizationId: `org_${n}`,
      projectId: `prj_${n}`,
      uploadId: `up_${n}`,
      submission: "asynchronous",
      modelId: "m",
      modelVersion: "1",
      language: "hi",
      mode: "native",
      timestamps: "none",
      diarization: false,
      channelMode: "mix",
      state: "queued",
      createdAt: 0,
      durationMs: 1000,
      channels: 1,
      pricePaisePerAudioHour: 3000,
      reservedPaise: amountPaise,
    })
    .run();
  reserveCredit(tx, { organizationId: `org_${n}`, transcriptionId, amountPaise, nowMs: 1 });
}

/** Ends a transcription as the program does: final state, settlement and usage event. */
export function finish(
  tx: Store,
  n: number,
  transcriptionId: string,
  chargePaise: number,
  day = "2026-11-21",
): void {
  const organizationId = `org_${n}`;
  tx.update(transcriptions).set({ state: "completed" }).where(eq(transcriptions.id, transcriptionId)).run();
  settleReservation(tx, { organizationId, transcriptionId, chargePaise, nowMs: 2, day });
  insertUsageEvent(
    tx,
    {
      organizationId,
      projectId: `prj_${n}`,
      transcriptionId,
      modelId: "m",
      state: "completed",
      audioMs: 1000,
      billedMs: 1000,
      channels: 1,
      amountPaise: chargePaise,
    },
    2,
  );
}
