import { readCarriedVocabulary } from "./carried-vocabulary.ts";
import { ImportError } from "./import-error.ts";
import type { OpenModel } from "./open-model.ts";
import type { SourceFile } from "./source-file.ts";
import type { StoredTensor } from "./stored-tensor.ts";
import { whisperTensors } from "./tensor-list.ts";
import { readOpenAiFile } from "./torch-file.ts";
import {
  AUDIO_CONTEXT,
  checkShape,
  ENGLISH_VOCAB,
  TEXT_CONTEXT,
  type WhisperShape,
} from "./whisper-config.ts";

/**
 * Opens a checkpoint of OpenAI's own program, such as `base.pt`: sizes and tensors, without a vocabulary. The size of the
 * vocabulary says which of OpenAI's two it is.
 *
 * @throws ImportError when the file is damaged or holds something else
 */
export async function openOpenAiCheckpoint(file: SourceFile): Promise<OpenModel> {
  const { sizes, tensors } = await readOpenAiFile(file);
  const shape = shapeOf(file, sizes);
  const left = new Map(tensors);
  const renamed = new Map<string, StoredTensor>();
  // The names of ggml are OpenAI's own.
  for (const { ggmlName, sourceName } of whisperTensors(shape)) {
    const tensor = left.get(ggmlName);
    if (!tensor) throw new ImportError(file.name, `the tensor ${ggmlName} is missing`);
    left.delete(ggmlName);
    renamed.set(sourceName, { ...tensor, label: ggmlName });
  }
  // The conversion refuses what is left by its name.
  for (const [name, tensor] of left) renamed.set(`openai ${name}`, { ...tensor, label: name });
  return {
    shape,
    sizesFrom: "dims",
    tokens: await readCarriedVocabulary(shape.vocab === ENGLISH_VOCAB ? "gpt2" : "multilingual"),
    tensors: renamed,
    files: [file],
    close: () => {},
  };
}

function shapeOf(file: SourceFile, sizes: ReadonlyMap<string, number>): WhisperShape {
  const sizeOf = (name: string): number => {
    const size = sizes.get(name);
    if (size === undefined) throw new ImportError(file.name, `dims has no ${name}`);
    return size;
  };
  const require = (name: string, expected: number) => {
    if (sizeOf(name) !== expected)
      throw new ImportError(file.name, `${name} is ${sizeOf(name)}; whisper.cpp computes with ${expected}`);
  };
  const shape: WhisperShape = {
    vocab: sizeOf("n_vocab"),
    state: sizeOf("n_audio_state"),
    audioHeads: sizeOf("n_audio_head"),
    audioLayers: sizeOf("n_audio_layer"),
    textHeads: sizeOf("n_text_head"),
    textLayers: sizeOf("n_text_layer"),
    mels: sizeOf("n_mels"),
  };
  require("n_text_state", shape.state);
  require("n_audio_ctx", AUDIO_CONTEXT);
  require("n_text_ctx", TEXT_CONTEXT);
  checkShape(file.name, shape);
  return shape;
}
