import { rename } from "node:fs/promises";
import { SAMPLE_RATE_HZ } from "../domain/chunk.ts";
import { DecodeError, refuseFailure } from "./decode-failure.ts";
import { exactFilter, type Levels, readExact, SILENCE_DB } from "./measures.ts";
import { type MediaLimits, runMediaProgram } from "./media-process.ts";

/** Tracks whose loudest 50 ms lie below it are amplified. */
const QUIET_BELOW_DB = -36;
/** What an amplified track's loudest moment comes to: speech there peaks some 10 dB higher, far from clipping. */
const AMPLIFIED_TO_DB = -20;
/** A channel on which nobody speaks stays quiet. */
const MAX_GAIN_DB = 40;
/** Loud samples stand some 10 dB above the level of their 50 ms: where one in a thousand is so loud, a moment is. */
const LOUD_FROM_DB = QUIET_BELOW_DB + 12;

/** Whether a track may have to be amplified; false for most, which need no closer look then. */
export function mayBeQuiet({ peakDb, loudDb }: Pick<Levels, "peakDb" | "loudDb">): boolean {
  return peakDb > SILENCE_DB && loudDb < LOUD_FROM_DB;
}

/**
 * By how much a decoded track is amplified: the far end of a call is often 30 dB below the near one. Speech detector
 * and decoder were measured on four samples (212 words): 6 errors at the samples' own level, 7 at 30 dB less, 17 at
 * 40 dB less, 113 at 50 dB less; amplified again, 6, 6 and 9.
 *
 * @param loudestDb level of the loudest 50 ms: speech, where there is any, whatever the silence around it
 * @returns dB; 0 for a track that is loud enough, or silent
 */
export function gainFor(loudestDb: number): number {
  if (loudestDb >= QUIET_BELOW_DB || loudestDb <= SILENCE_DB) return 0;
  return Math.min(AMPLIFIED_TO_DB - loudestDb, MAX_GAIN_DB);
}

/** What `amplifyQuiet` leaves beside a file while it works on it. */
export function amplifiedName(file: string): string {
  return `${file}.amplified.unfinished`;
}

/**
 * Measures a decoded file and puts its samples higher where it is quiet; ffmpeg again, so that no sample passes
 * through this process.
 *
 * @param limits those that are left, asked before each of the two steps
 * @throws DecodeError
 */
export async function amplifyQuiet(
  ffmpeg: string,
  file: string,
  limits: () => MediaLimits,
  signal: AbortSignal | undefined,
): Promise<void> {
  const filter = async (filters: string, output: string[]) => {
    const outcome = await runMediaProgram(
      filterCommand(ffmpeg, file, filters, output),
      limits(),
      () => true,
      signal,
    );
    refuseFailure(outcome);
    if (outcome.status !== 0) throw new DecodeError("undecodable", "The decoder broke down on this file.");
    return outcome;
  };
  const heard = await filter(exactFilter("loudest", "RMS_peak"), ["-f", "null", "-"]);
  const loudest = readExact(heard, "loudest").map((values) => values.get("RMS peak dB") ?? SILENCE_DB);
  const gainDb = gainFor(Math.max(SILENCE_DB, ...loudest));
  if (gainDb === 0) return;
  const target = amplifiedName(file);
  await filter(`volume=${gainDb.toFixed(2)}dB`, ["-c:a", "pcm_s16le", "-f", "s16le", "-y", `file:${target}`]);
  await rename(target, file);
}

function filterCommand(ffmpeg: string, file: string, filters: string, output: string[]): string[] {
  return [
    ...[ffmpeg, "-nostdin", "-hide_banner", "-loglevel", "info", "-nostats", "-threads", "1"],
    ...["-f", "s16le", "-ar", String(SAMPLE_RATE_HZ), "-ac", "1", "-i", `file:${file}`],
    ...["-af", filters, ...output],
  ];
}
