import { closeSync, mkdtempSync, openSync, rmSync, writeFileSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { openGgml } from "../../src/engine/whisper/whisper.ts";
import { ggufAligned } from "../../src/lib/gguf-file.ts";
import { type TdtShape, type TdtTensor, tdtTensors } from "../../src/lib/tdt-file.ts";
import { encode } from "../../src/model-import/convert.ts";
import { ggufHead } from "../../src/model-import/gguf-head.ts";
import { SLICE_VALUES } from "../../src/model-import/halves.ts";
import { headValues, storedType } from "../../src/model-import/nemo/convert.ts";
import type { WeightType } from "../../src/model-import/quantise.ts";
import { buildWhisperPeers } from "../../src/native/build/whisper.ts";
import { extractNativeFiles } from "../../src/native/native-files.ts";
import { median } from "./median.ts";

/**
 * Compares TDT models with whisper.cpp's own `parakeet-cli` on the same random weights: processor time of a chunk, one after the
 * other and eight at once. Both compute the same number of frames; tokens are printed, because decoding costs as much as they are.
 *
 *     bun scripts/bench/tdt.ts [--layers 24] [--width 1024] [--type f16] [--seconds 20] [--rounds 3]
 *
 * The default is Parakeet's shape (600 million weights). Fewer layers are enough to compare.
 */

const { values } = parseArgs({
  options: {
    layers: { type: "string", default: "24" },
    width: { type: "string", default: "1024" },
    type: { type: "string", default: "f16" },
    seconds: { type: "string", default: "20" },
    rounds: { type: "string", default: "3" },
    model: { type: "string" },
    groups: { type: "string", default: "0" },
    count: { type: "string", default: "1" },
  },
});
const width = Number(values.width);
const seconds = Number(values.seconds);
const type = values.type as WeightType;
const TOKENS = 8_192;
const shape: TdtShape = {
  ...{ mels: 128, subsampling: "dw_striding", factor: 8, channels: 256, width, inner: 4 * width, heads: 8 },
  ...{ layers: Number(values.layers), kernel: 9, hasBiases: false, scalesInput: false, tokens: TOKENS },
  ...{
    predictionWidth: 640,
    predictionLayers: 2,
    jointWidth: 640,
    mostSymbols: 10,
    durations: [0, 1, 2, 3, 4],
  },
};

/** Random values of deviation 1, from which all weights are taken: to make each again would take longer than to run. */
const BLOCK = Float32Array.from({ length: SLICE_VALUES }, () => Math.random() + Math.random() - 1).map(
  (v) => v * 2.4,
);

/** Returns the values of a tensor. */
function valuesOf({ name, shape: sizes }: TdtTensor): Float32Array<ArrayBuffer> {
  const count = sizes.reduce((product, size) => product * size, 1);
  const all = new Float32Array(count);
  if (name === "features.window") return all.map((_, n) => 0.5 - 0.5 * Math.cos((2 * Math.PI * n) / 399));
  if (name === "features.filters")
    return all.map((_, n) => (Math.abs((n % 257) - 2 * Math.floor(n / 257)) < 3 ? 1 : 0));
  if (/norm_.*\.weight$/.test(name)) return all.fill(1);
  if (name === "joint.out.bias") {
    // Without these nearly every frame would have tokens.
    all[TOKENS] = 22;
    all[TOKENS + 3] = 6;
    return all;
  }
  if (name.endsWith("bias")) return all;
  // The sound decides, and clearly.
  const sharpness = name === "joint.encoder.weight" || name === "joint.out.weight" ? 3 : 1;
  const scale = sharpness / Math.sqrt(count / (sizes.at(-1) ?? 1));
  let from = (name.length * 7_919 + name.charCodeAt(7) * 104_729) % SLICE_VALUES;
  for (let n = 0; n < count; n++) {
    all[n] = (BLOCK[from] ?? 0) * scale;
    if (++from === SLICE_VALUES) from = 0;
  }
  return all;
}

function bytesOf(data: Float32Array<ArrayBuffer>, stored: WeightType | "f32"): Buffer {
  if (stored === "f32") return Buffer.from(data.buffer);
  const parts: Buffer[] = [];
  for (let at = 0; at < data.length; at += SLICE_VALUES)
    parts.push(Buffer.from(encode(new Float16Array(data.subarray(at, at + SLICE_VALUES)), stored)));
  return Buffer.concat(parts);
}

function writeOwn(path: string): void {
  const planned = tdtTensors(shape).map((tensor) => ({ ...tensor, type: storedType(tensor, type) }));
  const tokens = Array.from({ length: TOKENS }, (_, n) => `▁t${n}`);
  const file = openSync(path, "w");
  writeSync(file, ggufHead(headValues(shape, { tokens, languages: [] }, type), planned));
  for (const tensor of planned) {
    const bytes = bytesOf(valuesOf(tensor), tensor.type);
    writeSync(file, bytes);
    writeSync(file, new Uint8Array(ggufAligned(bytes.length) - bytes.length));
  }
  closeSync(file);
}

/** Names of parts, of the engine's file and of parakeet.cpp's. */
const NAMES: readonly [RegExp, string][] = [
  [/^layers\./, "encoder.layers."],
  [/norm_ff(\d)/, "norm_feed_forward$1"],
  [/\bff(\d)\.up/, "feed_forward$1.linear1"],
  [/\bff(\d)\.down/, "feed_forward$1.linear2"],
  [/norm_att/, "norm_self_att"],
  [/att\.bias_/, "self_attn.pos_bias_"],
  [/att\.position$/, "self_attn.linear_pos.weight"],
  [/att\.(query|key|value)/, "self_attn.linear_$1"],
  [/linear_(q|k|v)(?:uery|ey|alue)/, "linear_$1"],
  [/att\.out/, "self_attn.linear_out"],
  [/conv\.in/, "conv.pointwise_conv1"],
  [/conv\.depth/, "conv.depthwise_conv"],
  [/conv\.out/, "conv.pointwise_conv2"],
  [/^prediction\.embedding$/, "decoder.prediction.embed.weight"],
  [/^prediction\.(\d)\.input$/, "decoder.prediction.dec_rnn.lstm.weight_ih_l$1"],
  [/^prediction\.(\d)\.hidden$/, "decoder.prediction.dec_rnn.lstm.weight_hh_l$1"],
  [/^prediction\.(\d)\.bias$/, "decoder.prediction.dec_rnn.lstm.bias_h_l$1"],
  [/^joint\.prediction/, "joint.pred"],
  [/^joint\.encoder/, "joint.enc"],
  [/^joint\.out/, "joint.joint_net.2"],
  [/^subsampling\.out/, "encoder.pre_encode.out"],
];
const STEPS = [0, 2, 3, 5, 6];

function peerName(name: string): string {
  const step = /^subsampling\.(\d)\.(.*)$/.exec(name);
  if (step) return `encoder.pre_encode.conv.${STEPS[Number(step[1])]}.${step[2]}`;
  return NAMES.reduce((text, [pattern, to]) => text.replace(pattern, to), name);
}

/** Writes parakeet.cpp's file, whose form its `convert-parakeet-to-ggml.py` defines. */
function writePeer(path: string): void {
  const file = openSync(path, "w");
  const ints = (...numbers: number[]) =>
    void writeSync(file, new Uint8Array(Int32Array.from(numbers).buffer));
  const codes = { f32: [0, 0], f16: [1, 1], q8_0: [2007, 8], q5_0: [2008, 6], q5_1: [2009, 7] } as const;
  ints(0x67676d6c, TOKENS, 5_000, width, shape.heads, shape.layers, 128, codes[type][0], 512, 8, 256, 9);
  ints(640, 2, 5, 10);
  const [filters, window, ...tensors] = tdtTensors(shape);
  if (!filters || !window) throw new Error("there are no features");
  ints(128, 257);
  writeSync(file, bytesOf(valuesOf(filters), "f32"));
  ints(400);
  writeSync(file, bytesOf(valuesOf(window), "f32"));
  ints(...shape.durations, TOKENS);
  for (let n = 0; n < TOKENS; n++) {
    const token = Buffer.from(`▁t${n}`);
    ints(token.length);
    writeSync(file, token);
  }
  const write = (name: string, sizes: readonly number[], bytes: Uint8Array, code: number) => {
    ints(sizes.length, Buffer.byteLength(name), code, ...sizes);
    writeSync(file, Buffer.concat([Buffer.from(name), bytes]));
  };
  for (const tensor of tensors) {
    if (tensor.name.endsWith("depth.bias")) continue;
    const stored = tensor.stored === "weights" ? type : "f32";
    const isStepBias = /^subsampling\.\d\.bias$/.test(tensor.name);
    const sizes = isStepBias ? [1, 1, ...tensor.shape, 1] : tensor.shape;
    write(peerName(tensor.name), sizes, bytesOf(peerValues(tensor), stored), codes[stored][1]);
  }
  for (let layer = 0; layer < shape.layers; layer++) {
    const of = `encoder.layers.${layer}.conv.batch_norm.`;
    const ones = bytesOf(new Float32Array(width).fill(1), "f32");
    const zeros = new Uint8Array(4 * width);
    for (const [part, bytes] of Object.entries({
      weight: ones,
      bias: zeros,
      running_mean: zeros,
      running_var: ones,
    }))
      write(of + part, [width], bytes, 0);
    write(`${of}num_batches_tracked`, [1], new Uint8Array(4), 26);
  }
  closeSync(file);
}

/** parakeet.cpp has the gates of the LSTM in another order: the cell is the last one. */
function peerValues(tensor: TdtTensor): Float32Array<ArrayBuffer> {
  const data = valuesOf(tensor);
  if (!/^prediction\.\d/.test(tensor.name)) return data;
  const quarter = data.length / 4;
  const gate = (n: number) => [...data.subarray(n * quarter, (n + 1) * quarter)];
  return Float32Array.from([...gate(0), ...gate(1), ...gate(3), ...gate(2)]);
}

function noise(): Float32Array<ArrayBuffer> {
  return Float32Array.from(
    { length: seconds * 16_000 },
    (_, n) => Math.sin(n * (0.05 + 0.04 * Math.sin(n / 9_000))) * 0.3 * Math.abs(Math.sin(n / 2_500)),
  );
}

function writeWav(path: string): void {
  const pcm = Int16Array.from(noise(), (value) => value * 32_767);
  const head = Buffer.from("RIFF    WAVEfmt ");
  const rest = Buffer.alloc(28);
  head.writeUInt32LE(36 + pcm.byteLength, 4);
  for (const [at, value] of [
    [0, 16],
    [8, 16_000],
    [12, 32_000],
  ] as const)
    rest.writeUInt32LE(value, at);
  for (const [at, value] of [
    [4, 1],
    [6, 1],
    [16, 2],
    [18, 16],
  ] as const)
    rest.writeUInt16LE(value, at);
  rest.write("data", 20);
  rest.writeUInt32LE(pcm.byteLength, 24);
  writeFileSync(path, Buffer.concat([head, rest, Buffer.from(pcm.buffer)]));
}

/** Runs chunks in this process, and prints the processor time of one, milliseconds, and its tokens. */
async function runOwn(model: string): Promise<void> {
  const { dir } = await extractNativeFiles("");
  const { addon } = openGgml(dir, [], [], true);
  const handle = await addon.loadTdt(model);
  const count = Number(values.count);
  const params = { groups: Number(values.groups), threads: 1, niceness: 0 };
  const round = async () => {
    const before = process.cpuUsage();
    const runs = Array.from({ length: count }, () => addon.runTdt(handle, noise(), params).promise);
    const found = await Promise.all(runs);
    const { user, system } = process.cpuUsage(before);
    return { ms: (user + system) / 1_000 / count, tokens: found[0]?.ids.length ?? 0 };
  };
  await round();
  const rounds = [];
  for (let n = 0; n < Number(values.rounds); n++) rounds.push(await round());
  console.log(
    JSON.stringify({ ms: Math.round(median(rounds.map(({ ms }) => ms))), tokens: rounds[0]?.tokens }),
  );
}

async function own(model: string, count: number, groups: number): Promise<string> {
  const args = [
    "--model",
    model,
    "--count",
    count,
    "--groups",
    groups,
    "--seconds",
    seconds,
    "--rounds",
    values.rounds,
  ];
  const child = Bun.spawn([process.execPath, import.meta.path, ...args.map(String)], { stderr: "inherit" });
  return (await new Response(child.stdout).text()).trim();
}

/** Returns the processor time of parakeet-cli for each further file, milliseconds, and the words that it writes. */
async function peer(program: string, model: string, wav: string): Promise<string> {
  const run = async (files: number) => {
    const args = Array.from({ length: files }, () => ["-f", wav]).flat();
    const child = Bun.spawn([program, "-ng", "-t", "1", "-np", "-m", model, ...args], { stderr: "ignore" });
    const text = await new Response(child.stdout).text();
    await child.exited;
    return {
      ms: Number(child.resourceUsage()?.cpuTime.total ?? 0n) / 1_000,
      words: (text.match(/t\d+/g) ?? []).length,
    };
  };
  const rounds = [];
  for (let n = 0; n < Number(values.rounds); n++) {
    const [one, three] = [await run(1), await run(3)];
    rounds.push({ ms: (three.ms - one.ms) / 2, words: one.words });
  }
  return JSON.stringify({ ms: Math.round(median(rounds.map(({ ms }) => ms))), tokens: rounds[0]?.words });
}

if (values.model !== undefined) await runOwn(values.model);
else {
  const folder = mkdtempSync(join(tmpdir(), "shruti-tdt-bench-"));
  const [model, other, wav] = ["own.gguf", "peer.bin", "sound.wav"].map((name) => join(folder, name)) as [
    string,
    string,
    string,
  ];
  writeOwn(model);
  writePeer(other);
  writeWav(wav);
  const program = join(await buildWhisperPeers(), "parakeet-cli");
  console.log(
    `${shape.layers} layers of width ${width}, ${type}, ${seconds} s, one thread; processor time of a chunk`,
  );
  console.log(`parakeet-cli          ${await peer(program, other, wav)}`);
  console.log(`shruti, alone         ${await own(model, 1, 0)}`);
  console.log(`shruti, eight at once ${await own(model, 8, 1)}`);
  rmSync(folder, { recursive: true });
}
