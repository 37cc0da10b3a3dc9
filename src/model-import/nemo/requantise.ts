import { GGML_TYPES, ggufAligned, readGgufFile } from "../../lib/gguf-file.ts";
import { type ConvertOptions, encode, hashSources, type Imported } from "../convert.ts";
import { openSink } from "../ggml-writer.ts";
import { ggufHead, plannedBytes } from "../gguf-head.ts";
import { createHalfReader } from "../halves.ts";
import { ImportError } from "../import-error.ts";
import type { SourceFile } from "../source-file.ts";
import type { StoredTensor } from "../stored-tensor.ts";
import { storedType } from "./convert.ts";

const COPIED_BYTES = 4 * 1024 * 1024;

/**
 * Makes a file with smaller weights of a TDT model's file with f16 weights. The result is the one that an import with these
 * weights makes of the checkpoint.
 *
 * @param file a file that its family has accepted
 * @param path where it is
 * @throws ImportError for a file that has other weights than f16
 */
export function requantiseTdt(file: SourceFile, path: string, options: ConvertOptions): Imported {
  const { values, tensors } = readGgufFile(path);
  if (values.get("tdt.weights") !== "f16")
    throw new ImportError(file.name, "its weights are not f16; only those can be rounded to other types");
  if (options.type === "f16") throw new ImportError(file.name, "its weights are f16 already");
  const planned = [...tensors].map(([name, { type, shape, position, bytes }]) => {
    // Convolutions keep their 16 bits.
    const stored = type === GGML_TYPES.f16.type && shape.length === 2 ? "weights" : undefined;
    const kept = type === GGML_TYPES.f16.type ? "f16" : "f32";
    const target = stored ? storedType({ name, shape, stored }, options.type) : kept;
    return { name, shape, position, bytes, kept, type: target } as const;
  });
  const head = ggufHead(new Map([...values, ["tdt.weights", options.type]]), planned);
  const bytes = planned.reduce((sum, tensor) => sum + ggufAligned(plannedBytes(tensor)), head.length);
  const sink = openSink(options.createOutput(bytes));
  sink.write(head);
  const reader = createHalfReader();
  for (const tensor of planned) {
    const before = sink.bytes();
    if (tensor.type === tensor.kept) copy(file, tensor.position, tensor.bytes, sink.write);
    else {
      const elements = tensor.bytes / GGML_TYPES.f16.bytes;
      const { position, shape, name } = tensor;
      const stored: StoredTensor = { file, type: "F16", shape: [...shape], position, elements };
      for (const halves of reader.slices(stored, name)) sink.write(encode(halves, tensor.type));
    }
    const written = sink.bytes() - before;
    sink.write(new Uint8Array(ggufAligned(written) - written));
    options.onProgress((0.75 * sink.bytes()) / bytes);
  }
  const sources = hashSources([file], (share) => options.onProgress(0.75 + 0.25 * share));
  const size = `${String(values.get("tdt.layers"))} layers of width ${String(values.get("tdt.width"))}`;
  return { sha256: sink.finish(), bytes, size, tensors: planned.length, sources };
}

function copy(file: SourceFile, position: number, bytes: number, write: (part: Uint8Array) => void): void {
  for (let done = 0; done < bytes; done += COPIED_BYTES)
    write(file.read(position + done, Math.min(COPIED_BYTES, bytes - done)));
}
