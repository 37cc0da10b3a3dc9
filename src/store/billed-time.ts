import { sql } from "drizzle-orm";
import { transcriptions } from "./schema.ts";

/** The rule of `billedMsOf` (domain/transcription.ts) in SQL, over a row of `transcriptions`. */
export const BILLED_MS = sql<number>`(${transcriptions.durationMs} * CASE ${transcriptions.channelMode} WHEN 'separate' THEN ${transcriptions.channels} ELSE 1 END)`;

/**
 * The rule of `chargePaise` (lib/money.ts) in SQL, as text.
 *
 * @param price SQL of the price, whole paise for an hour
 * @param billedMs SQL of the audio, whole milliseconds
 */
export function chargeSql(price: string, billedMs: string): string {
  // The price is divided first: the product of both may be larger than SQLite's integers.
  const ofHours = `(${price}) / 3600000 * (${billedMs})`;
  return `(${ofHours} + ((${price}) % 3600000 * (${billedMs}) + 3599999) / 3600000)`;
}
