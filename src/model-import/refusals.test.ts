import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  type MadeForm,
  type MadeTensor,
  type MadeType,
  makeAddedTokens,
  makeSafetensors,
  makeTensors,
  makeTorchFile,
  makeWords,
  SMALL_SHAPE,
  writeCheckpoint,
} from "../testing/makers/checkpoint-makers.ts";
import { type MadeEntry, makeZip } from "../testing/makers/zip-maker.ts";
import { importModel } from "./import-worker.ts";

/** Checkpoints that are refused, and the reason that is given. */

let root: string;
beforeAll(() => {
  root = mkdtempSync(join(tmpdir(), "shruti-refusals-"));
});
afterAll(() => rmSync(root, { recursive: true, force: true }));

let count = 0;
const fresh = (): string => join(root, String(count++));

/** Imports and returns the message of the refusal; undefined when there was none. Nothing may be left. */
async function refusalOf(source: string, kind: "folder" | "zip" = "folder"): Promise<string | undefined> {
  const scratch = fresh();
  mkdirSync(scratch);
  const output = join(scratch, "output.bin");
  try {
    await importModel({ kind, source, type: "f16", output, scratch, reserveBytes: 0 }, () => {});
    return undefined;
  } catch (error) {
    expect((error as Error).name).toBe("ImportError");
    return (error as Error).message;
  }
}

const TENSORS = makeTensors(SMALL_SHAPE);

function makeFolder(options: { tensors?: MadeTensor[]; type?: MadeType; form?: MadeForm } = {}): string {
  const { tensors = TENSORS, type = "F16", form = "safetensors" } = options;
  return writeCheckpoint(fresh(), { shape: SMALL_SHAPE, tensors, type, form });
}

type Json = Record<string, unknown>;

/** Makes a folder and changes one of its JSON files. */
function withJson(name: string, change: (json: Json) => void, form: MadeForm = "safetensors"): string {
  const folder = makeFolder({ form });
  const path = join(folder, name);
  const json = JSON.parse(readFileSync(path, "utf8")) as Json;
  change(json);
  writeFileSync(path, JSON.stringify(json));
  return folder;
}

const config = (values: Json): string => withJson("config.json", (json) => void Object.assign(json, values));

const changed = (name: string, change: (tensor: MadeTensor) => MadeTensor | undefined): MadeTensor[] =>
  TENSORS.flatMap((tensor) => (tensor.name === name ? (change(tensor) ?? []) : tensor));

const withValue = (value: number): MadeTensor[] =>
  changed("model.encoder.layers.0.fc1.weight", ({ values, ...tensor }) => {
    const copy = Float32Array.from(values);
    copy[1000] = value;
    return { ...tensor, values: copy };
  });

const EMBEDDING = "model.decoder.embed_tokens.weight";
const embedding = TENSORS.find(({ name }) => name === EMBEDDING) as MadeTensor;

test("the folder that the cases spoil is accepted", async () => {
  expect(await refusalOf(makeFolder())).toBeUndefined();
  const tied = { ...embedding, name: "proj_out.weight" };
  expect(await refusalOf(makeFolder({ tensors: [...TENSORS, tied] }))).toBeUndefined();
  // A checkpoint of the bare model has other names; one of a download cache has links to files elsewhere.
  const bare = TENSORS.map((tensor) => ({ ...tensor, name: tensor.name.slice("model.".length) }));
  expect(await refusalOf(makeFolder({ tensors: bare }))).toBeUndefined();
  const linked = makeFolder();
  renameSync(join(linked, "model.safetensors"), join(root, "blob"));
  symlinkSync(join(root, "blob"), join(linked, "model.safetensors"));
  expect(await refusalOf(linked)).toBeUndefined();
  // Fine-tunes set the length of output to other values.
  expect(await refusalOf(config({ max_length: 225 }))).toBeUndefined();
}, 30_000);

