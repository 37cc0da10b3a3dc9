import type { Log } from "../lib/log.ts";

/**
 * Holds back all work after an upgrade of the database, until the server has been ready once. Until then, nothing is
 * accepted, changed or sent, so that `shruti migrate --undo` and `install.sh` can go back without a loss.
 */
export type UpgradeHold = {
  isHeld(): boolean;
  /** Runs work now, or when the hold ends. */
  whenOver(work: () => void): void;
  /** Begins to check. `isReady` reports whether the server could take work. */
  start(isReady: () => boolean): void;
  stop(): void;
};

/** A server that does not get ready still answers what it can after this time: the upgrade is then kept. */
const LONGEST_MS = 5 * 60_000;
const LOOK_EVERY_MS = 100;

/**
 * @param hold undefined: there is nothing to wait for
 * @param hold.confirm is called when the hold ends, before any work; when it throws, the hold continues
 */
export function createUpgradeHold(
  log: Log,
  hold: { confirm: () => void } | undefined,
  longestMs = LONGEST_MS,
): UpgradeHold {
  let isHeld = hold !== undefined;
  const waiting: (() => void)[] = [];
  let timer: Timer | undefined;

  function end(): void {
    hold?.confirm();
    clearInterval(timer);
    isHeld = false;
    for (const work of waiting.splice(0)) work();
  }

  return {
    isHeld: () => isHeld,
    whenOver(work) {
      if (isHeld) waiting.push(work);
      else work();
    },
    start(isReady) {
      if (!isHeld) return;
      log.info("the database has been upgraded: no work is accepted before the server has been ready once");
      const startedMs = performance.now();
      timer = setInterval(() => {
        const isLate = performance.now() - startedMs > longestMs;
        if (!isLate && !isReady()) return;
        try {
          end();
          if (isLate)
            log.warn("not ready after an upgrade for too long: the upgrade is kept, work is accepted");
          else log.info("ready after an upgrade: it is kept, work is accepted");
        } catch (error) {
          log.error({ err: error }, "the upgrade could not be confirmed; this is repeated");
        }
      }, LOOK_EVERY_MS);
    },
    stop: () => clearInterval(timer),
  };
}
