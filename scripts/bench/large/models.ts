import { existsSync, mkdirSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { WeightType } from "../../../src/model-import/quantise.ts";
import { writeBenchModel } from "../engine/bench-model.ts";
import { roundModel } from "../engine/model-file.ts";
import { NEMO_SHAPES, tdtShape, writePeerModel, writeTdtModel } from "../engine/tdt-model.ts";
import type { LargeModel } from "./options.ts";

/** Where generated models are, the folder of whisper.cpp's programs, the words of each window, and a Python for the others. */
export type ModelPlace = { folder: string; peersFolder: string; words: number; python: string | undefined };

/** Files of a model: Shruti's, that of whisper.cpp's program, and a folder for faster-whisper where a Python is named. */
export type MadeModel = { own: string; peer: string; ctranslate2?: string };

/** Returns the files of a model, and makes those that are not there. */
export function makeModel(model: LargeModel, place: ModelPlace): MadeModel {
  mkdirSync(place.folder, { recursive: true });
  return model.kind === "whisper" ? makeWhisper(model, place) : makeTdt(model, place);
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
  const program = join(import.meta.dirname, "ctranslate2_model.py");
  const ctranslate2 = once(file("ctranslate2"), (path) => {
    const outcome = Bun.spawnSync([python, program, plain, path], { stdout: "ignore", stderr: "pipe" });
    if (!outcome.success) throw new Error(`ctranslate2_model.py: ${outcome.stderr}`);
  });
  return { own, peer: own, ctranslate2 };
}

function makeTdt(
  { name, shape, type }: LargeModel & { kind: "tdt" },
  { folder }: Pick<ModelPlace, "folder">,
): MadeModel {
  const sizes = tdtShape(NEMO_SHAPES[shape]);
  const weights = type as WeightType;
  return {
    own: once(join(folder, `${name}.gguf`), (path) => writeTdtModel(path, sizes, weights)),
    peer: once(join(folder, `${name}-parakeet.bin`), (path) => writePeerModel(path, sizes, weights)),
  };
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
