import { eq, sql } from "drizzle-orm";
import type { Outline, Speech } from "../domain/outline.ts";
import { inSlices } from "../lib/in-slices.ts";
import type { Store } from "./database.ts";
import { outlines } from "./schema.ts";

/** The shape of a recording's sound, without its points. */
export type StoredWaveform = Omit<Outline, "points"> & { speech: Speech | null };

/**
 * Keeps the outline of a transcription's recording until its content is deleted. An outline that is there already stays:
 * a recording has only one.
 *
 * @param speech as `speechText` writes it; null where it has not been looked for
 */
export function insertOutline(
  tx: Store,
  transcriptionId: string,
  { peakSamples, lanes, points }: Outline,
  speech: string | null,
  nowMs: number,
): void {
  const found = speech === null ? null : sql<Speech>`${speech}`;
  const peaks = Buffer.concat(lanes);
  tx.insert(outlines)
    .values({
      ...{
        transcriptionId,
        peakSamples,
        lanes: lanes.length,
        peaks,
        points: Buffer.from(points),
        speech: found,
      },
      createdAt: nowMs,
    })
    .onConflictDoUpdate({
      target: outlines.transcriptionId,
      set: found === null ? { peakSamples } : { speech: found },
    })
    .run();
}

/** Writes where speech is, for `insertOutline`. Other work runs meanwhile: a long recording has 100,000s of stretches. */
export async function speechText(speech: Speech): Promise<string> {
  const lanes: string[] = [];
  for (const lane of speech) {
    const stretches = await inSlices(lane, (slice) => slice.map((stretch) => JSON.stringify(stretch)));
    lanes.push(`[${stretches.join(",")}]`);
  }
  return `[${lanes.join(",")}]`;
}

export function findWaveform(store: Store, transcriptionId: string): StoredWaveform | undefined {
  const { peakSamples, lanes, peaks, speech } = outlines;
  const row = store
    .select({ peakSamples, lanes, peaks, speech })
    .from(outlines)
    .where(eq(outlines.transcriptionId, transcriptionId))
    .get();
  if (!row) return undefined;
  const length = row.peaks.length / row.lanes;
  return {
    peakSamples: row.peakSamples,
    lanes: Array.from({ length: row.lanes }, (_, lane) =>
      row.peaks.subarray(lane * length, (lane + 1) * length),
    ),
    speech: row.speech,
  };
}

/** Returns the points from which a recording can be decoded; undefined while it has no outline. */
export function findPoints(store: Store, transcriptionId: string): Uint8Array | undefined {
  return store
    .select({ points: outlines.points })
    .from(outlines)
    .where(eq(outlines.transcriptionId, transcriptionId))
    .get()?.points;
}

export function deleteOutline(tx: Store, transcriptionId: string): void {
  tx.delete(outlines).where(eq(outlines.transcriptionId, transcriptionId)).run();
}
