/** Lets many pass together, or one alone: who wants to be alone waits for the others, and they for it. */
export type Gate = {
  /** Waits for its turn, rejects with the signal's reason when that aborts first; the returned function leaves. */
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
    enter(isAlone, signal) {
      if (signal.aborted) return Promise.reject(signal.reason);
      // Nobody overtakes one who waits: a lone chunk would starve behind a steady stream of others.
      if (waiting.length === 0 && mayEnter(isAlone)) return Promise.resolve(admit(isAlone));
      return new Promise((resolve, reject) => {
        const onAbort = () => {
          waiting.splice(waiting.indexOf(waiter), 1);
          reject(signal.reason);
          // It may have been the one for whom the others waited.
          admitWaiting();
        };
        const waiter: Waiter = {
          isAlone,
          admit: () => {
            signal.removeEventListener("abort", onAbort);
            resolve(admit(isAlone));
          },
        };
        signal.addEventListener("abort", onAbort, { once: true });
        waiting.push(waiter);
      });
    },
  };
}