const CONFIGS: [string, () => string, string][] = [
  [
    "another kind of model",
    () => config({ model_type: "wav2vec2" }),
    'config.json: it describes a model of type "wav2vec2"',
  ],
  [
    "a classifier",
    () => config({ architectures: ["WhisperForAudioClassification"] }),
    "WhisperForAudioClassification",
  ],
  ["a vocabulary of another size", () => config({ vocab_size: 51_900 }), "vocab_size is 51900"],
  ["another audio window", () => config({ max_source_positions: 3000 }), "max_source_positions is 3000"],
  ["another text window", () => config({ max_target_positions: 1024 }), "max_target_positions is 1024"],
  ["another feed-forward width", () => config({ encoder_ffn_dim: 100 }), "encoder_ffn_dim is 100"],
  ["another activation", () => config({ activation_function: "relu" }), '"relu"'],
  ["scaled embeddings", () => config({ scale_embedding: true }), "scales embeddings"],
  ["weights of 8 bits", () => config({ quantization_config: { load_in_8bit: true } }), "quantised already"],
  ["an odd width", () => config({ d_model: 33 }), "d_model is 33"],
  ["heads that do not fit", () => config({ encoder_attention_heads: 5 }), "5 attention heads"],
  ["a million layers", () => config({ encoder_layers: 1e6 }), "1000000 layers"],
  [
    "more layers than there are",
    () => config({ encoder_layers: 2 }),
    "layers.1.self_attn.k_proj.weight is missing",
  ],
  ["half a layer", () => config({ decoder_layers: 1.5 }), "decoder_layers is not a whole number"],
  ["other mel bands", () => config({ num_mel_bins: 96 }), "num_mel_bins is 96"],
  [
    "another start token",
    () => config({ decoder_start_token_id: 50_257 }),
    "decoder_start_token_id is 50257",
  ],
  [
    "another sampling rate",
    () =>
      withJson("preprocessor_config.json", (json) => {
        json.sampling_rate = 8000;
      }),
    "preprocessor_config.json: sampling_rate is 8000",
  ],
  [
    "features that contradict the model",
    () =>
      withJson("preprocessor_config.json", (json) => {
        json.feature_size = 128;
      }),
    "feature_size is 128, not 80",
  ],
];

describe("a config is refused that describes", () => {
  test.each(CONFIGS)("%s", async (_name, make, message) => {
    expect(await refusalOf(make())).toContain(message);
  });

  test("nothing, because it is missing, no JSON or too large", async () => {
    const missing = makeFolder();
    rmSync(join(missing, "config.json"));
    expect(await refusalOf(missing)).toBe("config.json: the file is missing");
    const broken = makeFolder();
    writeFileSync(join(broken, "config.json"), "{");
    expect(await refusalOf(broken)).toBe("config.json: the file is not valid JSON");
    const large = makeFolder();
    writeFileSync(join(large, "config.json"), " ".repeat(2 * 1024 * 1024));
    expect(await refusalOf(large)).toContain("config.json: the file is larger than");
    const nested = makeFolder();
    writeFileSync(join(nested, "config.json"), "[".repeat(500_000));
    expect(await refusalOf(nested)).toContain("config.json: the file is not valid JSON");
  });
});

const TOKENS: [string, () => string, string][] = [
  [
    "with a token added to large-v2, which makes it as large as that of large-v3",
    () => {
      const shape = { ...SMALL_SHAPE, vocab: 51_866 };
      const folder = writeCheckpoint(fresh(), {
        shape,
        tensors: makeTensors(shape),
        type: "F16",
        form: "safetensors",
      });
      const added = { ...makeAddedTokens(51_865), "<|or|>": 51_865 };
      writeFileSync(join(folder, "added_tokens.json"), JSON.stringify(added));
      return folder;
    },
    'added_tokens.json: the token "<|translate|>" is number 50358, and whisper.cpp takes 50359',
  ],
  [
    "with an added token beyond the end",
    () =>
      withJson("added_tokens.json", (json) => {
        json["<|or|>"] = 51_865;
      }),
    'added_tokens.json: the added token "<|or|>" (51865) is outside',
  ],
  [
    "whose special tokens nothing tells",
    () => {
      const folder = makeFolder();
      rmSync(join(folder, "added_tokens.json"));
      return folder;
    },
    "added_tokens.json: no file gives the number of <|notimestamps|>",
  ],
  [
    "whose generation config contradicts it",
    () => {
      const folder = makeFolder();
      writeFileSync(
        join(folder, "generation_config.json"),
        JSON.stringify({ no_timestamps_token_id: 50_364 }),
      );
      return folder;
    },
    "generation_config.json: the token",
  ],
  [
    "that is cut",
    () =>
      withJson("vocab.json", (json) => {
        for (const [token, id] of Object.entries(json)) if ((id as number) >= 40_000) delete json[token];
      }),
    "vocab.json: it lists 40000 of 50257 text tokens",
  ],
  [
    "with a hole",
    () =>
      withJson("vocab.json", (json) => {
        json["!"] = 51_000;
      }),
    "vocab.json: the token number",
  ],
  [
    "with characters of no byte",
    () =>
      withJson("vocab.json", (json) => {
        json.क = json["!"];
        delete json["!"];
      }),
    "byte characters",
  ],
  [
    "whose numbers are texts",
    () =>
      withJson("vocab.json", (json) => {
        json["!"] = "0";
      }),
    "has no number",
  ],
  [
    "that is nowhere",
    () => {
      const folder = makeFolder();
      rmSync(join(folder, "vocab.json"));
      return folder;
    },
    "vocab.json: the folder has neither",
  ],
];

