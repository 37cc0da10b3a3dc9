import { GGML_TYPES, type GgmlType, type GgufValue, ggufAligned } from "../../lib/gguf-file.ts";
import { TDT_ARCHITECTURE, type TdtShape, type TdtTensor } from "../../lib/tdt-file.ts";
import { type ConvertOptions, encode, hashSources, type Imported } from "../convert.ts";
import { openSink } from "../ggml-writer.ts";
import { ggufHead, type PlannedTensor, plannedBytes } from "../gguf-head.ts";
import { createHalfReader, type HalfReader, SLICE_VALUES } from "../halves.ts";
import { ImportError } from "../import-error.ts";
import type { WeightType } from "../quantise.ts";
import type { SourceFile } from "../source-file.ts";
import { readTorchFile } from "../torch-file.ts";
import { openNemoArchive, type Unpacking } from "./archive.ts";
import { readNemoConfig } from "./config.ts";
import { type FoundTensor, findTensors, isNeeded, shapeOf } from "./tensors.ts";
import { type NemoTokens, readNemoTokens } from "./tokens.ts";
import { valuesOf } from "./values.ts";

const CONFIG = "model_config.yaml";
const WEIGHTS = "model_weights.ckpt";

/**
 * Converts a `.nemo` file with a TDT or RNN-T model into the engine's own file (`lib/tdt-file.ts`). Nothing of it is executed:
 * its weights are read as those of other checkpoints of torch.
 *
 * @throws ImportError when anything about the file is not as it must be; the file system's error
 */
export async function convertNemo(
  file: SourceFile,
  unpacking: Unpacking,
  options: ConvertOptions,
): Promise<Imported> {
  const archive = await openNemoArchive(file, unpacking);
  try {
    const config = readNemoConfig(archive.files.get(CONFIG));
    const weights = archive.files.get(WEIGHTS);
    if (!weights) throw new ImportError(file.name, `it has no ${WEIGHTS}`);
    const found = { file: weights, tensors: await readTorchFile(weights, isNeeded) };
    const shape = shapeOf(found, config);
    checkShape(shape);
    const texts = readNemoTokens(config, archive.files, shape.tokens);
    const list = findTensors(found, shape, config);
    return write(list, headValues(shape, texts, options.type), shape, file, options);
  } finally {
    archive.close();
  }
}

/** Sizes that the engine's graphs have memory for. */
const MOST_LAYERS = 64;

function checkShape({ layers, predictionLayers, durations }: TdtShape): void {
  if (layers < 1 || layers > MOST_LAYERS)
    throw new ImportError(WEIGHTS, `the encoder has ${layers} layers; 1 to ${MOST_LAYERS} are possible`);
  if (predictionLayers < 1 || predictionLayers > 8)
    throw new ImportError(WEIGHTS, `the prediction net has ${predictionLayers} layers; 1 to 8 are possible`);
  if (durations.length > 64) throw new ImportError(CONFIG, `the model has ${durations.length} durations`);
}

/** Returns what the head of a model's file says. */
export function headValues(
  shape: TdtShape,
  { tokens, languages }: NemoTokens,
  type: WeightType,
): Map<string, GgufValue> {
  return new Map<string, GgufValue>([
    ["general.architecture", TDT_ARCHITECTURE],
    ["tdt.weights", type],
    ["tdt.mels", shape.mels],
    ["tdt.subsampling", shape.subsampling],
    ["tdt.factor", shape.factor],
    ["tdt.channels", shape.channels],
    ["tdt.width", shape.width],
    ["tdt.inner", shape.inner],
    ["tdt.heads", shape.heads],
    ["tdt.layers", shape.layers],
    ["tdt.kernel", shape.kernel],
    ["tdt.has_biases", shape.hasBiases],
    ["tdt.scales_input", shape.scalesInput],
    ["tdt.reflects_ends", shape.reflectsEnds],
    ["tdt.token_count", shape.tokens],
    ["tdt.prediction_width", shape.predictionWidth],
    ["tdt.prediction_layers", shape.predictionLayers],
    ["tdt.joint_width", shape.jointWidth],
    ["tdt.most_symbols", shape.mostSymbols],
    ...(shape.durations.length > 0 ? ([["tdt.durations", shape.durations]] as const) : []),
    ...(languages.length > 0 ? ([["tdt.languages", languages]] as const) : []),
    ["tdt.tokens", tokens],
  ]);
}

/** The type that a tensor has in a file of a type. */
export function storedType({ stored, shape }: TdtTensor, type: WeightType): GgmlType {
  if (stored !== "weights") return stored;
  return (shape[0] ?? 0) % GGML_TYPES[type].values === 0 ? type : "f16";
}

function write(
  list: readonly FoundTensor[],
  values: ReadonlyMap<string, GgufValue>,
  shape: TdtShape,
  source: SourceFile,
  options: ConvertOptions,
): Imported {
  const planned = list.map((tensor) => ({ ...tensor, type: storedType(tensor, options.type) }));
  const head = ggufHead(values, planned);
  const sizes = planned.map((tensor) => ggufAligned(plannedBytes(tensor)));
  const bytes = sizes.reduce((sum, size) => sum + size, head.length);
  const sink = openSink(options.createOutput(bytes));
  sink.write(head);
  const reader = createHalfReader();
  let done = 0;
  for (const tensor of planned) {
    const before = sink.bytes();
    for (const piece of piecesOf(tensor, reader)) sink.write(piece);
    const written = sink.bytes() - before;
    sink.write(new Uint8Array(ggufAligned(written) - written));
    done += written;
    options.onProgress((0.75 * done) / bytes);
  }
  const sources = hashSources([source], (share) => options.onProgress(0.75 + 0.25 * share));
  const size = `${shape.layers} layers of width ${shape.width}`;
  return { sha256: sink.finish(), bytes, size, tensors: planned.length, sources };
}

/** Yields the bytes of a tensor. Each piece is valid until the next one comes. */
function* piecesOf(
  { name, type, source }: PlannedTensor & FoundTensor,
  reader: HalfReader,
): Generator<Uint8Array> {
  if (typeof source === "function") {
    const values = source();
    if (type === "f32") yield new Uint8Array(values.buffer);
    else
      for (let at = 0; at < values.length; at += SLICE_VALUES)
        yield encode(new Float16Array(values.subarray(at, at + SLICE_VALUES)), type);
    return;
  }
  if (type === "f32") yield new Uint8Array(valuesOf(source, name).buffer);
  else for (const halves of reader.slices(source, source.label ?? name)) yield encode(halves, type);
}
