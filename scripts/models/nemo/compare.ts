import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { parseArgs } from "node:util";
import { openGgml } from "../../../src/engine/whisper/whisper.ts";
import { errorMessage } from "../../../src/lib/error-message.ts";
import { GGML_TYPES, ggufAligned, readGgufFile } from "../../../src/lib/gguf-file.ts";
import { ggufHead } from "../../../src/model-import/gguf-head.ts";
import { importModel } from "../../../src/model-import/import-worker.ts";
import type { WeightType } from "../../../src/model-import/quantise.ts";
import { extractNativeFiles } from "../../../src/native/native-files.ts";
import type { TdtHandle } from "../../../src/native/whisper/whisper-addon.ts";

/**
 * Compares the tokens of the engine with those that NeMo wrote, for all models that `make_models.py` has made.
 *
 *     bun scripts/models/nemo/compare.ts FOLDER [--type f32] [--type f16] [--type q8_0] [--exact] [--only NAME]
 *
 * Prints for each model how many of NeMo's tokens are written with the same frame and duration before the first difference in a
 * recording, and the least margin of NeMo's choices between the last equal token and the difference. With a small one it was rounding.
 */

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    type: { type: "string", multiple: true, default: ["f32", "f16", "q8_0"] },
    /** ggml's own operations alone. */
    exact: { type: "boolean", default: false },
    only: { type: "string" },
  },
});
const [folder = ""] = positionals;

/** A choice of NeMo: a token, or the blank, which has no probability. `margin`: how far it was above the second choice. */
type Step = { id: number; frame: number; duration: number; margin: number; probability?: number };
type Sound = { recording: string; ids: number[]; steps: Step[] };
type Model = { nemo: string; sounds: Sound[] };

const HEAD_BYTES = 44;
function samplesOf(path: string): Float32Array<ArrayBuffer> {
  const bytes = readFileSync(path);
  const at = bytes.indexOf("data") + 8 || HEAD_BYTES;
  return Float32Array.from(
    new Int16Array(new Uint8Array(bytes.subarray(at)).buffer),
    (value) => value / 32_768,
  );
}

const scratch = mkdtempSync(join(tmpdir(), "shruti-nemo-"));
const { dir } = await extractNativeFiles(scratch);
const { addon } = openGgml(dir, [], [], !values.exact);
const params = { groups: 0, threads: 1, niceness: 0 };

/** Writes the same weights with 32 bits: the engine then rounds nothing. */
function widen(source: string, output: string): void {
  const { values, tensors } = readGgufFile(source);
  const planned = [...tensors].map(([name, tensor]) => ({ ...tensor, name, type: "f32" as const }));
  const bytes = readFileSync(source);
  const parts = planned.flatMap((tensor) => {
    const { position, bytes: length } = tensor;
    const raw = new Uint8Array(bytes.subarray(position, position + length)).buffer;
    const isHalf = tensors.get(tensor.name)?.type === GGML_TYPES.f16.type;
    const wide = isHalf ? Float32Array.from(new Float16Array(raw)) : new Float32Array(raw);
    return [new Uint8Array(wide.buffer), new Uint8Array(ggufAligned(wide.byteLength) - wide.byteLength)];
  });
  writeFileSync(output, Buffer.concat([ggufHead(values, planned), ...parts]));
}

async function load(name: string, type: WeightType | "f32"): Promise<TdtHandle> {
  const output = join(scratch, `${name}-${type}.gguf`);
  const source = join(folder, `${name}.nemo`);
  const imported = type === "f32" ? "f16" : type;
  await importModel({ kind: "nemo", source, type: imported, output, scratch, reserveBytes: 0 }, () => {});
  if (type === "f32") widen(output, `${output}.wide`);
  return addon.loadTdt(type === "f32" ? `${output}.wide` : output);
}

/** Finds the first difference, and how far NeMo's nearest choice before it was above the second one. */
function differenceOf(own: readonly Step[], steps: readonly Step[]): { equal: number; margin?: number } {
  const tokens = steps.filter(({ probability }) => probability !== undefined);
  const isSame = (one: Step | undefined, other: Step | undefined) =>
    one?.id === other?.id && one?.frame === other?.frame && one?.duration === other?.duration;
  const equal = tokens.findIndex((token, n) => !isSame(token, own[n]));
  if (equal === -1 && own.length === tokens.length) return { equal: tokens.length };
  const same = equal === -1 ? tokens.length : equal;
  const from = same === 0 ? 0 : steps.indexOf(tokens[same - 1] as Step) + 1;
  const last = Math.min(
    own[same]?.frame ?? Number.POSITIVE_INFINITY,
    tokens[same]?.frame ?? Number.POSITIVE_INFINITY,
  );
  const between = steps.slice(from).filter(({ frame }) => frame <= last);
  return { equal: same, margin: Math.min(...between.map(({ margin }) => margin)) };
}

/** Compares a model, and returns lines that say how it went. */
async function compare(name: string, type: WeightType | "f32"): Promise<string> {
  const handle = await load(name, type);
  const { nemo, sounds } = JSON.parse(readFileSync(join(folder, `${name}.json`), "utf8")) as Model;
  let [equal, all, deviation] = [0, 0, 0];
  const lines: string[] = [];
  for (const { recording, steps, ids } of sounds) {
    const tokens = steps.filter(({ probability }) => probability !== undefined);
    if (tokens.map(({ id }) => id).join() !== ids.join())
      lines.push(`${basename(recording)}: NeMo's steps differ`);
    const found = await addon.runTdt(handle, samplesOf(recording), params).promise;
    const isRnnt = steps.every(({ duration }) => duration === 0);
    const own = Array.from(found.ids, (id, n): Step => {
      const duration = isRnnt ? 0 : (found.durations[n] ?? 0);
      return { id, frame: found.starts[n] ?? 0, duration, margin: 0 };
    });
    const difference = differenceOf(own, steps);
    for (let n = 0; n < difference.equal; n++) {
      const expected = tokens[n]?.probability ?? 0;
      deviation = Math.max(deviation, Math.abs((found.probabilities[n] ?? 0) - expected));
    }
    equal += difference.equal;
    all += tokens.length;
    if (difference.margin !== undefined)
      lines.push(
        `${basename(recording)}: ${difference.equal} of ${tokens.length}, margin ${difference.margin.toFixed(5)}`,
      );
  }
  const share = `${equal} of ${all} tokens, probabilities within ${deviation.toFixed(5)}`;
  return [`${name} ${type} (NeMo ${nemo}): ${share}`, ...lines].join("\n    ");
}

const names = readdirSync(folder)
  .filter((name) => name.endsWith(".nemo"))
  .map((name) => name.replace(/\.nemo$/, ""));
for (const name of names.filter((one) => values.only === undefined || one === values.only))
  for (const type of values.type as (WeightType | "f32")[])
    console.log(
      await compare(name, type).catch((error: unknown) => `${name} ${type}: refused: ${errorMessage(error)}`),
    );
rmSync(scratch, { recursive: true });
