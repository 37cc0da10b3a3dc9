/** Errors and tokens of one recording. */
export type Counted = { errors: number; total: number };

/** The bounds between which an error rate lies with 95 % confidence, as shares. */
export type Interval = { low: number; high: number };

const ROUNDS = 2000;
const TAIL = 0.025;

/**
 * Estimates the 95 % interval of an error rate by the bootstrap: it draws as many recordings as there are, with repetition,
 * again and again, and takes the middle 95 % of the rates. Whole recordings are drawn, because errors within one depend on
 * each other. The same recordings give the same interval.
 *
 * @returns undefined for fewer than two recordings, or without any word
 */
export function errorInterval(recordings: readonly Counted[]): Interval | undefined {
  if (recordings.length < 2 || recordings.every(({ total }) => total === 0)) return undefined;
  const random = generator();
  const rates: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    let [errors, total] = [0, 0];
    for (let n = 0; n < recordings.length; n++) {
      const drawn = recordings[Math.floor(random() * recordings.length)] as Counted;
      errors += drawn.errors;
      total += drawn.total;
    }
    if (total > 0) rates.push(errors / total);
  }
  rates.sort((a, b) => a - b);
  const at = (share: number) => rates[Math.min(rates.length - 1, Math.floor(share * rates.length))] ?? 0;
  return { low: at(TAIL), high: at(1 - TAIL) };
}

/** mulberry32: numbers from 0 to below 1, the same each time. */
function generator(): () => number {
  let state = 20_261_122;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