describe("a vocabulary is refused", () => {
  test.each(TOKENS)(
    "%s",
    async (_name, make, message) => {
      expect(await refusalOf(make())).toContain(message);
    },
    20_000,
  );

  test("but one in tokenizer.json serves as well", async () => {
    const folder = makeFolder();
    const added_tokens = Object.entries(makeAddedTokens(51_865)).map(([content, id]) => ({ content, id }));
    const tokenizer = { added_tokens, model: { vocab: makeWords(51_865) } };
    rmSync(join(folder, "vocab.json"));
    rmSync(join(folder, "added_tokens.json"));
    writeFileSync(join(folder, "tokenizer.json"), JSON.stringify(tokenizer));
    expect(await refusalOf(folder)).toBeUndefined();
  });
});

const spoilt = (
  change: (
    header: Record<string, { dtype: string; shape: number[]; data_offsets: [number, number] }>,
  ) => void,
): string => {
  const folder = makeFolder();
  writeFileSync(join(folder, "model.safetensors"), makeSafetensors(TENSORS, "F16", change));
  return folder;
};
const raw = (bytes: Uint8Array): string => {
  const folder = makeFolder();
  writeFileSync(join(folder, "model.safetensors"), bytes);
  return folder;
};
const length = (value: bigint): Buffer => {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(value);
  return bytes;
};
const first = TENSORS[0]?.name ?? "";
const second = TENSORS[1]?.name ?? "";

