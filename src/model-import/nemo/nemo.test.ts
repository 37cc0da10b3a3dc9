import { afterAll, describe, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { checkTdtFile } from "../../families/tdt/model-file.ts";
import { readGgufFile } from "../../lib/gguf-file.ts";
import { sha256Hex } from "../../lib/sha256.ts";
import { type MadeTensor, makeTorchFile } from "../../testing/makers/checkpoint-makers.ts";
import {
  makeNemo,
  makeNemoConfig,
  makeNemoTensors,
  makeTar,
  NEMO_MODELS,
} from "../../testing/makers/nemo-maker.ts";
import { importModel } from "../import-worker.ts";
import type { WeightType } from "../quantise.ts";

const folder = mkdtempSync(join(tmpdir(), "shruti-nemo-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const MODEL = NEMO_MODELS.parakeet;
const TENSORS = makeNemoTensors(MODEL);
let count = 0;

async function convert(bytes: Uint8Array, type: WeightType = "f16") {
  const of = join(folder, String(count++));
  mkdirSync(join(of, "scratch"), { recursive: true });
  const [source, output] = [join(of, "model.nemo"), join(of, "model.gguf")];
  writeFileSync(source, bytes);
  const request = {
    kind: "nemo",
    source,
    type,
    output,
    scratch: join(of, "scratch"),
    reserveBytes: 0,
  } as const;
  return { ...(await importModel(request, () => {})), output };
}

const config = () => makeNemoConfig(MODEL);

/** Weights of the first layer's convolution over frames. */
function depthwiseOf(path: string): Float32Array {
  const { position = 0, bytes = 0 } = readGgufFile(path).tensors.get("layers.0.conv.depth.weight") ?? {};
  return new Float32Array(new Uint8Array(readFileSync(path).subarray(position, position + bytes)).buffer);
}

describe("a .nemo file", () => {
  test.each(Object.entries(NEMO_MODELS))(
    "of the shape %s becomes the engine's file",
    async (_name, model) => {
      const bytes = makeNemo(makeNemoConfig(model), makeNemoTensors(model));
      const imported = await convert(bytes);
      const { shape, tokens, weights } = checkTdtFile(imported.output);
      const { tokenizer, tokens: _tokens, seed, sharpness, xscaling, release, ...sizes } = model;
      expect(shape).toEqual({
        ...sizes,
        scalesInput: xscaling,
        reflectsEnds: release === "1.23.0",
        tokens: model.tokens.length,
        mostSymbols: 10,
      });
      expect(weights).toBe("f16");
      const first = {
        bpe: ["<unk>", "ka", "▁ka"],
        wpe: ["<pad>", "<unk>", "▁one"],
        characters: ["▁", "अ", "आ"],
      };
      expect(tokens.slice(0, 3)).toEqual(first[tokenizer]);
      if (tokenizer === "wpe") expect(tokens.at(-1)).toBe("th");
      expect(imported.size).toBe(`${model.layers} layers of width ${model.width}`);
      expect(imported.sources).toEqual([{ name: "model.nemo", sha256: sha256Hex(bytes) }]);
    },
  );

  test("that is packed, as old releases wrote it, becomes the same", async () => {
    const bytes = makeNemo(config(), TENSORS);
    const [plain, packed] = [await convert(bytes), await convert(gzipSync(bytes))];
    expect(packed.sha256).toBe(plain.sha256);
  });

  test("can have smaller weights, where rows are whole blocks", async () => {
    for (const type of ["q8_0", "q5_0", "q5_1"] as const) {
      const { output, bytes } = await convert(makeNemo(config(), TENSORS), type);
      expect(checkTdtFile(output).weights).toBe(type);
      expect(bytes).toBeLessThan((await convert(makeNemo(config(), TENSORS))).bytes);
    }
  });

  test("whose weights are made smaller later becomes the same", async () => {
    for (const [model, type] of [
      [MODEL, "q8_0"],
      [NEMO_MODELS.rnnt, "q5_1"],
    ] as const) {
      const bytes = makeNemo(makeNemoConfig(model), makeNemoTensors(model));
      const [large, small] = [await convert(bytes), await convert(bytes, type)];
      const output = `${large.output}.small`;
      const request = {
        kind: "ggml",
        source: large.output,
        type,
        output,
        scratch: folder,
        reserveBytes: 0,
      } as const;
      const made = await importModel(request, () => {});
      expect(made.sha256).toBe(small.sha256);
      expect(made.size).toBe(small.size);
      const again = importModel({ ...request, source: output, output: `${output}.again` }, () => {});
      expect(await again.catch((error: Error) => error.message)).toContain("its weights are not f16");
    }
  });

  test("of several tokenizers names its languages; a vocabulary may be in a file", async () => {
    const { joint, ...rest } = config();
    const { vocabulary, ...others } = joint ?? {};
    const langs = { hi: { type: "bpe" }, ta: { type: "bpe" } };
    const aggregate = { ...config(), tokenizer: { type: "agg", langs } };
    const named = checkTdtFile((await convert(makeNemo(aggregate, TENSORS))).output);
    expect(named.languages).toEqual(["hi", "ta"]);
    const inFile = {
      ...rest,
      joint: others,
      tokenizer: { type: "bpe", spe_tokenizer_vocab: "nemo:0123_tokenizer.vocab" },
    };
    const lines = (vocabulary as string[]).map((token) => `${token}\t-1\n`).join("");
    const file = { name: "0123_tokenizer.vocab", content: Buffer.from(lines) };
    expect(checkTdtFile((await convert(makeNemo(inFile, TENSORS, [file]))).output).tokens).toEqual([
      ...MODEL.tokens,
    ]);
  });

  test.each([
    ["3.0.0", false],
    ["2.5.0", false],
    ["2.5.0rc1", false],
    ["2.10.0", false],
    ["2.4.1", true],
    ["1.23.0", true],
    [2.5, false],
    [undefined, true],
    [{ toString: 1 }, true],
    [["3.0.0"], true],
  ])("of release %p reflects the ends of the sound: %p", async (release, reflectsEnds) => {
    const { output } = await convert(makeNemo({ ...config(), nemo_version: release }, TENSORS));
    expect(checkTdtFile(output).shape.reflectsEnds).toBe(reflectsEnds);
  });

  test("may have tokens that are numbers in YAML of today, which are then read from the tokenizer's files", async () => {
    const { joint, ...rest } = config();
    const texts = MODEL.tokens.with(3, "08").with(4, "1e5");
    // As NeMo writes them: without quotes.
    const yaml = JSON.stringify({ ...rest, labels: texts, joint: { ...joint, vocabulary: texts } });
    const bare = Bun.YAML.parse(yaml.replaceAll('"08"', "08").replaceAll('"1e5"', "1e5")) as {
      labels: unknown[];
    };
    expect(bare.labels.slice(3, 5)).toEqual([8, 100_000]);
    const lines = (some: readonly string[]) => Buffer.from(some.map((token) => `${token}\t-1\n`).join(""));
    const files = (tokenizer: unknown, parts: [name: string, texts: readonly string[]][]) =>
      makeNemo(
        { ...bare, tokenizer },
        TENSORS,
        parts.map(([name, some]) => ({ name, content: lines(some) })),
      );
    const one = { type: "bpe", spe_tokenizer_vocab: "nemo:a_tokenizer.vocab" };
    const single = await convert(files(one, [["a_tokenizer.vocab", texts]]));
    expect(checkTdtFile(single.output).tokens).toEqual(texts);
    const two = {
      type: "agg",
      langs: { hi: one, ta: { ...one, spe_tokenizer_vocab: "nemo:b_tokenizer.vocab" } },
    };
    const parts: [string, readonly string[]][] = [
      ["a_tokenizer.vocab", texts.slice(0, 9)],
      ["b_tokenizer.vocab", texts.slice(9)],
    ];
    const joined = checkTdtFile((await convert(files(two, parts))).output);
    expect([joined.tokens, joined.languages]).toEqual([texts, ["hi", "ta"]]);
    const failed = await convert(files(two, parts.slice(1))).catch((error: Error) => error.message);
    expect(failed).toContain("joint.vocabulary has the token 3, which is not a text");
  });

  test("whose normalization has become a part of its factors is taken with that setting alone", async () => {
    const { encoder, ...rest } = config();
    const fused = { ...rest, encoder: { ...encoder, conv_norm_type: "fused_batch_norm" } };
    const tensors = TENSORS.filter(({ name }) => !/running_|num_batches/.test(name));
    const { output } = await convert(makeNemo(fused, tensors));
    // A variance of 1 − 10⁻⁵ and a mean of 0 change nothing.
    const plain = TENSORS.map((tensor) => {
      if (tensor.name.endsWith("running_mean")) return { ...tensor, values: tensor.values.map(() => 0) };
      if (tensor.name.endsWith("running_var"))
        return { ...tensor, values: tensor.values.map(() => 1 - 1e-5) };
      return tensor;
    });
    const other = await convert(makeNemo(config(), plain));
    const [ours, theirs] = [output, other.output].map((path) => depthwiseOf(path));
    expect(ours?.length).toBe(MODEL.width * MODEL.kernel);
    for (const [n, value] of (ours ?? []).entries()) expect(value).toBeCloseTo(theirs?.[n] ?? 0, 5);
    const failed = await convert(makeNemo(config(), tensors)).catch((error: Error) => error.message);
    expect(failed).toContain("encoder.layers.0.conv.batch_norm.running_mean is missing");
  });

  test("of a hybrid model loses its CTC head", async () => {
    const head: MadeTensor = {
      name: "ctc_decoder.decoder_layers.0.weight",
      shape: [2],
      values: new Float32Array(2),
    };
    expect((await convert(makeNemo(config(), [...TENSORS, head]))).sha256).toBe(
      (await convert(makeNemo(config(), TENSORS))).sha256,
    );
  });
});

describe("is refused", () => {
  /** A setting and a value that the engine does not compute. */
  const settings: [name: string, value: unknown, reason?: string][] = [
    ["preprocessor.sample_rate", 8_000],
    ["preprocessor.normalize", "all_features"],
    ["preprocessor.window_stride", 0.02],
    ["preprocessor.n_fft", 1024],
    ["preprocessor.log_zero_guard_value", 1e-5, "log_zero_guard_value is 0.00001, not 2⁻²⁴"],
    ["preprocessor.log_zero_guard_value", "tiny"],
    ["preprocessor.log_zero_guard_value", [2 ** -24]],
    ["preprocessor.log_zero_guard_value", { toString: 1 }, "log_zero_guard_value is a list of settings"],
    ["preprocessor.features", 0, "preprocessor.features is 0, not a whole number from 1 to 256"],
    ["preprocessor._target_", "nemo.AudioToMFCCPreprocessor", "not AudioToMelSpectrogramPreprocessor"],
    ["encoder._target_", "nemo.SqueezeformerEncoder", 'encoder._target_ is "nemo.SqueezeformerEncoder"'],
    ["encoder.subsampling", "vggnet", 'encoder.subsampling is "vggnet", not dw_striding or striding'],
    ["encoder.subsampling_factor", 6, "encoder.subsampling_factor is 6"],
    ["encoder.self_attention_model", "rel_pos_local_attn"],
    ["encoder.att_context_size", [70, 13], "encoder.att_context_size is [70,13]"],
    ["encoder.causal_downsampling", true],
    ["encoder.conv_norm_type", "layer_norm"],
    ["encoder.conv_context_size", "causal"],
    ["encoder.reduction", "pooling"],
    ["encoder.xscaling", "yes", 'encoder.xscaling is "yes"'],
    ["encoder.n_heads", 7, "its width 64 is not divided by encoder.n_heads, 7"],
    ["encoder.n_heads", `$${"{encoder.n_heads}"}`, "encoder.n_heads refers to itself"],
    ["decoder._target_", "nemo.StatelessTransducerDecoder", "not RNNTDecoder"],
    ["decoder.normalization_mode", "layer"],
    ["joint._target_", "nemo.HATJoint", "not RNNTJoint"],
    ["joint.jointnet.activation", "tanh"],
    ["joint.num_extra_outputs", 4, "model_defaults.tdt_durations is [0,1,2,3,4], not 4 whole numbers"],
    ["joint.vocabulary", ["a"], "joint.vocabulary has 1 tokens, and joint.joint_net has 22"],
    ["joint.vocabulary", [1], "joint.vocabulary has the token 0, which is not a text"],
    ["model_defaults.tdt_durations", [0, 0, 0, 0, 0], "has no duration above 0"],
    ["tokenizer.type", "word", 'tokenizer.type is "word", not bpe, wpe or agg'],
    ["decoding.greedy.max_symbols", 0, "decoding.greedy.max_symbols is 0"],
  ];
  test.each(settings)("with %s %j", async (name, value, reason = name) => {
    const changed = config();
    let place: Record<string, unknown> = changed;
    const parts = name.split(".");
    for (const part of parts.slice(0, -1)) place = place[part] as Record<string, unknown>;
    place[parts.at(-1) ?? ""] = value;
    const failed = await convert(makeNemo(changed, TENSORS)).catch((error: Error) => error.message);
    expect(failed).toStartWith(
      name.includes("n_heads") && value === 7 ? "model_weights.ckpt: " : "model_config.yaml: ",
    );
    expect(failed).toContain(reason);
  });

  test("with references that would be followed for ever", async () => {
    const levels = 6;
    const reference = (...parts: string[]) => `$${`{${parts.join(".")}}`}`;
    const maze: Record<string, string> = { [`r${levels}`]: reference("maze") };
    for (let level = 0; level < levels; level++)
      maze[`r${level}`] = reference("maze", ...Array(40).fill(`r${level + 1}`));
    const { encoder, ...rest } = config();
    const endless = {
      ...rest,
      maze,
      encoder: { ...(encoder as object), n_heads: reference("maze", "r0", "heads") },
    };
    const failed = await convert(makeNemo(endless, TENSORS)).catch((error: Error) => error.message);
    expect(failed).toBe("model_config.yaml: encoder.n_heads refers to itself");
  });

  /** A list of lists whose text has 1 GiB, where the configuration has `"BOMB"`. Bun refuses those with more values. */
  const withBomb = (config: object) => {
    const levels = Array.from({ length: 20 }, (_, n) => `&a${n + 1} [*a${n}, *a${n}]`);
    const yaml = JSON.stringify({ levels: "LEVELS", ...config })
      .replace('"LEVELS"', `[&a0 [${"0".repeat(1024)}x], ${levels.join(", ")}]`)
      .replace('"BOMB"', "*a20");
    return makeTar([
      { name: "model_config.yaml", content: Buffer.from(yaml) },
      { name: "model_weights.ckpt", content: makeTorchFile(TENSORS, "F32") },
    ]);
  };

  test("with lists that are too large as a text, or without their values", async () => {
    const { preprocessor, ...rest } = config();
    const least = { ...rest, preprocessor: { ...preprocessor, log_zero_guard_value: "BOMB" } };
    const failed = await convert(withBomb(least)).catch((error: Error) => error.message);
    expect(failed).toContain("log_zero_guard_value is [[[…],[…]],[[…],[…]]], not 2⁻²⁴");
    const { output } = await convert(withBomb({ ...config(), nemo_version: "BOMB" }));
    expect(checkTdtFile(output).shape.reflectsEnds).toBe(true);
  });

  const vocabulary = (lines: number) => ({ name: "v.vocab", content: Buffer.from("ka\t-1\n".repeat(lines)) });
  const named = (tokenizers: number) => {
    const one = { type: "bpe", spe_tokenizer_vocab: "nemo:v.vocab" };
    const langs = Object.fromEntries(Array.from({ length: tokenizers }, (_, n) => [`l${n}`, one]));
    const { joint, labels, ...rest } = config();
    const { vocabulary: _tokens, ...others } = joint ?? {};
    return { ...rest, joint: others, tokenizer: { type: "agg", langs } };
  };
  const tooMany: [what: string, tokenizers: number, lines: number, reason: string][] = [
    [
      "more tokens than its joint net",
      1,
      23,
      "v.vocab: it has more tokens than joint.joint_net, which has 22",
    ],
    ["a large file of many", 200, 4_000_000, "v.vocab: it has more tokens than joint.joint_net"],
    ["a file that is named too often", 23, 1, "v.vocab: it has more tokens than joint.joint_net"],
    ["too few tokens", 21, 1, "joint.vocabulary has 21 tokens, and joint.joint_net has 22"],
    ["too many tokenizers", 257, 0, "model_config.yaml: tokenizer.langs names more than 256 tokenizers"],
    ["a file that is too large", 1, 6_000_000, "v.vocab: it is too large for a vocabulary"],
  ];
  test.each(tooMany)("with vocabularies of %s", async (_what, tokenizers, lines, reason) => {
    const nemo = makeNemo(named(tokenizers), TENSORS, [vocabulary(lines)]);
    const failed = await convert(nemo).catch((error: Error) => error.message);
    expect(failed).toContain(reason);
  });

  const without = (name: string) => TENSORS.filter((tensor) => tensor.name !== name);
  const changed = (name: string, change: Partial<MadeTensor>) =>
    TENSORS.map((tensor) => (tensor.name === name ? { ...tensor, ...change } : tensor));
  const norm = "encoder.layers.1.norm_out.bias";
  const many = (n: number) => new Float32Array(n);
  const weights: [what: string, tensors: MadeTensor[], reason: string][] = [
    ["without a tensor", without(norm), `the tensor ${norm} is missing`],
    ["without the features", without("preprocessor.featurizer.fb"), "preprocessor.featurizer.fb is missing"],
    [
      "with one of another shape",
      changed(norm, { shape: [63], values: many(63) }),
      `${norm} is 63; the other tensors and model_config.yaml say 64`,
    ],
    [
      "with one that it does not compute",
      [...TENSORS, { name: "encoder.adapter.weight", shape: [1], values: many(1) }],
      "the tensor encoder.adapter.weight belongs to no part that the engine computes",
    ],
    [
      "with a bias that is not a number",
      changed(norm, { values: many(64).fill(Number.NaN) }),
      `the tensor layers.1.norm_out.bias holds a value that is not a finite number`,
    ],
    [
      "with a weight that 16 bits cannot hold",
      changed("joint.joint_net.2.weight", { values: many(28 * 48).fill(1e6) }),
      "which 16 bits cannot hold",
    ],
  ];
  test.each(weights)("%s", async (_what, tensors, reason) => {
    const failed = await convert(makeNemo(config(), tensors)).catch((error: Error) => error.message);
    expect(failed).toContain(reason);
  });

  const whole = makeNemo(config(), TENSORS);
  const yaml = (text: string) => makeTar([{ name: "model_config.yaml", content: Buffer.from(text) }]);
  const spoiled = Buffer.from(whole);
  spoiled[2_000] = 1;
  /** An archive whose first header has a size in the form for large numbers. */
  const sized = (first: number, rest: number) => {
    const archive = makeTar([{ name: "model_config.yaml", content: new Uint8Array() }]);
    archive.fill(rest, 124, 136);
    archive[124] = first;
    archive.fill(" ", 148, 156);
    const sum = archive.subarray(0, 512).reduce((total, byte) => total + byte, 0);
    archive.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148, "latin1");
    return archive;
  };
  const archives: [what: string, bytes: Uint8Array, reason: string][] = [
    ["an empty file", new Uint8Array(), "it is truncated"],
    ["a text", Buffer.from("This is a text. ".repeat(60)), "it is not a .nemo file (tar)"],
    ["a cut archive", whole.subarray(0, 100_000), "it is truncated"],
    ["an archive that is damaged when unpacked", gzipSync(whole).subarray(0, 5_000), "it is damaged"],
    [
      "an archive that unpacks to hundreds of times its size",
      gzipSync(Buffer.concat([makeTar([]), new Uint8Array(80e6)])),
      "it unpacks to more than",
    ],
    ["no configuration", makeTar([]), "model_config.yaml: the file is missing"],
    ["a configuration that is not YAML", yaml("a: [1\nb: }"), "the file is not valid YAML"],
    [
      "a configuration with a list that holds itself",
      yaml("preprocessor: {normalize: &endless [*endless, all]}"),
      'preprocessor.normalize is [[[…],"all"],"all"]; the engine computes with',
    ],
    [
      "a configuration with a group that holds itself",
      yaml("preprocessor: &endless {normalize: *endless}"),
      "preprocessor.normalize is a list of settings; the engine computes with",
    ],
    ["a configuration that is a list", yaml("- a\n- b"), "the file is not a list of settings"],
    [
      "no weights",
      makeTar([{ name: "model_config.yaml", content: Buffer.from(JSON.stringify(config())) }]),
      "it has no model_weights.ckpt",
    ],
    [
      "a link",
      makeTar([{ name: "model_config.yaml", content: new Uint8Array(), type: "SymbolicLink" }]),
      "is not a file (SymbolicLink)",
    ],
    ["a size beyond all numbers", sized(0x80, 0x7f), "it is not a .nemo file (tar)"],
    ["a size that is no number", sized(0x81, 0), "it is not a .nemo file (tar)"],
    ["a size below 0", sized(0xff, 0xff), "it is a damaged archive"],
    [
      "a file twice",
      makeTar([1, 2].map(() => ({ name: "model_config.yaml", content: new Uint8Array() }))),
      "it has two files model_config.yaml",
    ],
  ];
  test.each(archives)("%s", async (_what, bytes, reason) => {
    expect(await convert(bytes).catch((error: Error) => error.message)).toContain(reason);
  });
});
