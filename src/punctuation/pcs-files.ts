import { readdirSync } from "node:fs";
import { join } from "node:path";
import type { PunctuationFiles } from "../domain/model.ts";
import { errorMessage } from "../lib/error-message.ts";
import { ONNX_BOOL, ONNX_INT64, type OnnxPort, readOnnxFile } from "../lib/onnx-file.ts";
import { readRegularBytes, readRegularFile } from "../lib/regular-file.ts";
import { type PcsConfig, readPcsConfig } from "./pcs-config.ts";
import { openSentencePieces, type SentencePieces } from "./sentencepiece.ts";

/**
 * The files of a model as the package `punctuators` publishes it: a net (ONNX), a tokenizer (SentencePiece) and
 * `config.yaml`. This reads and checks them without native code.
 */

/** Paths of the files. */
export type PcsPaths = Pick<PunctuationFiles, "modelPath" | "tokenizerPath" | "configPath">;

/** Names that the files have where the program keeps them. */
export const PCS_NAMES = { model: "model.onnx", tokenizer: "sp.model", config: "config.yaml" } as const;

/** The outputs of the net in their order. `width`: values for each token. */
export type PcsOutputs = { pre: number; post: number; capitals: number };

export type PcsFiles = { config: PcsConfig; pieces: SentencePieces; outputs: PcsOutputs };

const MAX_CONFIG_BYTES = 64 * 1024;
const MAX_TOKENIZER_BYTES = 64 * 1024 * 1024;
const MAX_LICENCE_FILES = 8;

/** Finds the files in a folder. @throws Error that says which is missing or there twice */
export function findPcsFiles(folder: string): PcsPaths & { licences: string[] } {
  const names = readdirSync(folder);
  const only = (what: string, ending: string): string => {
    const found = names.filter((name) => name.endsWith(ending));
    if (found.length === 1) return join(folder, found[0] as string);
    throw new Error(`The folder has ${found.length === 0 ? "no" : "several"} ${what} (*${ending}).`);
  };
  if (!names.includes(PCS_NAMES.config)) throw new Error(`The folder has no ${PCS_NAMES.config}.`);
  return {
    modelPath: only("net", ".onnx"),
    tokenizerPath: only("SentencePiece model", ".model"),
    configPath: join(folder, PCS_NAMES.config),
    licences: names
      .filter((name) => /^(?:licen[cs]e|copying|notice)/iu.test(name))
      .slice(0, MAX_LICENCE_FILES),
  };
}

/**
 * Reads and checks the files.
 *
 * @throws Error with the file's name, and what in it differs from the layout
 */
export function readPcsFiles({ modelPath, tokenizerPath, configPath }: PcsPaths): PcsFiles {
  const config = naming(PCS_NAMES.config, () => readPcsConfig(readRegularFile(configPath, MAX_CONFIG_BYTES)));
  const pieces = naming("the SentencePiece model", () =>
    openSentencePieces(readRegularBytes(tokenizerPath, MAX_TOKENIZER_BYTES)),
  );
  const outputs = naming("the net", () => checkNet(modelPath));
  return { config, pieces, outputs };
}

function naming<T>(name: string, work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw new Error(`${name}: ${errorMessage(error)}`, { cause: error });
  }
}

/** Inputs and outputs of the net by name, with their types and numbers of dimensions. */
function checkNet(path: string): PcsOutputs {
  const { inputs, outputs, external } = readOnnxFile(path);
  if (external.size > 0) throw new Error("it keeps weights in further files");
  const [input, ...more] = inputs;
  if (!input || more.length > 0 || input.name !== "input_ids")
    throw new Error("its only input is not input_ids");
  requirePort(input, [ONNX_INT64], 2);
  const names = outputs.map(({ name }) => name);
  if (names.join() !== "pre_preds,post_preds,cap_preds,seg_preds")
    throw new Error(
      `its outputs are ${names.join(", ")}, and not pre_preds, post_preds, cap_preds, seg_preds`,
    );
  const [pre, post, capitals, ends] = outputs as [OnnxPort, OnnxPort, OnnxPort, OnnxPort];
  for (const port of [pre, post]) requirePort(port, [ONNX_INT64], 2);
  requirePort(capitals, [ONNX_BOOL, ONNX_INT64], 3);
  requirePort(ends, [ONNX_BOOL, ONNX_INT64], 2);
  return { pre: 0, post: 1, capitals: 2 };
}

function requirePort({ name, type, shape }: OnnxPort, types: readonly number[], dimensions: number): void {
  if (!types.includes(type)) throw new Error(`${name} has the wrong type of numbers`);
  // Exports may leave the dimensions of outputs out.
  if (shape.length > 0 && shape.length !== dimensions)
    throw new Error(`${name} has ${shape.length} dimensions, and not ${dimensions}`);
}
