import { dlopen, ptr } from "bun:ffi";
import { expect, test } from "bun:test";
import { dirname, join } from "node:path";
import { NATIVE_FILES } from "../../build/native/assets.ts";
import { BLOCK_VALUES, type QuantisedType, quantise, WEIGHT_CODES, weightBytes } from "./quantise.ts";

const { symbols } = dlopen(join(dirname(NATIVE_FILES[0]?.packed ?? ""), "libggml-base.so"), {
  ggml_quantize_chunk: { args: ["int", "ptr", "ptr", "i64", "i64", "i64", "ptr"], returns: "u64" },
});

function native(values: Float32Array<ArrayBuffer>, type: QuantisedType): Uint8Array {
  const out = new Uint8Array(weightBytes(type, values.length));
  const rows = values.length / BLOCK_VALUES;
  symbols.ggml_quantize_chunk(WEIGHT_CODES[type].tensor, ptr(values), ptr(out), 0, rows, BLOCK_VALUES, null);
  return out;
}

function own(values: Float32Array<ArrayBuffer>, type: QuantisedType): Uint8Array {
  const out = new Uint8Array(weightBytes(type, values.length));
  quantise(values, type, out);
  return out;
}

/** Values as they come out of 16 bits, in blocks of very different sizes. */
function randomValues(count: number, seed: number): Float32Array<ArrayBuffer> {
  let state = seed;
  const random = () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32 - 0.5;
  };
  const values = new Float32Array(count);
  for (let i = 0; i < count; i++) {
    const size = 10 ** ((Math.floor(i / BLOCK_VALUES) % 12) - 7);
    values[i] = random() * size;
  }
  return Float32Array.from(new Float16Array(values));
}

const block = (of: (index: number) => number): Float32Array<ArrayBuffer> =>
  Float32Array.from(new Float16Array(Float32Array.from({ length: BLOCK_VALUES }, (_, index) => of(index))));

test.each(["q8_0", "q5_0", "q5_1"] as const)("%s has ggml's bytes", (type) => {
  const cases = {
    random: randomValues(400_000, 7),
    zeros: block(() => 0),
    "negative zeros": block(() => -0),
    equal: block(() => 0.25),
    "halves between two levels": block((index) => (index - 15.5) / 2),
    "largest values": block((index) => (index % 2 ? 65_504 : -65_504)),
    "smallest values": block((index) => index * 2 ** -24),
    "one value": block((index) => (index === 17 ? -3 : 0)),
  };
  for (const [name, values] of Object.entries(cases)) {
    expect([name, Buffer.compare(own(values, type), native(values, type))]).toEqual([name, 0]);
  }
});
