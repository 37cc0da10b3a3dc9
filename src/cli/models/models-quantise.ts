import type { Command } from "commander";
import type { InstalledModel } from "../../domain/model.ts";
import { FAMILIES } from "../../families/families.ts";
import { toInstalledModel } from "../../http/console/views.ts";
import type { WeightType } from "../../model-import/quantise.ts";
import type { AddModelOptions } from "../../services/models/models.ts";
import { type CliContext, CommandError } from "../frame/context.ts";
import { cleanUpAtEnd } from "../frame/ending.ts";
import { openProgress } from "../frame/progress.ts";
import { openModels } from "./installed-models.ts";
import { describeImport, tryOut } from "./models-add.ts";
import { readWeightType } from "./models-options.ts";
import { findingsOf } from "./trial-report.ts";

type Options = { to: WeightType; id?: string; trial: boolean; json?: true };

/** `shruti models quantise` */
export function registerModelsQuantise(models: Command, context: CliContext): void {
  models
    .command("quantise")
    .description("make another model with smaller weights of an installed one with f16 weights")
    .argument("<id>", "model")
    .requiredOption("--to <type>", "type of the new weights: q8_0, q5_0 or q5_1", readWeightType)
    .option("--id <id>", "ID of the new model (default: the ID with the type)")
    .option("--no-trial", "do not try the model before it is installed")
    .option("--json", "print JSON")
    .action(async (id: string, options: Options) => {
      const ending = cleanUpAtEnd();
      const progress = openProgress(context.io, id);
      try {
        await quantise(context, id, options, progress);
      } finally {
        progress.close();
        ending.stop();
      }
    });
}

type Progress = { update: (done: number) => void; close: () => void };

async function quantise(
  context: CliContext,
  id: string,
  options: Options,
  progress: Progress,
): Promise<void> {
  const tryModel = async (model: InstalledModel) => findingsOf(await tryOut(context, model));
  const service = await openModels(context, options.trial ? tryModel : undefined);
  const model = service.find(id);
  if (!model) throw new CommandError("not_found", `there is no model ${id}`);
  if (!FAMILIES.of(model.family).canQuantise) {
    const able = FAMILIES.list.filter(({ canQuantise }) => canQuantise).map(({ title }) => title);
    throw new CommandError("usage", `${id} is not a ${able.join(" or ")} model; only those can be quantised`);
  }
  const { nameWithType, openModelFile } = await import("./model-sources.ts");
  const source = openModelFile(FAMILIES.mainFile(model), {
    quantise: options.to,
    reserveBytes: context.loadConfig().config.storage.reserve_bytes,
    onProgress: progress.update,
    onImported: (imported) => {
      progress.close();
      context.note(describeImport(imported));
    },
  });
  const made = await service.add(
    source.added,
    manifestOf(model, options, nameWithType(model.id, options.to)),
  );
  if (options.json) context.printJson(toInstalledModel(service, made));
  else context.printLine(made.id);
}

const MAX_SOURCE = 1000;

/** The new model says the same about itself, and of what it was made. */
function manifestOf(model: InstalledModel, { id, to }: Options, derivedId: string): AddModelOptions {
  const { name, languages, licence, source, notice, decoding } = model;
  return {
    id: id ?? derivedId,
    name: `${name} (${to})`,
    languages: languages.map(({ code, modes, decoderLanguage }) => ({
      code,
      modes,
      ...(decoderLanguage === undefined ? {} : { decoderLanguage }),
    })),
    licence,
    source: `${source}; ${to} made of ${model.id} ${model.version}`.slice(0, MAX_SOURCE),
    ...(notice === undefined ? {} : { notice }),
    decoding,
  };
}
