import type { Config } from "../config/schema.ts";
import { type Ages, before } from "../domain/clock-trust.ts";
import { AppError } from "../domain/errors.ts";
import { runAs, SERVER } from "../lib/actor.ts";
import type { Clock } from "../lib/clock.ts";
import type { Log } from "../lib/log.ts";
import { DAY_MS } from "../lib/time.ts";
import { listEndedWithChunks, removeChunks } from "../store/chunks.ts";
import { checkpointNow, type Database, type Store, transaction } from "../store/database.ts";
import { deleteExpiredIdempotencyKeys } from "../store/idempotency.ts";
import { listProjects, type ProjectRow } from "../store/projects.ts";
import {
  countFinishedBefore,
  isUploadInUse,
  listFinishedBefore,
  type TranscriptionRow,
} from "../store/transcriptions.ts";
import { countUnusedAudio, deleteRejectedUploads, findUpload, listUnusedAudio } from "../store/uploads.ts";
import { deleteRemovedEndpoints } from "../webhooks/event-rows.ts";
import type { WebhookService } from "../webhooks/webhooks.ts";
import type { ClockTrust } from "./clock-trust.ts";
import { deleteUploadRecording } from "./deletions.ts";
import { followDeletions, type RemovedCopies, removeOldCopies } from "./kept-copies.ts";
import type { PurgeService } from "./purge.ts";
import type { ReceiptService } from "./receipts.ts";
import type { TranscriptionService } from "./transcriptions/transcriptions.ts";
import type { UploadService } from "./uploads/uploads.ts";

export type RetentionDeps = {
  database: Database;
  clock: Clock;
  config: Config;
  log: Log;
  trust: Pick<ClockTrust, "ages">;
  uploads: Pick<UploadService, "expire" | "removeAudioFile">;
  transcriptions: Pick<TranscriptionService, "deleteById">;
  webhooks: Pick<WebhookService, "removeOld">;
  receipts: Pick<ReceiptService, "write" | "mirror">;
  purge: Pick<PurgeService, "resume">;
};

/** How many of each kind a run removed. */
export type RetentionReport = {
  uploadsExpired: number;
  audioRemoved: number;
  organizationsPurged: number;
  transcriptsRemoved: number;
  idempotencyKeysRemoved: number;
  deliveriesRemoved: number;
  /** Records of rejected uploads and removed webhook endpoints, `retention.rejected_days` after that. */
  recordsRemoved: number;
} & RemovedCopies;

export type RetentionService = {
  /**
   * Removes everything whose time is over: expired uploads, and after `[retention]` and `webhooks.keep_days` audio,
   * transcripts and deliveries (docs/decisions/uploads.md and docs/decisions/idempotency.md). While the clock is in
   * doubt it removes nothing because of its age. It uses small transactions, so that requests do not wait for it. Also
   * continues purges, and removes the chunks of long recordings that have ended.
   */
  run(): Promise<RetentionReport>;
};

const BATCH = 200;
const NO_COPIES: RemovedCopies = { restoreCopiesRemoved: 0, upgradeCopiesRemoved: 0 };

export function createRetentionService(deps: RetentionDeps): RetentionService {
  function logFailure(what: string, error: unknown, fields: object = {}): void {
    deps.log.error({ ...fields, err: error }, `retention: ${what} failed and is tried again later`);
  }

  /** A step that fails, such as at a file that cannot be removed, does not keep the others from their work. */
  async function step<T>(what: string, otherwise: T, work: () => T | Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      logFailure(what, error);
      return otherwise;
    }
  }

  /** Does a part of the work that depends on the clock. Each part reads the clock again: a round can take long. */
  const byAge = (what: string, work: (ages: Ages) => number | Promise<number>) =>
    step(what, 0, () => {
      const ages = deps.trust.ages();
      return ages ? work(ages) : 0;
    });

  const PURGE = "the purge of an organization";
  const resumePurges = () =>
    deps.purge.resume((organizationId, error) =>
      logFailure(PURGE, error, { organization_id: organizationId }),
    );

  return {
    run: () =>
      runAs({ ...SERVER, via: "retention" }, async () => {
        const report: RetentionReport = {
          uploadsExpired: await byAge("the expiry of uploads", deps.uploads.expire),
          ...(await removeContent(deps, step)),
          // An admin has asked for it; no clock decides about it.
          organizationsPurged: await step(PURGE, 0, resumePurges),
          ...(await step("the removal of older databases", NO_COPIES, () =>
            removeOldCopies(deps, deps.trust.ages()),
          )),
          idempotencyKeysRemoved: await byAge("the removal of idempotency keys", (ages) =>
            removeIdempotencyKeys(deps, ages),
          ),
          deliveriesRemoved: await byAge("the removal of deliveries", deps.webhooks.removeOld),
          recordsRemoved: await byAge("the removal of old records", (ages) => removeOldRecords(deps, ages)),
        };
        await step("the removal of ended chunks", undefined, () => removeEndedChunks(deps.database));
        await step("the deletion in older databases", undefined, () => followDeletions(deps));
        await step("the copy of the receipts", undefined, deps.receipts.mirror);
        // A reader may have been in the way when content was deleted.
        await step("the checkpoint", undefined, () => void checkpointNow(deps.database));
        return report;
      }),
  };
}

/** Removes the chunks that the ends of long recordings have left (`settleTranscription`). */
async function removeEndedChunks({ store }: Database): Promise<void> {
  for (const id of listEndedWithChunks(store)) await removeChunks(store, id);
}

type Step = <T>(what: string, otherwise: T, work: () => T | Promise<T>) => Promise<T>;

