import { sql } from "drizzle-orm";
import { transcriptions } from "./schema.ts";

/** The rule of `billedMsOf` (domain/transcription.ts) in SQL, over a row of `transcriptions`. */
export const BILLED_MS = sql<number>`(${transcriptions.durationMs} * CASE ${transcriptions.channelMode} WHEN 'separate' THEN ${transcriptions.channels} ELSE 1 END)`;
