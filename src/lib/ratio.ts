/** One sum per another over the latest observations, such as audio per work. Each has the weight of its divisor. */
export type Ratio = {
  /** Adds an observation, such as milliseconds of audio and of work. It counts only where `createRatio` says so. */
  add(dividend: number, divisor: number): void;
  /** Undefined before the first observation. */
  value(): number | undefined;
};

/** Weight that older observations keep when a new one comes. */
const MEMORY = 0.9;

/** @param countsZero observations with a dividend of zero count, too; else both numbers must be positive */
export function createRatio({ countsZero = false } = {}): Ratio {
  let dividends = 0;
  let divisors = 0;
  return {
    add(dividend, divisor) {
      if (divisor <= 0 || dividend < 0 || (dividend === 0 && !countsZero)) return;
      dividends = dividends * MEMORY + dividend;
      divisors = divisors * MEMORY + divisor;
    },
    value: () => (divisors === 0 ? undefined : dividends / divisors),
  };
}
