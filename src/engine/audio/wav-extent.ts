import { type FileHandle, open } from "node:fs/promises";

/** How the length in a RIFF/WAVE header compares with the file. */
export type WavExtent = {
  /** The file contains more audio than its header names. */
  understated: boolean;
  /** The file is shorter than its header says. */
  overstated: boolean;
};

/** Writers that cannot seek back leave 0 or a size near the largest possible one. */
const PLACEHOLDER_BYTES = 0x7ff00000;
/** Up to this many bytes after the audio are padding of editors, not a recording. */
const MAX_STRAY_BYTES = 4096;
const MAX_CHUNKS = 1000;

/**
 * Compares a WAV header with its file. A recorder that lost power leaves the size of its last update in the header, and
 * decoders then stop there without a warning.
 *
 * @returns undefined when the file is not RIFF/WAVE, or has no data chunk
 */
export async function readWavExtent(path: string): Promise<WavExtent | undefined> {
  const file = await open(path, "r");
  try {
    const fileBytes = (await file.stat()).size;
    const head = await readAt(file, 0, 12);
    if (head.length < 12 || ascii(head, 0) !== "RIFF" || ascii(head, 8) !== "WAVE") return undefined;
    return await compare(file, fileBytes);
  } finally {
    await file.close();
  }
}

async function compare(file: FileHandle, fileBytes: number): Promise<WavExtent | undefined> {
  let offset = 12;
  let dataEnd: number | undefined;
  for (let count = 0; count < MAX_CHUNKS && fileBytes - offset >= 8; count++) {
    const head = await readAt(file, offset, 8);
    const bytes = head.readUInt32LE(4);
    const end = offset + 8 + bytes;
    const isData = ascii(head, 0) === "data";
    if (isData && dataEnd === undefined) {
      if (bytes === 0 || bytes >= PLACEHOLDER_BYTES) return { understated: false, overstated: false };
      if (end > fileBytes) return { understated: false, overstated: true };
      dataEnd = end;
    } else if (!/^[\x20-\x7e]{4}$/.test(ascii(head, 0)) || end > fileBytes) {
      // No chunk begins here. After the data, this is audio that the header does not count.
      break;
    }
    // Chunks begin at even offsets.
    offset = end + (bytes % 2);
  }
  if (dataEnd === undefined) return undefined;
  return { understated: fileBytes - offset > MAX_STRAY_BYTES, overstated: false };
}

async function readAt(file: FileHandle, offset: number, bytes: number): Promise<Buffer> {
  const { buffer, bytesRead } = await file.read(Buffer.alloc(bytes), 0, bytes, offset);
  return buffer.subarray(0, bytesRead);
}

function ascii(bytes: Buffer, offset: number): string {
  return bytes.toString("latin1", offset, offset + 4);
}
