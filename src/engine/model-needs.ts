import type { EngineOptions } from "../domain/engine-options.ts";
import type { ModelFiles } from "../domain/model.ts";
import type { ModelNeeds } from "../families/contract.ts";
import { FAMILIES, type Families } from "../families/families.ts";
import { readProcessor } from "../native/processor.ts";
import type { EngineModel } from "./protocol.ts";

/** A model as far as it decides what it needs of a machine. */
export type SizedModel = Partial<Pick<EngineModel, "family" | "files" | "version" | "draft">> & {
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

  function needsOf(family: string, version: string | undefined, files: ModelFiles) {
    const key = JSON.stringify([family, version, files]);
    const found = known.get(key) ?? families.of(family).needs(files, { engine, processorFlags });
    if (known.size >= MAX_MODELS) known.clear();
    known.set(key, found);
    return found;
  }

  return ({ family, files, version, bytes = 0, draft }) => {
    if (family === undefined || files === undefined) return { bytes };
    const own = needsOf(family, version, files);
    // Drafts are made beside steps that chunks can share on the processor, and nowhere else.
    if (!draft || own.sharing?.onProcessor !== true) return { bytes, ...own };
    return withDraft(
      { bytes, ...own },
      { bytes: draft.bytes, ...needsOf(family, draft.sha256, draft.files) },
    );
  };
}

/** Adds what a draft model needs: its weights, and for each chunk a state of its own. */
function withDraft(model: ModelNeeds, draft: ModelNeeds): ModelNeeds {
  return {
    ...model,
    bytes: model.bytes + draft.bytes,
    stateBytes: model.stateBytes && model.stateBytes + (draft.stateBytes ?? 0),
    encoderBytes: (model.encoderBytes ?? 0) + (draft.encoderBytes ?? 0),
  };
}
