import type { RawFormat } from "../../domain/raw-formats.ts";
import type { Reading, TrackChoice } from "../../domain/reading.ts";
import type { DecoderReport } from "./decoder-report.ts";

/**
 * Writes how a file is read as the decoder takes it: two arguments (src/native/decoder/main.c).
 *
 * @param choice where the tracks are not known yet
 */
export function readingArguments(
  { format, track, mixed }: Reading,
  choice: TrackChoice = "one",
): [format: string, tracks: string] {
  return [format ? formatArgument(format) : "-", mixed?.join(",") ?? track?.toString() ?? choice];
}

const formatArgument = ({ demuxer, rateHz, channels, codeBits = 0 }: RawFormat) =>
  [demuxer, rateHz, channels, codeBits].join(",");

/** Returns how the decoder has read a file that it was asked to read in a way. */
export function foundReading(asked: Reading, report: DecoderReport): Reading {
  const { format, ...tracks } = asked;
  const isKnown = asked.track !== undefined || asked.mixed !== undefined;
  return {
    // A file that says itself what it is has no other format, whatever its sender says.
    ...(format && report.is_raw ? { format } : {}),
    ...(isKnown ? tracks : foundTracks(report)),
  };
}

function foundTracks({ track, left_out: leftOut = [], mixed }: DecoderReport): Reading {
  if (mixed !== undefined) return { mixed };
  return track === undefined ? {} : { track, leftOut };
}
