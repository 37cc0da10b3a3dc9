/** Small files that take a decoder much time. A hostile client sends them to make others wait. */

/** Makes an MPEG-1 Layer III frame of silence, mono, 32 kbit/s. */
function mp3Frame(rateIndex: 0 | 1 | 2): Uint8Array {
  const rateHz = [44_100, 48_000, 32_000][rateIndex] ?? 0;
  const frame = new Uint8Array(Math.floor((144 * 32_000) / rateHz));
  frame.set([0xff, 0xfb, 0x10 | (rateIndex << 2), 0xc0]);
  return frame;
}

/** Makes an MP3 of this many bytes whose sample rate changes with each frame. */
export function changingMp3(bytes: number): Uint8Array<ArrayBuffer> {
  const pair = [...mp3Frame(0), ...mp3Frame(1)];
  return Uint8Array.from({ length: bytes }, (_, index) => pair[index % pair.length] ?? 0);
}

/** Computes a CRC without reflection and with an initial value of 0 (RFC 9639, section 9). */
function crc(bytes: readonly number[], polynomial: number, bits: 8 | 16): number {
  const top = 1 << (bits - 1);
  const mask = (1 << bits) - 1;
  let value = 0;
  for (const byte of bytes) {
    value ^= byte << (bits - 8);
    for (let bit = 0; bit < 8; bit++) {
      value = (value & top ? (value << 1) ^ polynomial : value << 1) & mask;
    }
  }
  return value;
}

/** Encodes a frame number of up to 16 bits in the form of UTF-8 that FLAC uses. */
function coded(number: number): number[] {
  if (number < 0x80) return [number];
  if (number < 0x800) return [0xc0 | (number >> 6), 0x80 | (number & 0x3f)];
  return [0xe0 | (number >> 12), 0x80 | ((number >> 6) & 0x3f), 0x80 | (number & 0x3f)];
}

const SHORT_BLOCK = 16;

/** Makes the header of a 16-bit FLAC of unknown length. */
function flacFile(
  block: number,
  rateHz: number,
  channels: number,
  frames: number[][],
): Uint8Array<ArrayBuffer> {
  const info = new DataView(new ArrayBuffer(34));
  info.setUint16(0, block);
  info.setUint16(2, block);
  // 20 bits of rate, 3 of channels minus one, 5 of bits minus one, 36 of samples: 0 means unknown.
  info.setUint32(10, ((rateHz << 12) | ((channels - 1) << 9) | (15 << 4)) >>> 0);
  const head = [0x66, 0x4c, 0x61, 0x43, 0x80, 0, 0, 34, ...new Uint8Array(info.buffer)];
  return Uint8Array.from([head, ...frames].flat());
}

/** Makes a mono FLAC frame of 16 equal samples, at 44,100 Hz or 48,000 Hz in turns. */
function flacFrame(number: number): number[] {
  // The block size follows the number in 8 bits; the rate is given by its code; one channel of 16 bits.
  const head = [0xff, 0xf8, 0x60 | (number % 2 === 0 ? 9 : 10), 0x08, ...coded(number), SHORT_BLOCK - 1];
  head.push(crc(head, 0x07, 8));
  const frame = [...head, 0x00, number & 0x3f, 0];
  const check = crc(frame, 0x8005, 16);
  return [...frame, check >> 8, check & 0xff];
}

/** Makes a FLAC of up to 65,536 frames, 14 bytes each, whose sample rate changes with each frame. */
export function changingFlac(frames: number): Uint8Array<ArrayBuffer> {
  return flacFile(
    SHORT_BLOCK,
    44_100,
    1,
    Array.from({ length: frames }, (_, number) => flacFrame(number)),
  );
}

const LONGEST_BLOCK = 65_535;
const MOST_CHANNELS = 8;
const HIGHEST_RATE_HZ = 655_350;

