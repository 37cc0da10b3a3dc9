import { sql } from "drizzle-orm";
import { type ChannelMode, recognizedChannels } from "../domain/transcription.ts";
import { transcriptions } from "./schema.ts";

/**
 * Returns the billed time of a whole recording: its duration once for each channel that is recognized, milliseconds.
 * Speech that stays without text (gaps) is subtracted where a transcription ends.
 */
export function billedMsOf(row: { durationMs: number; channelMode: ChannelMode; channels: number }): number {
  return row.durationMs * recognizedChannels(row);
}

/** The same rule in SQL, over a row of `transcriptions`. */
export const BILLED_MS = sql<number>`(${transcriptions.durationMs} * CASE ${transcriptions.channelMode} WHEN 'separate' THEN ${transcriptions.channels} ELSE 1 END)`;
