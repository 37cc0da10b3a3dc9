import { expect, test } from "bun:test";
import type { ModelManifest } from "../../domain/model.ts";
import { parseManifest, renderManifest } from "./model-manifest.ts";

const manifest: ModelManifest = {
  id: "indic-small",
  name: 'An "Indic" model \\ ‘small’',
  version: "1.2.0",
  sha256: "ab".repeat(32),
  languages: [
    { code: "hi", name: "Hindi", modes: ["native", "codemix"] },
    { code: "or", name: "Odia", modes: ["native"], decoderLanguage: "hi" },
    { code: "fr", name: "French", modes: ["verbatim"] },
  ],
  licence: "MIT",
  source: "https://example.org/model",
  notice: "Good for calls.",
  family: "whisper",
  decoding: {
    unknownToken: "…",
    unknownBelow: 0.6,
    whisper: { beamSize: 2, temperatureIncrement: 0.2, entropyThreshold: 1.5, acceptsPrompt: false },
  },
};
const source = renderManifest(manifest);

test("a written manifest can be read", () => {
  expect(parseManifest(source, "m.toml")).toEqual(manifest);
  const { notice: _, ...plain } = { ...manifest, decoding: {} };
  expect(parseManifest(renderManifest(plain), "m.toml")).toEqual(plain);
});

test("the family may be named, and is whisper by default", () => {
  const named = source.replace('licence = "MIT"', 'licence = "MIT"\nfamily = "whisper"');
  expect(parseManifest(named, "m.toml")).toEqual(parseManifest(source, "m.toml"));
});

test("a known language takes its name from the program", () => {
  const { languages } = parseManifest(source.replace('name = "Hindi"\n', ""), "m.toml");
  expect(languages[0]?.name).toBe("Hindi");
});

const FAULTS: [from: string, to: string, words: string][] = [
  ['id = "indic-small"', 'id = "../x"', "m.toml:1: id must be 1 to 64"],
  ['version = "1.2.0"', "version = 1.2", "m.toml:3: version must be a text"],
  ['licence = "MIT"\n', "", "m.toml:1: licence is missing"],
  ["notice", "notise", "m.toml:7: notise is unknown"],
  ['code = "hi"', 'code = "or"', "m.toml:14: languages.0.decoder_language is missing"],
  ['code = "fr"\nname = "French"', 'code = "fr"', "languages.2.name is missing"],
  ['code = "fr"', 'code = "hi"', "languages.2.code is given twice"],
  ['["verbatim"]', '["verbose"]', "languages.2.modes must be a list of native, codemix, verbatim"],
  ["[[languages]]", "[[tongues]]", "m.toml"],
  ["beam_size = 2", "beam_size = 2.5", "decoding.beam_size must be a whole number from 1 to 8"],
  ["accepts_prompt = false", "accepts_prompt = 0", "decoding.accepts_prompt must be true or false"],
  ["[decoding]", "[decoding", "m.toml:"],
  ["[decoding]", "[decoding]\nconstructor = 1", "decoding.constructor is unknown"],
  ['version = "1.2.0"', 'version = "1.2.0"\ntoString = "x"', "m.toml:4: toString is unknown"],
  ['version = "1.2.0"', 'version = "1.2.0"\n__proto__ = "x"', "m.toml:4: __proto__ is unknown"],
  ["[decoding]", "[__proto__]\nunmistakable = 1\n[decoding]", "__proto__ is unknown"],
  ['licence = "MIT"', 'licence = "MIT"\nfamily = "hmm"', "m.toml:6: family must be one of whisper"],
];
for (const [from, to, words] of FAULTS) {
  test(`is refused with the line: ${words}`, () => {
    const line = source.slice(0, source.indexOf('code = "hi"')).split("\n").length;
    const expected = words.replace("m.toml:14", `m.toml:${line - 1}`);
    expect(source).toContain(from);
    expect(() => parseManifest(source.replace(from, to), "m.toml")).toThrow(expected);
    expect("unmistakable" in {}).toBe(false);
  });
}
