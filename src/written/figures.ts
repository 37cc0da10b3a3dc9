/** How figures are grouped. */
export type Grouping = "indian" | "international";

/** Groups the digits of a whole number of five digits or more: 12,34,567, or 1,234,567. */
export function grouped(digits: string, grouping: Grouping): string {
  if (digits.length < 5) return digits;
  const head = digits.slice(0, -3);
  const step = grouping === "indian" ? /\B(?=(?:\d{2})+$)/gu : /\B(?=(?:\d{3})+$)/gu;
  return `${head.replace(step, ",")},${digits.slice(-3)}`;
}

/** Writes a number with at most four digits after the point, without zeros at the end. */
export function plainNumber(value: number): string {
  return String(Math.round(value * 1e4) / 1e4);
}

/** Writes a number as people do: grouped, with its decimals as they were said. */
export function figure(value: number, decimals: string | undefined, grouping: Grouping): string {
  const [whole = "", fraction] = plainNumber(value).split(".");
  const rest = decimals ?? fraction;
  return grouped(whole, grouping) + (rest === undefined ? "" : `.${rest}`);
}

/** Writes an amount of money: whole, or with two decimals. */
export function amount(value: number, grouping: Grouping): string {
  const hundredths = Math.round(value * 100);
  const rest = hundredths % 100;
  const whole = grouped(String((hundredths - rest) / 100), grouping);
  return rest === 0 ? whole : `${whole}.${String(rest).padStart(2, "0")}`;
}

export const twoDigits = (value: number) => String(value).padStart(2, "0");