/** Makes a frame of a tenth of a second in which each channel has one value: 41 bytes that decode to a megabyte. */
function denseFrame(number: number): number[] {
  const last = LONGEST_BLOCK - 1;
  // The block size follows the number in 16 bits; the rate is that of STREAMINFO; 8 channels of 16 bits.
  const head = [0xff, 0xf8, 0x70, 0x78, ...coded(number), last >> 8, last & 0xff];
  head.push(crc(head, 0x07, 8));
  const channels = Array.from({ length: MOST_CHANNELS }, (_, channel) => [0x00, number & 0x3f, channel]);
  const frame = [...head, ...channels.flat()];
  const check = crc(frame, 0x8005, 16);
  return [...frame, check >> 8, check & 0xff];
}

/** Makes a FLAC of this many tenths of a second, with the highest rate and the most channels of the format. */
export function denseFlac(frames: number): Uint8Array<ArrayBuffer> {
  return flacFile(
    LONGEST_BLOCK,
    HIGHEST_RATE_HZ,
    MOST_CHANNELS,
    Array.from({ length: frames }, (_, number) => denseFrame(number)),
  );
}

const ascii = (text: string): number[] => [...new TextEncoder().encode(text)];
const uint32 = (...values: number[]): number[] =>
  values.flatMap((value) => [(value >>> 24) & 255, (value >>> 16) & 255, (value >>> 8) & 255, value & 255]);
const uint16 = (...values: number[]): number[] =>
  values.flatMap((value) => [(value >> 8) & 255, value & 255]);

/** Makes a box of ISO/IEC 14496-12. */
function box(type: string, ...content: number[][]): number[] {
  const inside = content.flat();
  return [...uint32(8 + inside.length), ...ascii(type), ...inside];
}

/** Makes a box with version and flags. */
const fullBox = (type: string, ...content: number[][]) => box(type, uint32(0), ...content);

const MATRIX = uint32(0x10000, 0, 0, 0, 0x10000, 0, 0, 0, 0x40000000);

/** Makes an MP4 of less than a kilobyte whose tables claim this many samples. A reader that lists them needs memory for all. */
export function hugeIndexMp4(samples: number): Uint8Array<ArrayBuffer> {
  const rateHz = 8_000;
  const entry = box("mp4a", [0, 0, 0, 0, 0, 0], uint16(1, 0, 0, 0, 0, 1, 16, 0, 0), uint32(rateHz << 16));
  const tables = box(
    "stbl",
    fullBox("stsd", uint32(1), entry),
    fullBox("stts", uint32(1, samples, 2)),
    fullBox("stsc", uint32(1, 1, samples, 1)),
    // Every sample is one byte, and one chunk holds all samples.
    fullBox("stsz", uint32(1, samples)),
    fullBox("stco", uint32(1, 40)),
  );
  const media = box(
    "mdia",
    fullBox("mdhd", uint32(0, 0, rateHz, samples), uint16(0x55c4, 0)),
    fullBox("hdlr", uint32(0), ascii("soun"), uint32(0, 0, 0), [0]),
    box(
      "minf",
      fullBox("smhd", uint32(0)),
      box("dinf", fullBox("dref", uint32(1), box("url ", uint32(1)))),
      tables,
    ),
  );
  const track = fullBox("tkhd", uint32(0, 0, 1, 0, samples, 0, 0, 0, 0x01000000), MATRIX, uint32(0, 0));
  const header = fullBox(
    "mvhd",
    uint32(0, 0, rateHz, samples, 0x10000, 0x01000000, 0, 0),
    MATRIX,
    uint32(0, 0, 0, 0, 0, 0, 2),
  );
  return Uint8Array.from([
    ...box("ftyp", ascii("isom"), uint32(512), ascii("isom")),
    ...box(
      "mdat",
      Array.from({ length: 64 }, () => 1),
    ),
    ...box("moov", header, box("trak", track, media)),
  ]);
}
