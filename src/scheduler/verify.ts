import type { Log } from "../lib/log.ts";
import type { UploadService } from "../services/uploads.ts";

const EVERY_MS = 2_000;

export type Verification = ReturnType<typeof createVerification>;

/**
 * Keeps the verification of uploads going: what a stop or a crash left in state `verifying` is taken up at the
 * start, and what failed through no fault of the file is tried again. The runs themselves are the service's.
 */
export function createVerification({ uploads, log }: { uploads: UploadService; log: Log }) {
  let timer: ReturnType<typeof setInterval> | undefined;

  function resume(): void {
    try {
      uploads.resumeVerification();
    } catch (error) {
      log.error({ err: error }, "verifications could not be resumed");
    }
  }

  return {
    start(): void {
      resume();
      timer = setInterval(resume, EVERY_MS);
    },
    /** No run is started any more; those under way end when the service is closed. */
    stop(): Promise<void> {
      clearInterval(timer);
      return Promise.resolve();
    },
  };
}
