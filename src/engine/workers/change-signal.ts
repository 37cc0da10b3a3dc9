/** Lets several callers wait for the next change of something. */
export type ChangeSignal = {
  /** Resolves with the next call of `notify`, or after the interval. */
  wait(): Promise<void>;
  /** Wakes all callers that wait. */
  notify(): void;
};

/** @param everyMs the longest wait, for changes without a call of `notify` */
export function createChangeSignal(everyMs: number): ChangeSignal {
  const waiting = new Set<() => void>();
  return {
    wait() {
      return new Promise((resolve) => {
        const wake = () => {
          waiting.delete(wake);
          clearTimeout(timer);
          resolve();
        };
        const timer = setTimeout(wake, everyMs);
        waiting.add(wake);
      });
    },
    notify() {
      for (const wake of [...waiting]) wake();
    },
  };
}
