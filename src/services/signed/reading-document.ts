import type { Reading } from "../../domain/reading.ts";
import type { ReadingDocument } from "./evidence.ts";

/** Writes how a file is read for documents. */
export function readingDocument({ format, track, leftOut, mixed }: Reading): ReadingDocument {
  return {
    ...(format === undefined ? {} : { format: formatDocument(format) }),
    ...(track === undefined ? {} : { track }),
    ...(leftOut === undefined ? {} : { left_out: leftOut }),
    ...(mixed === undefined ? {} : { mixed }),
  };
}

function formatDocument({ demuxer, rateHz, channels, codeBits }: NonNullable<Reading["format"]>) {
  return { demuxer, rate_hz: rateHz, channels, ...(codeBits === undefined ? {} : { code_bits: codeBits }) };
}

/** Reads what `readingDocument` has written. */
export function readingOfDocument({ format, track, left_out, mixed }: ReadingDocument): Reading {
  const { demuxer, rate_hz: rateHz, channels, code_bits: codeBits } = format ?? {};
  const isNamed = demuxer !== undefined && rateHz !== undefined && channels !== undefined;
  return {
    ...(isNamed
      ? { format: { demuxer, rateHz, channels, ...(codeBits === undefined ? {} : { codeBits }) } }
      : {}),
    ...(track === undefined ? {} : { track }),
    ...(left_out === undefined ? {} : { leftOut: left_out }),
    ...(mixed === undefined ? {} : { mixed }),
  };
}
