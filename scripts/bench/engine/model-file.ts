import { existsSync } from "node:fs";
import { join } from "node:path";
import { writeBenchModel } from "./bench-model.ts";
import { readBenchModelName } from "./shapes.ts";

const ROOT = join(import.meta.dirname, "../../..");

/** Where generated models are written, the folder of whisper.cpp's programs, and the words of each window. */
export type ModelFiles = { folder: string; peersFolder: string; words: number };

/**
 * Returns the file of a model, and makes it if it is a generated one: first f16, then rounded by whisper.cpp's program.
 * Every name that is not that of a generated model is the demonstration model.
 */
export function modelFile(id: string, { folder, peersFolder, words }: ModelFiles): string {
  const made = readBenchModelName(id);
  if (made === undefined) return join(ROOT, "models/demo.bin");
  const plain = join(folder, `bench-${made.shape}.bin`);
  if (!existsSync(plain)) writeBenchModel(plain, words, made.shape);
  if (made.type === "f16") return plain;
  const rounded = join(folder, `${id}.bin`);
  roundModel(peersFolder, plain, rounded, made.type);
  return rounded;
}

/** Rounds the weights of a model by whisper.cpp's program. @throws Error with what that says */
export function roundModel(peersFolder: string, plain: string, rounded: string, type: string): void {
  const program = join(peersFolder, "whisper-quantize");
  const outcome = Bun.spawnSync([program, plain, rounded, type], { stdout: "ignore", stderr: "pipe" });
  if (!outcome.success) throw new Error(`whisper-quantize: ${outcome.stderr}`);
}
