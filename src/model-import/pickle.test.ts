import { describe, expect, test } from "bun:test";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  type MadeTensor,
  pickledDict,
  pickledGlobal,
  pickledTensor,
  pickledText,
} from "../testing/makers/checkpoint-makers.ts";
import { createHalfReader } from "./halves.ts";
import { readStateDict } from "./pickle.ts";
import { openSource } from "./source-file.ts";
import { readTorchFile } from "./torch-file.ts";

/** Files that torch 1.13 has written; make.py beside them says how. */
const FILES = { path: join(import.meta.dir, "../testing/torch-files") };

async function readFile(name: string) {
  const file = openSource(FILES, name);
  try {
    const tensors = await readTorchFile(file);
    return new Map(
      [...tensors].map(([tensorName, tensor]) => [
        tensorName,
        {
          type: tensor.type,
          shape: tensor.shape,
          values: [...createHalfReader().slices(tensor, tensorName)].flatMap((slice) => [...slice]),
        },
      ]),
    );
  } finally {
    file.close();
  }
}

const VALUES = [0, 0.25, 0.5, 0.75, 1, 1.25];

describe("files of torch", () => {
  test("with a plain state_dict are read: three types, views and parameters", async () => {
    const tensors = await readFile("plain.bin");
    expect(Object.fromEntries(tensors)).toEqual({
      f32: { type: "F32", shape: [2, 3], values: VALUES },
      f16: { type: "F16", shape: [2, 3], values: VALUES },
      bf16: { type: "BF16", shape: [2, 3], values: VALUES },
      view: { type: "F32", shape: [3], values: VALUES.slice(3) },
      parameter: { type: "F32", shape: [2, 3], values: VALUES },
    });
    expect([...(await readFile("linear.bin")).keys()]).toEqual(["weight", "bias"]);
    expect((await readFile("protocol-4.bin")).get("f32")?.values).toEqual(VALUES);
  });

  test.each([
    ["system-call.bin", 'names "posix system": it could run code'],
    ["module.bin", "could run code"],
    ["training-state.bin", 'holds "epoch", which is not a tensor'],
    ["transposed.bin", "the tensor transposed is not stored row by row"],
    ["integers.bin", "values of type LongStorage, which cannot be imported"],
    ["old-format.bin", "not a file of torch 1.6 or newer"],
  ])("%s is refused, and nothing runs", async (name, reason) => {
    await expect(readFile(name)).rejects.toThrow(`${name}: `);
    await expect(readFile(name)).rejects.toThrow(reason);
    expect(existsSync("/tmp/shruti-import-was-run")).toBe(false);
  });
});

test("damaged files are refused by the same error, or read", async () => {
  const original = readFileSync(join(FILES.path, "plain.bin"));
  const folder = mkdtempSync(join(tmpdir(), "shruti-pickle-"));
  let state = 5;
  const random = (below: number) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
  let refused = 0;
  for (let round = 0; round < 1500; round++) {
    const damaged = Buffer.from(original);
    for (let n = 0; n <= random(3); n++) damaged[random(damaged.length)] = random(256);
    writeFileSync(join(folder, "damaged.bin"), damaged);
    const file = openSource({ path: folder }, "damaged.bin");
    try {
      for (const [name, tensor] of await readTorchFile(file))
        [...createHalfReader().slices(tensor, name)].length;
    } catch (error) {
      expect((error as Error).name).toBe("ImportError");
      refused++;
    } finally {
      file.close();
    }
  }
  rmSync(folder, { recursive: true });
  expect(refused).toBeGreaterThan(200);
}, 60_000);

const TENSOR: MadeTensor = { name: "w", shape: [2], values: new Float32Array(2) };
const GOOD = pickledDict([["w", pickledTensor(TENSOR, 0, "F32")]]);
const bytes = (...parts: (number | Buffer)[]): Buffer =>
  Buffer.concat(parts.map((part) => (typeof part === "number" ? Buffer.of(part) : part)));

/** A dictionary whose only value is made by these bytes. */
const dictOf = (...value: (number | Buffer)[]): Buffer => pickledDict([["w", bytes(...value)]]);