/** Removes what is older than the periods of its project, else those of `[retention]`. */
async function removeContent(deps: RetentionDeps, step: Step): Promise<RemovedContent> {
  const total: RemovedContent = { audioRemoved: 0, transcriptsRemoved: 0 };
  for (const project of listProjects(deps.database.store)) {
    const ages = deps.trust.ages();
    if (!ages) return total;
    const age = agesOf(project, deps.config, ages);
    const { audioRemoved, transcriptsRemoved } = await step(
      "the removal of content",
      { audioRemoved: 0, transcriptsRemoved: 0 },
      () => removeContentOf(deps, project.id, age),
    );
    total.audioRemoved += audioRemoved;
    total.transcriptsRemoved += transcriptsRemoved;
    // Requests do not wait for many projects.
    await Bun.sleep(0);
  }
  return total;
}

type Periods = Pick<ProjectRow, "audioDays" | "transcriptDays">;

function agesOf({ audioDays, transcriptDays }: Periods, { retention }: Config, ages: Ages): ContentAge {
  return {
    audio: agesAfter(ages, audioDays ?? retention.audio_days),
    transcripts: agesAfter(ages, transcriptDays ?? retention.transcript_days),
  };
}

/** Counts the recordings and transcripts that are over by these ages: the next round would remove them. */
export function countOldContent(
  { database: { store }, config }: Pick<RetentionDeps, "database" | "config">,
  ages: Ages,
): { recordings: number; transcripts: number } {
  const found = { recordings: 0, transcripts: 0 };
  for (const project of listProjects(store)) {
    const { audio, transcripts } = agesOf(project, config, ages);
    if (audio) found.recordings += countUnusedAudio(store, project.id, audio);
    if (transcripts) found.transcripts += countFinishedBefore(store, project.id, transcripts);
  }
  return found;
}

/** Returns what is over after some days; undefined: nothing ever is. */
function agesAfter(ages: Ages, days: number): Ages | undefined {
  return days === 0 ? undefined : before(ages, days * DAY_MS);
}

/** What is removed: content that was finished before these times; undefined: nothing. */
export type ContentAge = { audio: Ages | undefined; transcripts: Ages | undefined };
export type RemovedContent = Pick<RetentionReport, "audioRemoved" | "transcriptsRemoved">;
type ContentDeps = Pick<RetentionDeps, "database" | "clock" | "log" | "transcriptions" | "receipts"> & {
  uploads: Pick<UploadService, "removeAudioFile">;
};

/** Removes old recordings and transcripts of a project, unless unfinished work needs them. */
export async function removeContentOf(
  deps: ContentDeps,
  projectId: string,
  { audio, transcripts }: ContentAge,
): Promise<RemovedContent> {
  return {
    transcriptsRemoved: transcripts ? await removeTranscripts(deps, projectId, transcripts) : 0,
    audioRemoved: audio ? await removeAudio(deps, projectId, audio) : 0,
  };
}

async function removeAudio(
  { database, clock, uploads, receipts }: ContentDeps,
  projectId: string,
  finishedBefore: Ages,
): Promise<number> {
  const { store } = database;
  let removed = 0;
  for (;;) {
    const batch = listUnusedAudio(store, projectId, finishedBefore, BATCH);
    for (const { id } of batch) {
      // Checked again inside the transaction, because a transcription may have been accepted since the list was read.
      const isMarked = transaction(store, (tx) => {
        const upload = isUploadInUse(tx, id) ? undefined : findUpload(tx, id);
        return upload !== undefined && deleteUploadRecording(tx, upload, { receipts, nowMs: clock.now() });
      });
      if (!isMarked) continue;
      await uploads.removeAudioFile(id);
      removed += 1;
    }
    if (batch.length < BATCH) return removed;
  }
}

async function removeTranscripts(
  { database, log, transcriptions }: ContentDeps,
  projectId: string,
  finishedBefore: Ages,
): Promise<number> {
  let removed = 0;
  let last: TranscriptionRow | undefined;
  for (;;) {
    const batch = listFinishedBefore(database.store, projectId, finishedBefore, BATCH, last);
    for (const { id } of batch) {
      try {
        await transcriptions.deleteById(id);
        removed += 1;
      } catch (error) {
        // Another unfinished transcription reads the same audio. A later run removes this transcript.
        if (!(error instanceof AppError && error.code === "conflict")) throw error;
        log.debug({ transcription_id: id }, "a transcript is kept while its audio is in use");
      }
    }
    // The next batch begins after this one, so that this run does not see again the transcripts that it had to keep.
    last = batch.at(-1);
    if (batch.length < BATCH) return removed;
  }
}

function removeIdempotencyKeys({ database }: RetentionDeps, ages: Ages): Promise<number> {
  return removeInBatches(database, (tx) => deleteExpiredIdempotencyKeys(tx, ages, BATCH));
}

/** Removes the records of rejected uploads and removed endpoints that nothing refers to. */
async function removeOldRecords({ database, config }: RetentionDeps, ages: Ages): Promise<number> {
  const ended = agesAfter(ages, config.retention.rejected_days);
  if (!ended) return 0;
  const uploads = await removeInBatches(database, (tx) => deleteRejectedUploads(tx, ended, BATCH));
  const endpoints = await removeInBatches(database, (tx) => deleteRemovedEndpoints(tx, ended, BATCH));
  return uploads + endpoints;
}

/** Repeats a removal of at most `BATCH` rows, in small transactions, until no more are left. Returns how many. */
async function removeInBatches({ store }: Database, remove: (tx: Store) => number): Promise<number> {
  let removed = 0;
  for (;;) {
    const batch = transaction(store, remove);
    removed += batch;
    if (batch < BATCH) return removed;
    await Bun.sleep(0);
  }
}