const WEIGHTS: [string, () => string, string][] = [
  [
    "a value that is not a number",
    () => makeFolder({ tensors: withValue(Number.NaN), type: "F32" }),
    "encoder.layers.0.fc1.weight holds a value that is not a number",
  ],
  [
    "a value that 16 bits cannot hold, in 32",
    () => makeFolder({ tensors: withValue(70_000), type: "F32" }),
    "beyond ±65504",
  ],
  [
    "a value that 16 bits cannot hold, in bf16",
    () => makeFolder({ tensors: withValue(-1e30), type: "BF16" }),
    "beyond ±65504",
  ],
  [
    "infinity in 16 bits",
    () => makeFolder({ tensors: withValue(Number.POSITIVE_INFINITY), type: "F16" }),
    "beyond ±65504",
  ],
  [
    "an output layer of its own",
    () => {
      const values = Float32Array.from(embedding.values);
      values[5] = (values[5] ?? 0) + 1;
      return makeFolder({ tensors: [...TENSORS, { ...embedding, name: "proj_out.weight", values }] });
    },
    "model.safetensors: the tensor proj_out.weight differs",
  ],
  [
    "a missing tensor",
    () => makeFolder({ tensors: changed("model.encoder.conv1.bias", () => undefined) }),
    "the tensor model.encoder.conv1.bias is missing",
  ],
  [
    "a tensor of no Whisper model",
    () =>
      makeFolder({
        tensors: [...TENSORS, { name: "classifier.weight", shape: [2], values: new Float32Array(2) }],
      }),
    "classifier.weight belongs to no Whisper model",
  ],
  [
    "an adapter that is not merged",
    () =>
      makeFolder({
        tensors: [
          ...TENSORS,
          { name: "base_model.model.lora_A.weight", shape: [2], values: new Float32Array(2) },
        ],
      }),
    "merge the adapter (LoRA)",
  ],
  [
    "another shape than the config says",
    () =>
      makeFolder({
        tensors: changed("model.decoder.layer_norm.bias", (tensor) => ({
          ...tensor,
          shape: [64],
          values: new Float32Array(64),
        })),
      }),
    "the tensor model.decoder.layer_norm.bias is 64; config.json says 32",
  ],
  [
    "overlapping tensors",
    () =>
      spoilt((header) => {
        const [one, other] = [header[first], header[second]];
        if (one && other)
          other.data_offsets = [
            one.data_offsets[0],
            one.data_offsets[0] + other.data_offsets[1] - other.data_offsets[0],
          ];
      }),
    "overlaps another one",
  ],
  [
    "offsets beyond the end",
    () =>
      spoilt((header) => {
        const entry = header[first];
        if (entry) entry.data_offsets = [1e12, 1e12 + entry.data_offsets[1]];
      }),
    "offsets that do not fit",
  ],
  [
    "offsets that run backwards",
    () =>
      spoilt((header) => {
        const entry = header[second];
        if (entry) entry.data_offsets = [entry.data_offsets[1], entry.data_offsets[0]];
      }),
    "offsets that do not fit",
  ],
  ["a gap", () => spoilt((header) => void delete header[second]), "follows a gap"],
  [
    "an astronomic shape",
    () =>
      spoilt((header) => {
        const entry = header[first];
        if (entry) entry.shape = [1e9, 1e9];
      }),
    "too large",
  ],
  [
    "a negative shape",
    () =>
      spoilt((header) => {
        const entry = header[first];
        if (entry) entry.shape = [-1, -32];
      }),
    "impossible shape",
  ],
  [
    "values of 8 bits",
    () =>
      spoilt((header) => {
        const entry = header[first];
        if (entry) entry.dtype = "I8";
      }),
    "values of type I8",
  ],
  [
    "a name of Object's as a type",
    () =>
      spoilt((header) => {
        const entry = header[first];
        if (entry) entry.dtype = "constructor";
      }),
    "values of type constructor",
  ],
  [
    "a header of 2^60 bytes",
    () => raw(Buffer.concat([length(2n ** 60n), Buffer.alloc(100)])),
    "its header claims 1152921504606847000 bytes",
  ],
  [
    "a header of 90 MB",
    () => raw(Buffer.concat([length(90_000_000n), Buffer.alloc(90_000_100)])),
    "its header claims 90000000 bytes",
  ],
  ["no header", () => raw(Buffer.from("abc")), "not a safetensors file"],
  ["a header that is no JSON", () => raw(Buffer.concat([length(3n), Buffer.from("abc")])), "not valid JSON"],
  [
    "a file that is cut",
    () => raw(makeSafetensors(TENSORS, "F16").subarray(0, 2_000_000)),
    "offsets that do not fit",
  ],
  [
    "bytes after the last tensor",
    () => raw(Buffer.concat([makeSafetensors(TENSORS, "F16"), Buffer.alloc(8)])),
    "8 bytes belong to no tensor",
  ],
];

describe("weights are refused that have", () => {
  test.each(WEIGHTS)(
    "%s",
    async (_name, make, message) => {
      const refusal = await refusalOf(make());
      expect(refusal).toStartWith("model.safetensors: ");
      expect(refusal).toContain(message);
    },
    20_000,
  );
});

const index = (change: (map: Json) => void): string =>
  withJson("model.safetensors.index.json", (json) => change(json.weight_map as Json), "sharded");

const FOLDERS: [string, () => string, string][] = [
  [
    "only an adapter",
    () => {
      const folder = makeFolder();
      rmSync(join(folder, "model.safetensors"));
      writeFileSync(join(folder, "adapter_config.json"), "{}");
      return folder;
    },
    "only an adapter (LoRA): merge it",
  ],
  [
    "only weights of another library",
    () => {
      const folder = makeFolder();
      renameSync(join(folder, "model.safetensors"), join(folder, "flax_model.msgpack"));
      return folder;
    },
    "weights for Flax only",
  ],
  [
    "no weights",
    () => {
      const folder = makeFolder();
      rmSync(join(folder, "model.safetensors"));
      return folder;
    },
    "neither model.safetensors nor pytorch_model.bin",
  ],
  [
    "a named pipe as weights",
    () => {
      const folder = makeFolder();
      rmSync(join(folder, "model.safetensors"));
      Bun.spawnSync(["mkfifo", join(folder, "model.safetensors")]);
      return folder;
    },
    "model.safetensors: cannot be opened",
  ],
  [
    "a shard elsewhere",
    () =>
      index((map) => {
        map[first] = "../../other/model.safetensors";
      }),
    "is not a plain file name",
  ],
  [
    "a shard at an absolute path",
    () =>
      index((map) => {
        map[first] = "/etc/passwd";
      }),
    "is not a plain file name",
  ],
  [
    "a shard called ..",
    () =>
      index((map) => {
        map[first] = "..";
      }),
    "is not a plain file name",
  ],
  [
    "a missing shard",
    () =>
      index((map) => {
        map[first] = "model-9.safetensors";
      }),
    "model-9.safetensors: the file is missing",
  ],
  [
    "a shard that the index contradicts",
    () => index((map) => void delete map[first]),
    "the index says that the tensor",
  ],
  [
    "a tensor in no shard",
    () =>
      index((map) => {
        map.ghost = map[first];
      }),
    "the tensor ghost, which the index names, is missing",
  ],
  [
    "an index without a map",
    () => withJson("model.safetensors.index.json", (json) => void delete json.weight_map, "sharded"),
    "has no weight_map",
  ],
];

