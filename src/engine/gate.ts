/** Lets many pass together, or one alone: who wants to be alone waits for the others, and they for it. */
export type Gate = {
  /** Waits for its turn; the returned function leaves. */
  enter(isAlone: boolean): Promise<() => void>;
};

export function createGate(): Gate {
  const waiting: { isAlone: boolean; admit: () => void }[] = [];
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
    enter(isAlone) {
      // Nobody overtakes one who waits: a lone chunk would starve behind a steady stream of others.
      if (waiting.length === 0 && mayEnter(isAlone)) return Promise.resolve(admit(isAlone));
      return new Promise((resolve) => waiting.push({ isAlone, admit: () => resolve(admit(isAlone)) }));
    },
  };
}
