import type { Warning } from "../domain/result.ts";

/**
 * Channels of a `separate` request that carry the same sound are transcribed once and written twice: the request, its
 * answer and its price stay what they are, the work is halved.
 */
export function hasTwinChannel(
  warnings: readonly Warning[],
  chunks: readonly { channel: number }[],
): boolean {
  // Chunks of an earlier version's checkpoint may hold both.
  return warnings.includes("identical_channels") && chunks.every(({ channel }) => channel === 0);
}

/** The first channel's chunks, and the same for the second, in order. */
export function withTwins<
  S extends { channel?: number },
  C extends { channel: number; segments?: S[] | null },
>(chunks: readonly C[]): C[] {
  return chunks.flatMap((chunk) => {
    const segments = chunk.segments?.map((segment) => ({ ...segment, channel: 1 }));
    return [chunk, { ...chunk, channel: 1, ...(segments ? { segments } : {}) }];
  });
}
