/** Changes what MP4 and QuickTime files play of their media (ISO/IEC 14496-12 section 8.6.6). */

/** A stretch of `seconds`: the media from a second on, silence (`empty`), or one moment of the media (`dwell`). */
export type Edit = { seconds: number; from: number | "empty" | { dwell: number } };

function boxAt(
  bytes: Buffer,
  path: string[],
  start = 0,
  end = bytes.length,
): { at: number; bytes: number } | undefined {
  for (let at = start; at + 8 <= end; ) {
    const size = bytes.readUInt32BE(at);
    if (bytes.toString("latin1", at + 4, at + 8) === path[0]) {
      return path.length === 1 ? { at, bytes: size } : boxAt(bytes, path.slice(1), at + 8, at + size);
    }
    at += size;
  }
  return undefined;
}

function found(bytes: Buffer, ...path: string[]): { at: number; bytes: number } {
  const box = boxAt(bytes, path);
  if (box === undefined) throw new Error(`the file has no box ${path.join(", ")}`);
  return box;
}

function box(type: string, ...contents: Buffer[]): Buffer {
  const content = Buffer.concat(contents);
  const head = Buffer.alloc(8);
  head.writeUInt32BE(content.length + 8, 0);
  head.write(type, 4, "latin1");
  return Buffer.concat([head, content]);
}

/** Replaces the edit list of the only track of a file whose index is behind its media. @param version 0 or 1 */
export function edited(bytes: Buffer, edits: Edit[], version: number): Buffer {
  const movieHz = bytes.readUInt32BE(found(bytes, "moov", "mvhd").at + 20);
  const mediaHz = bytes.readUInt32BE(found(bytes, "moov", "trak", "mdia", "mdhd").at + 20);
  const entries = edits.map(({ seconds, from }) => {
    const entry = Buffer.alloc(version === 1 ? 20 : 12);
    const time = from === "empty" ? -1 : Math.round((typeof from === "number" ? from : from.dwell) * mediaHz);
    const duration = Math.round(seconds * movieHz);
    if (version === 1) {
      entry.writeBigUInt64BE(BigInt(duration), 0);
      entry.writeBigInt64BE(BigInt(time), 8);
    } else {
      entry.writeUInt32BE(duration, 0);
      entry.writeInt32BE(time, 4);
    }
    entry.writeInt16BE(typeof from === "object" ? 0 : 1, entry.length - 4);
    return entry;
  });
  const count = Buffer.alloc(8);
  count.writeUInt8(version, 0);
  count.writeUInt32BE(edits.length, 4);
  const list = box("edts", box("elst", count, ...entries));
  const old = boxAt(bytes, ["moov", "trak", "edts"]);
  const track = found(bytes, "moov", "trak");
  const header = found(bytes, "moov", "trak", "tkhd");
  const at = old?.at ?? header.at + header.bytes;
  const out = Buffer.concat([bytes.subarray(0, at), list, bytes.subarray(at + (old?.bytes ?? 0))]);
  const grown = list.length - (old?.bytes ?? 0);
  out.writeUInt32BE(track.bytes + grown, track.at);
  const movie = found(bytes, "moov");
  out.writeUInt32BE(movie.bytes + grown, movie.at);
  return out;
}