describe("a folder is refused that has", () => {
  test.each(FOLDERS)(
    "%s",
    async (_name, make, message) => {
      expect(await refusalOf(make())).toContain(message);
    },
    20_000,
  );
});

/** Makes a folder whose torch file has these entries instead. */
function withTorch(change: (entries: MadeEntry[]) => MadeEntry[] | undefined): string {
  const folder = makeFolder({ form: "torch" });
  const path = join(folder, "pytorch_model.bin");
  const pickle = { name: "archive/data.pkl", content: Buffer.from("") };
  writeFileSync(path, makeZip(change([pickle]) ?? []));
  return folder;
}

const TORCH: [string, () => string, string][] = [
  [
    "packed entries",
    () => withTorch(([entry]) => [{ ...(entry as MadeEntry), content: Buffer.alloc(1000), isPacked: true }]),
    "is packed, which torch never does",
  ],
  [
    "no pickle",
    () => withTorch(() => [{ name: "archive/other", content: Buffer.alloc(1) }]),
    "0 entries data.pkl",
  ],
  [
    "two pickles",
    () => withTorch(([entry]) => [entry as MadeEntry, { name: "b/data.pkl", content: Buffer.alloc(0) }]),
    "2 entries data.pkl",
  ],
  [
    "a pickle that is none",
    () => withTorch(([entry]) => [{ ...(entry as MadeEntry), content: Buffer.from("cos\nsystem\n") }]),
    "its pickle does not begin as a pickle",
  ],
  [
    "big-endian values",
    () =>
      withTorch(([entry]) => [
        entry as MadeEntry,
        { name: "archive/byteorder", content: Buffer.from("big") },
      ]),
    "byte order",
  ],
  [
    "a storage that is shorter than its tensor",
    () => {
      const folder = makeFolder({ form: "torch" });
      const tensors = changed("model.encoder.conv1.bias", (tensor) => ({ ...tensor, shape: [64] }));
      writeFileSync(join(folder, "pytorch_model.bin"), makeTorchFile(tensors, "F16"));
      return folder;
    },
    "model.encoder.conv1.bias reaches beyond its values",
  ],
];

describe("a pytorch_model.bin is refused that has", () => {
  test.each(TORCH)(
    "%s",
    async (_name, make, message) => {
      const refusal = await refusalOf(make());
      expect(refusal).toStartWith("pytorch_model.bin: ");
      expect(refusal).toContain(message);
    },
    20_000,
  );
});

/** Packs a folder as IndicWhisper publishes its models: in folders, beside other files. */
function zipOf(folder: string, prefix = "hindi_models/whisper-medium-hi/"): MadeEntry[] {
  const files = readdirSync(folder).map((name) => ({
    name: prefix + name,
    content: readFileSync(join(folder, name)),
    isPacked: true,
  }));
  return [
    { name: "hindi_models/", content: Buffer.alloc(0), mode: 0o040755 },
    { name: "hindi_models/optimizer.pt", content: Buffer.alloc(50), isPacked: true },
    { name: `${prefix}checkpoint-100/config.json`, content: Buffer.from("{}") },
    { name: `${prefix}checkpoint-100/model.safetensors`, content: Buffer.from("old") },
    ...files,
  ];
}

function writeZip(entries: readonly MadeEntry[]): string {
  const path = `${fresh()}.zip`;
  writeFileSync(path, makeZip(entries));
  return path;
}

const small = (name: string, more: Partial<MadeEntry> = {}): MadeEntry => ({
  name,
  content: Buffer.from("x"),
  ...more,
});

