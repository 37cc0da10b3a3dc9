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
    tuning: {
      whisper: { beamSize: 2, temperatureIncrement: 0.2, entropyThreshold: 1.5, acceptsPrompt: false },
    },
  },
};
const source = renderManifest(manifest);

const ctc: ModelManifest = {
  ...manifest,
  sha256: "cd".repeat(32),
  family: "nemo_ctc",
  parts: [
    { role: "model", name: "model.onnx", sha256: "cd".repeat(32) },
    { role: "tokens", name: "tokens.txt", sha256: "ef".repeat(32) },
    { role: "weights", name: "weights.bin", sha256: "01".repeat(32) },
  ],
  languages: [
    { code: "hi", name: "Hindi", modes: ["native"], tokenSpan: { first: 1536, last: 1791 } },
    { code: "or", name: "Odia", modes: ["native"] },
  ],
  decoding: { unknownToken: "<unk>", tuning: { ctc: { features: "kaldi" } } },
};
const ctcSource = renderManifest(ctc);

test("a written manifest can be read", () => {
  expect(parseManifest(source, "m.toml")).toEqual(manifest);
  expect(parseManifest(ctcSource, "m.toml")).toEqual(ctc);
  const untimed = { ...manifest, decoding: { tuning: { whisper: { timestamps: false } } } };
  expect(parseManifest(renderManifest(untimed), "m.toml")).toEqual(untimed);
  for (const alignmentHeads of [[], [[3, 1] as const, [4, 2] as const]]) {
    const timed = {
      ...manifest,
      decoding: { tuning: { whisper: { alignmentHeads, alignmentDelayMs: -40 } } },
    };
    expect(parseManifest(renderManifest(timed), "m.toml")).toEqual(timed);
  }
  const lettered = {
    ...manifest,
    languages: manifest.languages.map((language) => ({ ...language, letters: "other" as const })),
  };
  expect(parseManifest(renderManifest(lettered), "m.toml")).toEqual(lettered);
  const { notice: _, ...plain } = { ...manifest, decoding: {} };
  expect(parseManifest(renderManifest(plain), "m.toml")).toEqual(plain);
});

test("a manifest lists as many files as an IndicConformer of 24 layers has", () => {
  const weights = Array.from({ length: 370 }, (_, n) => ({
    ...{ role: "weights", sha256: "01".repeat(32) },
    name: `layers.${n % 24}.self_attn.linear_${Math.floor(n / 24)}.pos_bias.weight`,
  }));
  const large: ModelManifest = { ...ctc, parts: [...(ctc.parts ?? []), ...weights] };
  expect(parseManifest(renderManifest(large), "m.toml")).toEqual(large);
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
  ...[
    ...["3", "[3, 1]", "[[3]]", "[[3, 1.5]]", "[[3, -1]]", "[[3, 128]]", '[["a", "b"]]', '[["3", "1"]]'],
    ...["[[3, true]]", '[["", 1]]', "[[3, []]]", "[[3, 1], [4, 2], [3, 1]]"],
  ].map((heads): [string, string, string] => [
    "accepts_prompt = false",
    `alignment_heads = ${heads}`,
    "decoding.alignment_heads must be a list of pairs: a layer and a head, each pair once",
  ]),
  ...["1001", "-1001", "20.5", '"20"', "true", "[20]"].map((delay): [string, string, string] => [
    "accepts_prompt = false",
    `alignment_delay_ms = ${delay}`,
    "decoding.alignment_delay_ms must be a whole number from -1000 to 1000",
  ]),
  ["[decoding]", "[decoding", "m.toml:"],
  ["[decoding]", "[decoding]\nconstructor = 1", "decoding.constructor is unknown"],
  ['version = "1.2.0"', 'version = "1.2.0"\ntoString = "x"', "m.toml:4: toString is unknown"],
  ['version = "1.2.0"', 'version = "1.2.0"\n__proto__ = "x"', "m.toml:4: __proto__ is unknown"],
  ["[decoding]", "[__proto__]\nunmistakable = 1\n[decoding]", "__proto__ is unknown"],
  ['licence = "MIT"', 'licence = "MIT"\nfamily = "hmm"', "m.toml:6: family must be one of whisper"],
];
const CTC_FAULTS: [from: string, to: string, words: string][] = [
  ['engine = "onnx-ctc"', 'engine = "whisper"', "engine must be onnx-ctc for the family nemo_ctc"],
  ['engine = "onnx-ctc"', 'engine = "sherpa"', "engine must be one of whisper, onnx-ctc"],
  [
    'engine = "onnx-ctc"',
    `engine = "onnx-ctc"\nsha256 = "${"ab".repeat(32)}"`,
    "sha256 is given by [[files]]",
  ],
  ['engine = "onnx-ctc"\nfamily = "nemo_ctc"\n', "", "files is not for whisper"],
  ['role = "tokens"', 'role = "words"', "files.1.role must be one of model, tokens, head, spans, weights"],
  ['role = "tokens"', 'role = "model"', "files must have the role model exactly once"],
  ['role = "tokens"', 'role = "weights"', "files must have the role tokens exactly once"],
  ['name = "tokens.txt"', 'name = "../tokens.txt"', "files.1.name must be a plain file name"],
  ['name = "tokens.txt"', 'name = ".."', "files.1.name must be a plain file name"],
  ['name = "tokens.txt"', 'name = "model.onnx"', "files.1.name is given twice"],
  [`sha256 = "${"ef".repeat(32)}"`, "", "files.1.sha256 is missing"],
  ["[1536,1791]", "[1791,1536]", "languages.0.token_span must be the numbers of its first and last token"],
  ["[1536,1791]", "[1536.5,1791]", "languages.0.token_span must be the numbers of its first and last token"],
  ["[1536,1791]", '"1536"', "languages.0.token_span must be the numbers of its first and last token"],
  ["token_span", 'letters = "own"\ntoken_span', "languages.0.letters is only for whisper"],
  ["token_span", 'decoder_language = "hi"\ntoken_span', "languages.0.decoder_language is only for whisper"],
  ['features = "kaldi"', "beam_size = 2", "decoding.beam_size is only for the engine whisper"],
  ['features = "kaldi"', 'features = "mel"', "decoding.features must be one of nemo, nemo-2.5, kaldi"],
];
for (const [from, to, words] of CTC_FAULTS) {
  test(`refused in a manifest with several files: ${words}`, () => {
    expect(ctcSource).toContain(from);
    expect(() => parseManifest(ctcSource.replace(from, to), "m.toml")).toThrow(words);
  });
}
test("several files are not for whisper, and neither are token spans", () => {
  expect(() => parseManifest(source.replace("beam_size = 2", 'features = "nemo"'), "m.toml")).toThrow(
    "decoding.features is only for the engine onnx-ctc",
  );
  const spanned = source.replace('code = "hi"', 'code = "hi"\ntoken_span = [0, 5]');
  expect(() => parseManifest(spanned, "m.toml")).toThrow("token_span is only for onnx-ctc");
});

for (const [from, to, words] of FAULTS) {
  test(`is refused with the line: ${words}`, () => {
    const line = source.slice(0, source.indexOf('code = "hi"')).split("\n").length;
    const expected = words.replace("m.toml:14", `m.toml:${line - 1}`);
    expect(source).toContain(from);
    expect(() => parseManifest(source.replace(from, to), "m.toml")).toThrow(expected);
    expect("unmistakable" in {}).toBe(false);
  });
}
