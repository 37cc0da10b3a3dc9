import type { Warning } from "../domain/result.ts";

/**
 * Reports whether the two channels of a `separate` request are identical, and only the first was recognized. Its text is
 * then used for both. The response and the price do not change.
 */
export function hasTwinChannel(
  warnings: readonly Warning[],
  chunks: readonly { channel: number }[],
): boolean {
  // The checkpoint of an earlier version may have chunks of both channels.
  return warnings.includes("identical_channels") && chunks.every(({ channel }) => channel === 0);
}

/** Returns the chunks of the first channel, each followed by its copy for the second channel. */
export function withTwins<
  S extends { channel?: number },
  C extends { channel: number; segments?: S[] | null },
>(chunks: readonly C[]): C[] {
  return chunks.flatMap((chunk) => {
    const segments = chunk.segments?.map((segment) => ({ ...segment, channel: 1 }));
    return [chunk, { ...chunk, channel: 1, ...(segments ? { segments } : {}) }];
  });
}
