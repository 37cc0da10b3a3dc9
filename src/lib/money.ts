const MS_PER_HOUR = 3_600_000n;

/**
 * Computes the price of audio, whole paise, rounded up (docs/decisions/money.md).
 *
 * @param pricePaisePerHour whole paise, not negative
 * @param billedMs whole milliseconds over all billed channels
 * @throws RangeError for values that are not whole, safe, non-negative numbers
 */
export function chargePaise(pricePaisePerHour: number, billedMs: number): number {
  for (const value of [pricePaisePerHour, billedMs]) {
    if (!Number.isSafeInteger(value) || value < 0) throw new RangeError(`not a whole amount: ${value}`);
  }
  const paise = (BigInt(pricePaisePerHour) * BigInt(billedMs) + MS_PER_HOUR - 1n) / MS_PER_HOUR;
  if (paise > BigInt(Number.MAX_SAFE_INTEGER)) throw new RangeError("the charge does not fit a safe integer");
  return Number(paise);
}
