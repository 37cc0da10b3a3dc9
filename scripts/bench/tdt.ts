import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { openGgml } from "../../src/engine/whisper/whisper.ts";
import type { WeightType } from "../../src/model-import/quantise.ts";
import { buildWhisperPeers } from "../../src/native/build/whisper.ts";
import { extractNativeFiles } from "../../src/native/native-files.ts";
import { tdtShape, writePeerModel, writeTdtModel } from "./engine/tdt-model.ts";
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
const shape = tdtShape({ layers: Number(values.layers), width });
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
  writeTdtModel(model, shape, type);
  writePeerModel(other, shape, type);
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