describe("a ZIP", () => {
  let entries: MadeEntry[];
  beforeAll(() => {
    entries = zipOf(makeFolder());
  });

  test("with one model is imported, wherever in it the folder is, packed or not", async () => {
    expect(await refusalOf(writeZip(entries), "zip")).toBeUndefined();
    expect(await refusalOf(writeZip(zipOf(makeFolder({ form: "torch" }), "")), "zip")).toBeUndefined();
    expect(
      await refusalOf(writeZip(entries.map((entry) => ({ ...entry, isPacked: false }))), "zip"),
    ).toBeUndefined();
  }, 30_000);

  const REFUSED: [string, (entries: MadeEntry[]) => MadeEntry[], string][] = [
    [
      "a path upwards",
      (all) => [...all, small("../../../etc/cron.d/x")],
      "not a usable ZIP: invalid relative path",
    ],
    ["an absolute path", (all) => [...all, small("/etc/cron.d/x")], "absolute path"],
    ["a path of Windows", (all) => [...all, small("a\\..\\b")], "invalid characters"],
    ["a path of a drive", (all) => [...all, small("c:/x")], "absolute path"],
    ["a control character in a name", (all) => [...all, small("a\nb")], "unusable name"],
    [
      "a symbolic link",
      (all) => [...all, small("hindi_models/link", { mode: 0o120777 })],
      "is a link or device",
    ],
    ["a device", (all) => [...all, small("hindi_models/null", { mode: 0o020666 })], "is a link or device"],
    ["an encrypted entry", (all) => [...all, small("x", { flags: 1, isPacked: true })], "is encrypted"],
    ["one name twice", (all) => [...all, small("x"), small("x")], "two entries x"],
    [
      "overlapping entries",
      (all) => [...all, small("x"), { ...small("y"), sharesWith: "x" }],
      "overlaps another one",
    ],
    [
      "an entry that is longer than it says",
      (all) =>
        all.map((entry) => (entry.name.endsWith("vocab.json") ? { ...entry, claimedBytes: 1000 } : entry)),
      "vocab.json",
    ],
    [
      "an entry that is shorter than it says",
      (all) =>
        all.map((entry) =>
          entry.name.endsWith("vocab.json") ? { ...entry, claimedBytes: entry.content.length + 5 } : entry,
        ),
      "vocab.json",
    ],
    [
      "a damaged entry",
      (all) => all.map((entry) => (entry.name.endsWith("vocab.json") ? { ...entry, crc: 1 } : entry)),
      "CRC-32 differs",
    ],
    [
      "a packed bomb",
      (all) =>
        all.map((entry) =>
          entry.name.endsWith("hi/model.safetensors")
            ? { ...entry, content: Buffer.alloc(30_000_000) }
            : entry,
        ),
      "packed more tightly",
    ],
    [
      "a small file of 70 MB",
      (all) =>
        all.map((entry) =>
          entry.name.endsWith("vocab.json") ? { ...entry, content: Buffer.alloc(70_000_000, "ab") } : entry,
        ),
      "has 70000000 bytes",
    ],
    [
      "a size of four gigabytes that is not there",
      (all) =>
        all.map((entry) =>
          entry.name.endsWith("hi/model.safetensors")
            ? { ...entry, isPacked: false, claimedBytes: 0xfffffff0 }
            : entry,
        ),
      "file data overflows file bounds",
    ],
    [
      "another ZIP in it",
      () => [small("inner.zip", { content: makeZip([small("config.json")]) })],
      "holds no folder with config.json",
    ],
    [
      "two models",
      (all) => [...all, small("other_models/b/config.json"), small("other_models/b/model.safetensors")],
      "several models (hindi_models/whisper-medium-hi, other_models/b)",
    ],
  ];
  test.each(REFUSED)(
    "is refused that has %s",
    async (_name, change, message) => {
      const zip = writeZip(change(entries));
      const refusal = await refusalOf(zip, "zip");
      expect(refusal).toStartWith(`${zip.split("/").at(-1)}: `);
      expect(refusal).toContain(message);
    },
    30_000,
  );

  test("is refused that is cut, empty or something else", async () => {
    const whole = makeZip(entries);
    for (const bytes of [
      whole.subarray(0, whole.length - 30),
      whole.subarray(0, 1000),
      Buffer.from("PK\x03\x04"),
      Buffer.alloc(0),
    ]) {
      const path = `${fresh()}.zip`;
      writeFileSync(path, bytes);
      expect(await refusalOf(path, "zip")).toContain("it is not a usable ZIP");
    }
  });
});
