import { beginWait } from "../lib/abort.ts";

/** Admits many callers together, or one alone. Callers are admitted in the order in which they came. */
export type Gate = {
  /**
   * Waits for admission.
   *
   * @returns a function that leaves the gate; further calls of it do nothing
   * @throws the signal's reason when it is aborted first
   */
  enter(isAlone: boolean, signal: AbortSignal): Promise<() => void>;
};

type Waiter = { isAlone: boolean; admit: () => void };

export function createGate(): Gate {
  const waiting: Waiter[] = [];
  let inside = 0;
  let isTaken = false;

  const mayEnter = (isAlone: boolean) => !isTaken && (!isAlone || inside === 0);

  function admitWaiting(): void {
    for (let next = waiting[0]; next && mayEnter(next.isAlone); next = waiting[0]) {
      waiting.shift();
      next.admit();
    }
  }

  function admit(isAlone: boolean): () => void {
    inside++;
    isTaken = isAlone;
    let hasLeft = false;
    return () => {
      if (hasLeft) return;
      hasLeft = true;
      inside--;
      if (isAlone) isTaken = false;
      admitWaiting();
    };
  }

  return {
    async enter(isAlone, signal) {
      signal.throwIfAborted();
      // No caller overtakes another. Otherwise one that wants to be alone could wait forever.
      if (waiting.length === 0 && mayEnter(isAlone)) return admit(isAlone);
      const wait = beginWait<() => void>(signal, () => {
        waiting.splice(waiting.indexOf(waiter), 1);
        // Others may have waited only for this caller.
        admitWaiting();
      });
      const waiter: Waiter = { isAlone, admit: () => wait.resolve(admit(isAlone)) };
      waiting.push(waiter);
      return wait.promise;
    },
  };
}
