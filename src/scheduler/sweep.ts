import { type Ages, before } from "../domain/clock-trust.ts";
import { DAY_MS } from "../lib/time.ts";
import { holdsNewestHead, signAuditHead } from "../services/audit-heads.ts";
import { createRetentionService, type RetentionDeps } from "../services/retention.ts";
import type { UploadService } from "../services/uploads/uploads.ts";

const EVERY_MS = 60_000;
/** How often files without a record are looked for: a command that was killed in the middle of a deletion leaves them. */
const LOOK_FOR_ORPHANS_MS = 24 * 3_600_000;
const FORGET_FILES_MS = 24 * 3_600_000;
const SIGN_AUDIT_LOG_MS = 24 * 3_600_000;

export type SweeperDeps = Omit<RetentionDeps, "uploads"> & {
  uploads: Pick<UploadService, "expire" | "removeAudioFile" | "sweepOrphans" | "removeOrphans">;
  dataDir: string;
  /** Forgets files of watched folders that have ended before some time and are gone. Returns how many. */
  forgetFiles: (endedBefore: Ages) => Promise<number>;
};

/**
 * Compares the recordings on disk with the records once at the start. Then removes, each minute, all data whose
 * retention time has passed, and each day files without a record and what is remembered of files of watched folders. It also signs the head of the audit log, at the start
 * and each day. Failures are logged, and the work of the rounds and the signature are tried again in the next minute.
 */
export type Sweeper = {
  start(): void;
  /** Stops, and waits until the round under way has ended. */
  stop(): Promise<void>;
};

/**
 * @param everyMs pause between two rounds
 * @param lookForOrphansMs pause between two looks for files without a record
 */
export function createSweeper(
  deps: SweeperDeps,
  everyMs = EVERY_MS,
  lookForOrphansMs = LOOK_FOR_ORPHANS_MS,
): Sweeper {
  const retention = createRetentionService(deps);
  const stopping = new AbortController();
  let timer: Timer | undefined;
  let running: Promise<void> = Promise.resolve();
  let lookedMs = performance.now();
  let signedMs = Number.NEGATIVE_INFINITY;
  let forgotMs = Number.NEGATIVE_INFINITY;

  async function guarded(what: string, work: () => Promise<unknown>): Promise<void> {
    try {
      await work();
    } catch (error) {
      deps.log.error({ err: error }, `${what} failed and is tried again later`);
    }
  }

  async function round(): Promise<void> {
    await guarded("a round of retention", async () => {
      const report = await retention.run();
      if (Object.values(report).some((count) => count > 0)) deps.log.info(report, "retention");
    });
    if (performance.now() - signedMs > SIGN_AUDIT_LOG_MS)
      await guarded("the signature of the audit log", async () => signLog("day"));
    if (performance.now() - forgotMs > FORGET_FILES_MS)
      await guarded("the removal of what is remembered of watched folders", forgetFiles);
    if (performance.now() - lookedMs > lookForOrphansMs)
      await guarded("the removal of files", lookForOrphans);
    if (!stopping.signal.aborted) timer = setTimeout(next, everyMs);
  }

  /** A log line has the head as well: it may be kept on another machine. */
  function signLog(reason: "start" | "day"): void {
    const { database, dataDir, clock, log } = deps;
    if (!holdsNewestHead(database.store, dataDir))
      log.error("the audit log lacks entries that were signed (`shruti audit verify` says which)");
    const head = signAuditHead(database.store, dataDir, reason, clock.now());
    signedMs = performance.now();
    if (head) log.info({ audit_head: `${head.sequence}:${head.hash}` }, "the audit log is signed");
  }

  async function lookForOrphans(): Promise<void> {
    const count = await deps.uploads.removeOrphans();
    lookedMs = performance.now();
    if (count > 0) deps.log.warn({ count }, "files without a record were removed");
  }

  /** While the clock is in doubt, the next round tries again. */
  async function forgetFiles(): Promise<void> {
    const days = deps.config.retention.watched_files_days;
    const ages = deps.trust.ages();
    if (!ages || days === 0) return;
    const count = await deps.forgetFiles(before(ages, days * DAY_MS));
    forgotMs = performance.now();
    if (count > 0) deps.log.info({ count }, "files of watched folders that are gone were forgotten");
  }

  function next(): void {
    running = round();
  }

  return {
    start() {
      running = guarded("the signature of the audit log", async () => signLog("start"))
        .then(() => guarded("the sweep of recordings", deps.uploads.sweepOrphans))
        .then(round);
    },
    async stop() {
      stopping.abort();
      clearTimeout(timer);
      await running;
    },
  };
}
