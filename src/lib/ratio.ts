/** Audio per work over the latest observations, each with the weight of its work. */
export type Ratio = {
  /** Both in milliseconds; nothing is counted unless both are positive. */
  add(audioMs: number, workMs: number): void;
  /** Undefined before the first observation. */
  value(): number | undefined;
};

/** Weight that older observations keep when a new one comes. */
const MEMORY = 0.9;

export function createRatio(): Ratio {
  let audio = 0;
  let work = 0;
  return {
    add(audioMs, workMs) {
      if (audioMs <= 0 || workMs <= 0) return;
      audio = audio * MEMORY + audioMs;
      work = work * MEMORY + workMs;
    },
    value: () => (work === 0 ? undefined : audio / work),
  };
}
