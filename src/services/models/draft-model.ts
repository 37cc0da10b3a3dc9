import type { Config } from "../../config/schema.ts";
import type { DraftModel, InstalledModel } from "../../domain/model.ts";
import type { Families } from "../../families/families.ts";

/** The model that drafts for others (`engine.draft_model`). */

/** What the config's draft model does. */
export type DraftUse = {
  id: string;
  /** The models for which it drafts. */
  drafted: string[];
  /** The others, and why it does not draft for them. */
  without: { id: string; reason: string }[];
  /** What keeps it from being of use, one sentence each. */
  problems: string[];
};

type DraftDeps = { config: Config; families: Families };

/**
 * Creates a function that names the draft model in each model for which it can draft. The same list with the same draft model gives
 * the same objects again.
 */
export function createDraftAttachment({ config, families }: DraftDeps) {
  const known = new WeakMap<
    readonly InstalledModel[],
    { draft: InstalledModel; attached: InstalledModel[] }
  >();
  return (models: InstalledModel[], all: readonly InstalledModel[]): InstalledModel[] => {
    const draft = all.find(({ id }) => id === config.engine.draft_model);
    if (!draft) return models;
    const before = known.get(models);
    if (before?.draft === draft) return before.attached;
    const attached = models.map((model) =>
      faultOf(families, model, draft) === undefined ? { ...model, draft: draftOf(draft) } : model,
    );
    known.set(models, { draft, attached });
    return attached;
  };
}

function draftOf({ id, sha256, parts, files, bytes, languages }: InstalledModel): DraftModel {
  const languageCodes = languages.flatMap(({ code, decoderLanguage = code }) => [code, decoderLanguage]);
  return { id, sha256, ...(parts === undefined ? {} : { parts }), files, bytes, languageCodes };
}

/** Says why a model does not draft for another one; undefined: it does. */
function faultOf(families: Families, model: InstalledModel, draft: InstalledModel): string | undefined {
  if (model.id === draft.id) return "no model drafts for itself";
  if (model.family !== draft.family) return `it is of the family ${model.family}, and not ${draft.family}`;
  const { drafting, title } = families.of(model.family);
  if (!drafting) return `models of the family ${title} have no drafts`;
  return draft.bytes < model.bytes ? drafting.fault(model.files, draft.files) : "its file is not smaller";
}

/**
 * Says what the config's draft model does; undefined: it names none.
 *
 * @param all models that may draft
 * @param listed those that are recognized with
 * @param routes returns ids of models by the languages that they serve
 */
export function draftUse(
  { config, families }: DraftDeps,
  all: readonly InstalledModel[],
  listed: readonly InstalledModel[],
  routes: () => Readonly<Record<string, string>>,
): DraftUse | undefined {
  const { draft_model: id } = config.engine;
  if (id === "") return undefined;
  const draft = all.find((model) => model.id === id);
  if (!draft) {
    const names = all.map((model) => model.id).join(", ");
    return {
      id,
      drafted: [],
      without: [],
      problems: [`there is no model ${id} to draft; there are ${names}`],
    };
  }
  const others = listed.filter((model) => model.id !== id);
  const faults = others.map((model) => ({ model, reason: faultOf(families, model, draft) }));
  const drafted = faults.filter(({ reason }) => reason === undefined).map(({ model }) => model);
  const without = faults.flatMap(({ model, reason }) =>
    reason === undefined ? [] : [{ id: model.id, reason }],
  );
  const problems =
    drafted.length === 0
      ? [uselessDraft(id, without)]
      : [...hindrances({ config, families }, id, drafted), ...unknownLanguages(draft, drafted, routes())];
  return { id, drafted: drafted.map((model) => model.id), without, problems };
}

/** Says for which models it drafts, and for which not. */
export function describeDraftUse({ id, drafted, without }: DraftUse): string {
  const others = without.map((other) => `${other.id} (${other.reason})`).join(", ");
  const not = others === "" ? "" : `; not for ${others}`;
  return drafted.length === 0 ? `${id} drafts for no model` : `${id} drafts for ${drafted.join(", ")}${not}`;
}

function uselessDraft(id: string, without: DraftUse["without"]): string {
  if (without.length === 0)
    return `the model ${id} drafts for none: it is the only model, and none drafts for itself`;
  const reasons = without.map((other) => `${other.id}: ${other.reason}`).join("; ");
  return `the model ${id} drafts for none of the others: ${reasons}`;
}

/** Settings with which drafts are not used. What the processor lacks is seen when a model is loaded. */
function hindrances(
  { config, families }: DraftDeps,
  id: string,
  drafted: readonly InstalledModel[],
): string[] {
  const machine = { engine: config.engine, processorFlags: new Set(["avx2"]) };
  const reasons = drafted.map((model) => families.of(model.family).drafting?.hindrance(model.files, machine));
  return [...new Set(reasons)]
    .filter((reason) => reason !== undefined)
    .map((reason) => `the model ${id} does not draft: ${reason}`);
}

/** Languages for which an admin has chosen a model, and which the draft model does not know. */
function unknownLanguages(
  draft: InstalledModel,
  drafted: readonly InstalledModel[],
  routes: Readonly<Record<string, string>>,
): string[] {
  const { languageCodes } = draftOf(draft);
  return Object.entries(routes)
    .filter(([code, id]) => drafted.some((model) => model.id === id) && !languageCodes.includes(code))
    .map(
      ([code, id]) => `the model ${draft.id} does not know ${code}, so ${id} recognizes it without a draft`,
    );
}
