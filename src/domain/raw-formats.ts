/**
 * Formats of recordings without a header: nothing in such a file says what it is, so its sender has to. Telephone systems
 * write them.
 */
export type RawFormat = {
  /** FFmpeg's name of the demuxer. */
  demuxer: Demuxer;
  rateHz: number;
  channels: number;
  /** Bits of one code; only G.726 has several sizes. */
  codeBits?: number;
};

export const RAW_DEMUXERS = [
  "mulaw",
  "alaw",
  "s16le",
  "s16be",
  "g722",
  "g723_1",
  "g726",
  "g726le",
  "g729",
  "gsm",
] as const;
type Demuxer = (typeof RAW_DEMUXERS)[number];

/** Bounds of the decoder: `MIN_RATE_HZ`, `MAX_RATE_HZ` and `MAX_CHANNELS` in src/native/decoder/decoder.h. */
export const RAW_RATE_HZ = { min: 4_000, max: 768_000 };
export const RAW_CHANNELS = 32;

const mono = (demuxer: Demuxer, rateHz: number): RawFormat => ({ demuxer, rateHz, channels: 1 });
const g726 = (demuxer: Demuxer, kilobits: number): RawFormat => ({
  ...mono(demuxer, 8_000),
  codeBits: kilobits / 8,
});
const forEach = (names: readonly string[], format: RawFormat) => names.map((name) => [name, format] as const);

const G726_KILOBITS = [16, 24, 32, 40];
/** The rates of Asterisk's signed linear formats, by the number in their names. */
const SLN_RATES_HZ: Readonly<Record<string, number>> = {
  ...{ "": 8_000, 12: 12_000, 16: 16_000, 24: 24_000, 32: 32_000 },
  ...{ 44: 44_100, 48: 48_000, 96: 96_000, 192: 192_000 },
};

/** Formats by the extensions of their files, without dot. Asterisk's are those of its modules `format_*.c`. */
const BY_EXTENSION = new Map<string, RawFormat>([
  ...forEach(["ulaw", "ul", "ulw", "mulaw", "mu", "pcmu"], mono("mulaw", 8_000)),
  ...forEach(["alaw", "al", "alw", "pcma"], mono("alaw", 8_000)),
  ...forEach(["g722", "722"], mono("g722", 16_000)),
  ...forEach(["g723", "g723_1"], mono("g723_1", 8_000)),
  ["g729", mono("g729", 8_000)],
  ["gsm", mono("gsm", 8_000)],
  // FFmpeg writes the first code into the high bits. Asterisk writes it into the low ones, as RTP has it.
  ["g726", g726("g726", 32)],
  ...G726_KILOBITS.map((kilobits) => [`g726-${kilobits}`, g726("g726le", kilobits)] as const),
  ...Object.entries(SLN_RATES_HZ).flatMap(([number, rateHz]) =>
    forEach([`sln${number}`, `slin${number}`], mono("s16le", rateHz)),
  ),
]);

/** The extensions that no format with a signature has. */
export const RAW_EXTENSIONS: readonly string[] = [...BY_EXTENSION.keys()].filter((name) => name !== "gsm");

/** Media types by their lower-case names (RFC 3551 section 6, RFC 2046 section 4.3), with common unregistered ones. */
const BY_MEDIA_TYPE = new Map<string, RawFormat>([
  ...forEach(["audio/pcmu", "audio/basic", "audio/mulaw", "audio/x-mulaw"], mono("mulaw", 8_000)),
  ...forEach(["audio/pcma", "audio/alaw", "audio/x-alaw"], mono("alaw", 8_000)),
  // RTP counts its clock as 8 kHz, whatever it says. The sound has 16 kHz.
  ["audio/g722", mono("g722", 16_000)],
  ["audio/g723", mono("g723_1", 8_000)],
  ["audio/g729", mono("g729", 8_000)],
  ...forEach(["audio/gsm", "audio/x-gsm"], mono("gsm", 8_000)),
  ...G726_KILOBITS.flatMap((kilobits) => [
    [`audio/g726-${kilobits}`, g726("g726le", kilobits)] as const,
    [`audio/aal2-g726-${kilobits}`, g726("g726", kilobits)] as const,
  ]),
]);

/** Codings of which a file may have any rate and several channels. */
const HAS_PARAMETERS = new Set<Demuxer>(["mulaw", "alaw", "s16le", "s16be"]);

/** Returns the format that a file has by its name; undefined: the name says nothing. */
export function rawFormatOfName(fileName: string): RawFormat | undefined {
  const dot = fileName.lastIndexOf(".");
  return dot < 0 ? undefined : BY_EXTENSION.get(fileName.slice(dot + 1).toLowerCase());
}

/**
 * Returns the format that a media type names, such as `audio/L16;rate=8000;channels=1`; undefined where it names none, or
 * lacks what it takes to decode the sound. `audio/L16` needs a rate, and is big-endian without `endianness=little-endian`.
 */
export function rawFormatOfMediaType(mediaType: string): RawFormat | undefined {
  const [name = "", ...parameters] = mediaType.split(";").map((part) => part.trim().toLowerCase());
  const values = new Map(parameters.map(parameterOf));
  const base = name === "audio/l16" ? linear(values) : BY_MEDIA_TYPE.get(name);
  if (base === undefined || !HAS_PARAMETERS.has(base.demuxer)) return base;
  const rateHz = numberOf(values.get("rate"), base.rateHz);
  const channels = numberOf(values.get("channels"), base.channels);
  const isPossible =
    rateHz >= RAW_RATE_HZ.min && rateHz <= RAW_RATE_HZ.max && channels >= 1 && channels <= RAW_CHANNELS;
  return isPossible ? { ...base, rateHz, channels } : undefined;
}

/** Returns the format that a sender names: the media type goes before the file's name. */
export function rawFormatOf({
  name,
  mediaType,
}: {
  name?: string | undefined;
  mediaType?: string | undefined;
}): RawFormat | undefined {
  const named = mediaType === undefined ? undefined : rawFormatOfMediaType(mediaType);
  return named ?? (name === undefined ? undefined : rawFormatOfName(name));
}

/** RFC 2586: 16-bit samples, big-endian, of the rate that it says. Others send them little-endian, and say that. */
function linear(parameters: ReadonlyMap<string, string>): RawFormat | undefined {
  const endianness = parameters.get("endianness") ?? "big-endian";
  if (!parameters.has("rate") || !["big-endian", "little-endian"].includes(endianness)) return undefined;
  return mono(endianness === "big-endian" ? "s16be" : "s16le", 0);
}

function parameterOf(text: string): [string, string] {
  const at = text.indexOf("=");
  if (at < 0) return [text, ""];
  return [
    text.slice(0, at).trim(),
    text
      .slice(at + 1)
      .trim()
      .replace(/^"(.*)"$/, "$1"),
  ];
}

/** Returns a whole number; NaN for anything else. */
function numberOf(text: string | undefined, otherwise: number): number {
  if (text === undefined) return otherwise;
  return /^\d{1,6}$/.test(text) ? Number(text) : Number.NaN;
}