describe("pickles", () => {
  test("of a state_dict give its tensors", () => {
    expect([...readStateDict(GOOD)]).toEqual([
      [
        "w",
        {
          storage: { storageType: "FloatStorage", key: "0", location: "cpu", elements: 2 },
          offset: 0,
          shape: [2],
          stride: [1],
        },
      ],
    ]);
  });

  const refused: [string, Buffer, string][] = [
    ["an empty one", Buffer.alloc(0), "truncated"],
    ["one that is cut", GOOD.subarray(0, GOOD.length - 9), "truncated"],
    ["one with something after its end", bytes(GOOD, 0), "after its end"],
    ["one that leaves values on the stack", bytes(0x80, 2, 0x4e, 0x4e, 0x2e), "after its end"],
    ["protocol 0", Buffer.from("(dp0\n."), "does not begin"],
    ["an unknown protocol", bytes(0x80, 9, 0x2e), "protocol 9"],
    ["a second protocol within", bytes(0x80, 2, 0x80, 2, 0x2e), "operation 0x80"],
    [
      "a call of builtins.eval",
      dictOf(pickledGlobal("builtins", "eval"), pickledText("1"), 0x85, 0x52),
      "builtins eval",
    ],
    [
      "a call of os.system",
      dictOf(pickledGlobal("os", "system"), pickledText("true"), 0x85, 0x52),
      "os system",
    ],
    ["a name put together on the stack", dictOf(pickledText("os"), pickledText("system"), 0x93), "os system"],
    ["INST", dictOf(0x28, Buffer.from("ios\nsystem\n")), "operation 0x69"],
    ["OBJ", dictOf(0x28, 0x6f), "operation 0x6f"],
    ["NEWOBJ", dictOf(pickledGlobal("torch", "FloatStorage"), 0x29, 0x81), "operation 0x81"],
    ["EXT1", dictOf(0x82, 1), "operation 0x82"],
    ["a text of four gigabytes", dictOf(0x58, Buffer.from([0xff, 0xff, 0xff, 0xff])), "truncated"],
    ["a number of 255 bytes", dictOf(0x8a, 255, Buffer.alloc(255, 1)), "more than 64 bits"],
    ["a memo that is not there", dictOf(0x68, 77), "has not remembered"],
    ["a tuple without a mark", bytes(0x80, 2, 0x74, 0x2e), "no mark"],
    ["values from an empty stack", bytes(0x80, 2, 0x87, 0x2e), "where none is"],
    ["a state of something else", bytes(0x80, 2, 0x5d, 0x4e, 0x62, 0x2e), "not a list or dictionary"],
    ["a storage of an unknown kind", dictOf(pickledText("storage"), 0x51), "not a storage"],
    [
      "a name twice",
      pickledDict([
        ["w", pickledTensor(TENSOR, 0, "F32")],
        ["w", pickledTensor(TENSOR, 1, "F32")],
      ]),
      "twice",
    ],
    ["a text as a tensor", dictOf(pickledText("x")), "not a tensor"],
    ["a list as the whole", bytes(0x80, 2, 0x5d, 0x2e), "something else than a state_dict"],
  ];
  test.each(refused)("%s is refused", (_name, data, reason) => {
    expect(() => readStateDict(data)).toThrow(reason);
  });

  test("that repeat themselves through the memo take memory in proportion to their bytes", () => {
    // Each step makes a tuple of the one before, twice: written out, it would have 2^100000 leaves.
    const steps = Array.from({ length: 100_000 }, () => Buffer.from([0x71, 0, 0x68, 0, 0x86]));
    const before = process.memoryUsage.rss();
    expect(() => readStateDict(bytes(0x80, 2, 0x29, ...steps, 0x2e))).toThrow(
      "something else than a state_dict",
    );
    expect(process.memoryUsage.rss() - before).toBeLessThan(300e6);
  });

  // Written out, the value would have 2^30 leaves.
  const doubled = bytes(0x29, ...Array.from({ length: 30 }, () => Buffer.from([0x71, 0, 0x68, 0, 0x86])));
  const many = bytes(0x28, ...Array.from({ length: 100_000 }, () => Buffer.from([0x4b, 1])), 0x74);
  const steep: [string, Buffer, string][] = [
    ["as the name of a global", dictOf(doubled, pickledText("x"), 0x93), "not a text"],
    ["as the module of a global", dictOf(pickledText("torch"), doubled, 0x93), "not a text"],
    ["as the name of a tensor", bytes(0x80, 2, 0x7d, doubled, 0x4e, 0x73, 0x2e), "not a text"],
    ["as a tensor", dictOf(doubled), "not a tensor"],
    ["as a storage", dictOf(doubled, 0x51), "not a storage"],
    [
      "as the shape of a tensor",
      dictOf(
        pickledGlobal("torch._utils", "_rebuild_tensor_v2"),
        0x28,
        0x4e,
        0x4b,
        0,
        many,
        many,
        0x74,
        0x52,
      ),
      "usual way",
    ],
  ];
  test.each(steep)(
    "with a value that holds itself many times %s are refused at once",
    (_name, data, reason) => {
      const startedMs = process.cpuUsage().user / 1000;
      expect(() => readStateDict(data)).toThrow(reason);
      expect(process.cpuUsage().user / 1000 - startedMs).toBeLessThan(500);
    },
  );
});
