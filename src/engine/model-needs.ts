import type { EngineOptions } from "../domain/engine-options.ts";
import type { ModelNeeds } from "../families/contract.ts";
import { FAMILIES, type Families } from "../families/families.ts";
import { readProcessor } from "../native/processor.ts";
import type { EngineModel } from "./protocol.ts";

/** A model as far as it decides what it needs of a machine. */
export type SizedModel = Partial<Pick<EngineModel, "family" | "files" | "version">> & {
  /** Size of the weights; left out: 0. */
  bytes?: number;
};

export type NeedsOf = (model: SizedModel) => ModelNeeds;

/** The settings of the engine, and the machine. */
type NeedsOptions = {
  engine: EngineOptions;
  /** Instructions of the processor; left out: those of this machine. */
  processorFlags?: ReadonlySet<string>;
};

/** A bound on memory: few models are installed at once, but they may change for years. */
const MAX_MODELS = 100;

/** Creates a function that says what a model needs, as its family knows. It asks the family once for each model. */
export function createModelNeeds(
  { engine, processorFlags = readProcessor()?.flags ?? new Set() }: NeedsOptions,
  families: Families = FAMILIES,
): NeedsOf {
  const known = new Map<string, Omit<ModelNeeds, "bytes">>();

  return ({ family, files, version, bytes = 0 }) => {
    if (family === undefined || files === undefined) return { bytes };
    const key = JSON.stringify([family, version, files]);
    const found = known.get(key) ?? families.of(family).needs(files, { engine, processorFlags });
    if (known.size >= MAX_MODELS) known.clear();
    known.set(key, found);
    return { bytes, ...found };
  };
}
