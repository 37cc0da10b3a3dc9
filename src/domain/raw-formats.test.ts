import { expect, test } from "bun:test";
import { readDocument } from "../testing/rules/documents.ts";
import {
  RAW_EXTENSIONS,
  type RawFormat,
  rawFormatOf,
  rawFormatOfMediaType,
  rawFormatOfName,
} from "./raw-formats.ts";

const mono = (demuxer: RawFormat["demuxer"], rateHz: number): RawFormat => ({ demuxer, rateHz, channels: 1 });

test.each<[string, RawFormat | undefined]>([
  ["call.ulaw", mono("mulaw", 8_000)],
  ["CALL.UL", mono("mulaw", 8_000)],
  ["a/b.c/call.al", mono("alaw", 8_000)],
  ["call.g722", mono("g722", 16_000)],
  ["call.g726", { ...mono("g726", 8_000), codeBits: 4 }],
  ["call.g726-40", { ...mono("g726le", 8_000), codeBits: 5 }],
  ["call.sln", mono("s16le", 8_000)],
  ["call.sln44", mono("s16le", 44_100)],
  ["call.sln192", mono("s16le", 192_000)],
  ["call.gsm", mono("gsm", 8_000)],
  // Such a name says no rate.
  ["call.raw", undefined],
  ["call.pcm", undefined],
  ["call.wav", undefined],
  ["ulaw", undefined],
  ["call.", undefined],
])("the name %s", (name, format) => {
  expect(rawFormatOfName(name)).toEqual(format);
});

test.each<[string, RawFormat | undefined]>([
  ["audio/PCMU", mono("mulaw", 8_000)],
  ["audio/basic", mono("mulaw", 8_000)],
  ["audio/PCMA; rate=16000; channels=2", { demuxer: "alaw", rateHz: 16_000, channels: 2 }],
  ["AUDIO/G722;rate=8000", mono("g722", 16_000)],
  ["audio/G726-32", { ...mono("g726le", 8_000), codeBits: 4 }],
  ["audio/AAL2-G726-16", { ...mono("g726", 8_000), codeBits: 2 }],
  ["audio/L16;rate=8000;channels=1", mono("s16be", 8_000)],
  ['audio/L16; rate="16000"; endianness=little-endian', mono("s16le", 16_000)],
  ["audio/L16", undefined],
  ["audio/L16;rate=0", undefined],
  ["audio/L16;rate=-8000", undefined],
  ["audio/L16;rate=8e3", undefined],
  ["audio/L16;rate=8000;channels=0", undefined],
  ["audio/L16;rate=8000;channels=33", undefined],
  ["audio/L16;rate=8000;endianness=middle", undefined],
  ["audio/PCMU;rate=100", undefined],
  ["application/octet-stream", undefined],
  ["audio/wav", undefined],
  ["", undefined],
])("the media type %s", (mediaType, format) => {
  expect(rawFormatOfMediaType(mediaType)).toEqual(format);
});

test("the table of formats in the document has every extension", () => {
  const text = readDocument("docs/decisions/recordings.md");
  const isLinear = (name: string) => /^slin|^sln\d/.test(name);
  for (const extension of RAW_EXTENSIONS) {
    if (!isLinear(extension)) expect(text).toContain(`\`.${extension}\``);
  }
});

test("a media type that names a format goes before the name", () => {
  expect(rawFormatOf({ name: "call.ulaw", mediaType: "audio/PCMA" })).toEqual(mono("alaw", 8_000));
  expect(rawFormatOf({ name: "call.ulaw", mediaType: "application/octet-stream" })).toEqual(
    mono("mulaw", 8_000),
  );
  expect(rawFormatOf({})).toBeUndefined();
});
