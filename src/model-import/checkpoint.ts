import { ImportError } from "./import-error.ts";
import { readSafetensors } from "./safetensors.ts";
import {
  type CheckpointFolder,
  hasFile,
  isJsonObject,
  openSource,
  readJsonFile,
  type SourceFile,
} from "./source-file.ts";
import type { StoredTensor } from "./stored-tensor.ts";
import { readTorchFile } from "./torch-file.ts";

/** The tensors of a checkpoint by name, and the files that hold them. */
export type Checkpoint = { tensors: Map<string, StoredTensor>; files: SourceFile[]; close(): void };

type Format = {
  file: string;
  read: (file: SourceFile) => Map<string, StoredTensor> | Promise<Map<string, StoredTensor>>;
};

/** In the order of preference, which is that of transformers. */
const FORMATS: readonly Format[] = [
  { file: "model.safetensors", read: readSafetensors },
  { file: "pytorch_model.bin", read: readTorchFile },
];
const indexOf = (format: Format): string => `${format.file}.index.json`;

const MAX_INDEX_BYTES = 4 * 1024 * 1024;
const MAX_SHARDS = 64;
/** A shard is a file beside its index, so its name is a plain one. */
const PLAIN_NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,150}$/;

/** Reports whether a name is that of a file with weights. */
export function isWeightsName(name: string): boolean {
  return /^(?:model|pytorch_model)[\w.-]*\.(?:safetensors|bin)$/.test(name);
}

const findFormat = (folder: CheckpointFolder) =>
  FORMATS.find((one) => hasFile(folder, one.file) || hasFile(folder, indexOf(one)));

/** Reports whether a folder has weights of transformers. */
export function hasCheckpoint(folder: CheckpointFolder): boolean {
  return findFormat(folder) !== undefined;
}

/**
 * Lists the tensors of a folder: of a single file, or of the shards that an index names.
 *
 * @throws ImportError
 */
export async function openCheckpoint(folder: CheckpointFolder): Promise<Checkpoint> {
  const format = findFormat(folder);
  if (!format) throw new ImportError(FORMATS[0]?.file ?? "", whyNoWeights(folder));
  const map = hasFile(folder, format.file) ? undefined : readIndex(folder, indexOf(format));
  const names = map ? [...new Set(map.values())] : [format.file];
  const files: SourceFile[] = [];
  const close = () => {
    for (const file of files) file.close();
  };
  try {
    const tensors = new Map<string, StoredTensor>();
    for (const name of names) {
      const file = openSource(folder, name);
      files.push(file);
      for (const [tensorName, tensor] of await format.read(file)) {
        const shard = map?.get(tensorName);
        if (map && shard !== name) {
          throw new ImportError(
            name,
            `the index says that the tensor ${tensorName} is in ${shard ?? "no file"}`,
          );
        }
        tensors.set(tensorName, tensor);
      }
    }
    for (const [name, shard] of map ?? []) {
      if (!tensors.has(name))
        throw new ImportError(shard, `the tensor ${name}, which the index names, is missing`);
    }
    return { tensors, files, close };
  } catch (error) {
    close();
    throw error;
  }
}

function readIndex(folder: CheckpointFolder, name: string): Map<string, string> {
  const { weight_map: map } = readJsonFile(folder, name, MAX_INDEX_BYTES);
  if (!isJsonObject(map)) throw new ImportError(name, "it has no weight_map");
  const shards = new Map<string, string>();
  for (const [tensor, shard] of Object.entries(map)) {
    if (typeof shard !== "string" || !PLAIN_NAME.test(shard)) {
      throw new ImportError(
        name,
        `it names the file ${JSON.stringify(shard)}, which is not a plain file name`,
      );
    }
    shards.set(tensor, shard);
  }
  const count = new Set(shards.values()).size;
  if (count === 0 || count > MAX_SHARDS)
    throw new ImportError(name, `it names ${count} files; 1 to ${MAX_SHARDS} are possible`);
  return shards;
}

function whyNoWeights(folder: CheckpointFolder): string {
  if (hasFile(folder, "adapter_config.json")) {
    return "the folder holds only an adapter (LoRA): merge it into its base model first (peft's merge_and_unload)";
  }
  const others: [string, string][] = [
    ["flax_model.msgpack", "Flax"],
    ["tf_model.h5", "TensorFlow"],
  ];
  const other = others.find(([name]) => hasFile(folder, name));
  if (other)
    return `the folder holds weights for ${other[1]} only; model.safetensors or pytorch_model.bin is needed`;
  return "the folder has neither model.safetensors nor pytorch_model.bin, nor an index of their parts";
}
