import type { Log } from "../lib/log.ts";
import type { UploadService } from "../services/uploads/uploads.ts";

const EVERY_MS = 2_000;

/**
 * Resumes the verification of uploads in state `verifying`: at the start those that a stop or crash interrupted, later
 * those whose verification failed for a reason other than the file. The upload service runs the verifications.
 */
export type Verification = {
  start(): void;
  /** Resumes nothing more. Verifications under way end when the upload service is closed. */
  stop(): Promise<void>;
};

export function createVerification({
  uploads,
  log,
}: {
  uploads: Pick<UploadService, "resumeVerification">;
  log: Log;
}): Verification {
  let timer: Timer | undefined;

  function resume(): void {
    try {
      uploads.resumeVerification();
    } catch (error) {
      log.error({ err: error }, "verifications could not be resumed");
    }
  }

  return {
    start() {
      resume();
      timer = setInterval(resume, EVERY_MS);
    },
    stop() {
      clearInterval(timer);
      return Promise.resolve();
    },
  };
}
