import { existsSync, mkdirSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { WeightType } from "../../../src/model-import/quantise.ts";
import { writeBenchModel } from "../engine/bench-model.ts";
import { roundModel } from "../engine/model-file.ts";
import { NEMO_SHAPES, tdtShape, writePeerModel, writeTdtModel } from "../engine/tdt-model.ts";
import type { LargeModel } from "./options.ts";

/** Where generated models are, the folder of whisper.cpp's programs, the words of each window, and a Python for the others. */
export type ModelPlace = { folder: string; peersFolder: string; words: number; python: string | undefined };

/**
 * Files of a model: Shruti's, that of whisper.cpp's program where it has one, and folders for faster-whisper, and for sherpa-onnx
 * and onnx-asr, where a Python is named.
 */
export type MadeModel = { own: string; peer?: string; ctranslate2?: string; onnx?: string };

/** Returns the files of a model, and makes those that are not there. */
export function makeModel(model: LargeModel, place: ModelPlace): MadeModel {
  mkdirSync(place.folder, { recursive: true });
  if (model.kind === "whisper") return makeWhisper(model, place);
  return model.kind === "ctc" ? makeCtc(model, place) : makeTdt(model, place);
}

function makeWhisper(
  { shape, type }: LargeModel & { kind: "whisper" },
  { folder, peersFolder, words, python }: ModelPlace,
): MadeModel {
  const file = (name: string) => join(folder, `${shape}-${words}-words-${name}`);
  const plain = once(file("f16.bin"), (path) => writeBenchModel(path, words, shape));
  const own =
    type === "f16" ? plain : once(file(`${type}.bin`), (path) => roundModel(peersFolder, plain, path, type));
  if (python === undefined) return { own, peer: own };
  const ctranslate2 = once(file("ctranslate2"), (path) =>
    runPython(python, "ctranslate2_model.py", plain, path),
  );
  return { own, peer: own, ctranslate2 };
}

/** The others have the same weights as f16 rounded to 8 bits, or in 32 bits where the model has f16. */
function makeTdt(
  { shape, type }: LargeModel & { kind: "tdt" },
  { folder, python }: Pick<ModelPlace, "folder" | "python">,
): MadeModel {
  const sizes = tdtShape(NEMO_SHAPES[shape]);
  const file = (weights: WeightType) =>
    once(join(folder, `${shape}-${weights}.gguf`), (path) => writeTdtModel(path, sizes, weights));
  const weights = type as WeightType;
  const own = file(weights);
  const peer = once(join(folder, `${shape}-${type}-parakeet.bin`), (path) =>
    writePeerModel(path, sizes, weights),
  );
  if (python === undefined) return { own, peer };
  const numbers = type === "f16" ? "f32" : "int8";
  const onnx = once(join(folder, `tdt${shape}-${numbers}`), (path) =>
    runPython(python, "onnx_models.py", "tdt", file("f16"), numbers, path),
  );
  return { own, peer, onnx };
}

/** All programs read the same files. */
function makeCtc(
  { name, shape, type }: LargeModel & { kind: "ctc" },
  { folder, python }: Pick<ModelPlace, "folder" | "python">,
): MadeModel {
  const { layers, width } = NEMO_SHAPES[shape];
  const onnx = once(join(folder, name), (path) => {
    if (python === undefined) throw new Error(`${name} is made by a Python with onnx: name it with --python`);
    runPython(python, "onnx_models.py", "ctc", `${layers}`, `${width}`, type, path);
  });
  return { own: onnx, ...(python === undefined ? {} : { onnx }) };
}

function runPython(python: string, program: string, ...args: string[]): void {
  const command = [python, join(import.meta.dirname, program), ...args];
  const outcome = Bun.spawnSync(command, { stdout: "ignore", stderr: "pipe" });
  if (!outcome.success) throw new Error(`${program}: ${outcome.stderr.toString().slice(-2000)}`);
}

/** Makes a file or folder that is not there. An interrupted program leaves nothing that looks whole. */
function once(path: string, make: (path: string) => void): string {
  if (existsSync(path)) return path;
  const part = `${path}.part`;
  rmSync(part, { recursive: true, force: true });
  make(part);
  renameSync(part, path);
  return path;
}
