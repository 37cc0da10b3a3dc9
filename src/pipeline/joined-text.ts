import type { Segment } from "../domain/result.ts";

/** The label of a channel before its text, such as `[channel 0] `; empty where channels were recognized together. */
export function channelLabel(channel: number | undefined): string {
  return channel === undefined ? "" : `[channel ${channel}] `;
}

/**
 * Joins the segments to one text, with spaces between them. With channel mode `separate` each segment is a line that begins
 * with its channel.
 */
export function joinedText(
  segments: readonly Pick<Segment, "channel" | "text">[],
  isSeparate: boolean,
): string {
  if (!isSeparate) return segments.map(({ text }) => text).join(" ");
  return segments.map(({ channel = 0, text }) => channelLabel(channel) + text).join("\n");
}
