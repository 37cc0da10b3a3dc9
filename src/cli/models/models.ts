import { type Command, InvalidArgumentError } from "commander";
import type { InstalledModel } from "../../domain/model.ts";
import { describeVerdicts, noticeOf } from "../../domain/trial.ts";
import { FAMILIES } from "../../families/families.ts";
import { toInstalledModel } from "../../http/console/views.ts";
import { describeDraftUse } from "../../services/models/draft-model.ts";
import type { MeasuredFigures, ModelService } from "../../services/models/models.ts";
import { PUNCTUATION_KIND } from "../../services/models/punctuation-model.ts";
import { type CliContext, CommandError } from "../frame/context.ts";
import { renderFields, renderTable } from "../frame/output.ts";
import { openModels } from "./installed-models.ts";
import { registerModelsAdd } from "./models-add.ts";
import { registerModelsAdvise } from "./models-advise.ts";
import { registerModelsFetch } from "./models-fetch.ts";
import { KINDS, type ModelKind, readKind } from "./models-options.ts";
import { registerModelsQuantise } from "./models-quantise.ts";

/** `shruti models …` */
export function registerModels(program: Command, context: CliContext): void {
  const models = program
    .command("models")
    .description("speech models: those that are installed, and adding, checking and choosing them");

  models
    .command("list")
    .description("installed models, the default first")
    .option("--json", "print JSON")
    .action(async (options: { json?: true }) => {
      const service = await openModels(context);
      const all = service.list();
      for (const problem of service.problems()) context.note(`left out: ${problem}`);
      if (options.json) {
        context.printJson(all.map((model) => toInstalledModel(service, model)));
        return;
      }
      const chosen = service.findDefault();
      const rows = all.map((model) => [
        model === chosen ? "*" : "",
        model.id,
        model.version,
        megabytes(model.bytes),
        model.languages.map(({ code }) => code).join(" "),
        noticeOf(model) ?? "",
      ]);
      context.printTable(["", "ID", "VERSION", "MB", "LANGUAGES", "NOTICE"], rows);
      context.note(describeDiarization(service));
      const punctuation = describePunctuation(service);
      if (punctuation !== undefined) context.note(punctuation);
      const use = service.draftUse();
      if (use) for (const line of [describeDraftUse(use), ...use.problems]) context.note(line);
    });

  models
    .command("show")
    .description("one model")
    .argument("<id>", "model")
    .option("--json", "print JSON")
    .action(async (id: string, options: { json?: true }) => {
      const service = await openModels(context);
      const model = service.find(id);
      if (!model) throw new CommandError("not_found", `there is no model ${id}`);
      if (options.json) {
        context.printJson({
          ...toInstalledModel(service, model),
          measured: service.measured(model).map(measuredJson),
        });
      } else {
        context.io.out(renderFields(fieldsOf(model)));
        const measured = service.measured(model);
        if (measured.length > 0) context.io.out(`\n${measuredTable(measured)}`);
      }
    });

  registerModelsAdd(models, context);
  registerModelsQuantise(models, context);
  registerModelsAdvise(models, context);
  registerModelsFetch(models, context);
  registerVerify(models, context);
  registerRemove(models, context);
  registerDefault(models, context);
  registerRoute(models, context);
}

/** Says how speakers are distinguished now. */
function describeDiarization(service: ModelService): string {
  const installed = service.speakerWeightKinds();
  if (service.diarizationMethod() === "neural") {
    const whose =
      installed.length === 0 ? "the nets of the executable" : `installed weights (${installed.join(", ")})`;
    return `speakers are distinguished by the neural method with ${whose}`;
  }
  const unused =
    installed.length === 0 ? "" : `; installed weights that are not used: ${installed.join(", ")}`;
  return `speakers are distinguished by the acoustic method${unused}`;
}

/** Says which model adds punctuation; undefined: none is installed. */
function describePunctuation(service: ModelService): string | undefined {
  const card = service.punctuationCard();
  if (!card) return undefined;
  const what = `a model of punctuation for ${card.languages.join(" ")} (${megabytes(card.bytes)} MB, ${card.licence ?? "licence not given"})`;
  return service.punctuation()
    ? `texts without punctuation get it from ${what}`
    : `${what} is not used: engine.punctuation`;
}

function registerRoute(models: Command, context: CliContext): void {
  models
    .command("route")
    .description(
      "choose the models for languages of requests that name none, as hi=indic ta=large-v3; ta= removes a choice; without arguments, print them",
    )
    .argument("[language=id...]", "language and model", collectRoute)
    .option("--json", "print JSON")
    .action(async (changes: Record<string, string | undefined> | undefined, options: { json?: true }) => {
      const service = await openModels(context);
      if (changes) service.route(changes);
      const routes = service.routes();
      if (options.json) context.printJson(routes);
      else for (const [code, id] of Object.entries(routes).sort()) context.printLine(`${code}=${id}`);
      if (!options.json && Object.keys(routes).length === 0)
        context.note("No language has a model of its own: requests that name none get the default.");
      for (const problem of service.routeProblems()) context.note(problem);
      const overridden = Object.entries(changes ?? {}).filter(([code, id]) => routes[code] !== id);
      if (overridden.length > 0) context.note("`models.languages` in the config file overrides this.");
    });
}

/** Parses a choice such as `hi=indic`, or `hi=` to remove it. */
function collectRoute(text: string, collected: Record<string, string | undefined> = {}) {
  const [, code, id] = /^([a-z]{2,3})=(.*)$/.exec(text) ?? [];
  if (code === undefined) throw new InvalidArgumentError("It is as hi=MODEL, or hi= to remove a choice.");
  return { ...collected, [code]: id === "" ? undefined : id };
}

function registerVerify(models: Command, context: CliContext): void {
  models
    .command("verify")
    .description(
      "read the weights of one model, or of all, of those that distinguish speakers and of punctuation, and compare their SHA-256",
    )
    .argument("[id]", "model")
    .option("--json", "print JSON")
    .action(async (id: string | undefined, options: { json?: true }) => {
      const service = await openModels(context);
      const ids = id === undefined ? service.list().map((model) => model.id) : [id];
      const outcomes = [];
      for (const each of ids) outcomes.push(await service.verify(each));
      if (id === undefined)
        outcomes.push(...(await service.verifySpeakerWeights()), ...(await service.verifyPunctuation()));
      if (options.json) context.printJson(outcomes);
      for (const { id: checked, problems } of outcomes) {
        if (!options.json) context.printLine(`${checked}: ${problems.join("; ") || "unchanged"}`);
      }
      if (outcomes.some(({ problems }) => problems.length > 0)) {
        throw new CommandError("failed", "a model has changed since it was added");
      }
    });
}

function registerRemove(models: Command, context: CliContext): void {
  models
    .command("remove")
    .description(
      "delete a model's files; refused while unfinished transcriptions use it, or as the default of several",
    )
    .argument("[id]", "model")
    .option("--kind <kind>", `instead of a model: weights of the kind ${KINDS}`, readKind)
    .option("--json", "print JSON")
    .action(async (id: string | undefined, { kind, json }: { kind?: ModelKind; json?: true }) => {
      if ((id === undefined) === (kind === undefined)) {
        throw new CommandError("usage", "name a model, or a kind with --kind");
      }
      const service = await openModels(context);
      if (kind === PUNCTUATION_KIND) await service.removePunctuation();
      else if (kind !== undefined) await service.removeSpeakerWeights(kind);
      else if (id !== undefined) await service.remove(id);
      if (json) return context.printJson({ removed: id ?? kind, default: service.resolve().id });
      context.note(removedText(id, kind));
      if (kind === undefined) context.note(describeDefault(service));
    });
}

function removedText(id: string | undefined, kind: ModelKind | undefined): string {
  if (kind === PUNCTUATION_KIND) return "The model of punctuation was removed.";
  return kind === undefined ? `Model ${id} was removed.` : `The ${kind} weights were removed.`;
}

function registerDefault(models: Command, context: CliContext): void {
  models
    .command("default")
    .description("choose the model for requests that name none; without an ID, print it")
    .argument("[id]", "model")
    .option("--json", "print JSON")
    .action(async (id: string | undefined, { json }: { json?: true }) => {
      const service = await openModels(context);
      if (id !== undefined) service.setDefault(id);
      const { id: chosen } = service.resolve();
      if (json) context.printJson({ default: chosen });
      else context.printLine(chosen);
      if (id !== undefined && chosen !== id) {
        context.note("`models.default` in the config file overrides this.");
      }
    });
}

function megabytes(bytes: number): number {
  return Math.round(bytes / 1e5) / 10;
}

function fieldsOf(model: InstalledModel): [string, string][] {
  return [
    ["ID", model.id],
    ["Name", model.name],
    ["Version", model.version],
    ["Languages", model.languages.map(({ code, modes }) => `${code} (${modes.join(", ")})`).join("; ")],
    ["Engine", `${FAMILIES.of(model.family).engine} (${model.family})`],
    ["Licence", model.licence],
    ["Source", model.source],
    ["Notice", model.notice ?? "–"],
    ["Trial", describeVerdicts(model) ?? "not tried"],
    ...(model.draft === undefined ? [] : [["Draft model", model.draft.id] as [string, string]]),
    ["Weights", Object.values(model.files).join(", ")],
    ["Size", `${megabytes(model.bytes)} MB`],
    ["SHA-256", model.sha256],
  ];
}

/** The card of a model: what was measured on the customer's own recordings. */
function measuredTable(figures: readonly MeasuredFigures[]): string {
  const percent = (share: number | undefined) => (share === undefined ? "–" : (100 * share).toFixed(1));
  const rows = figures.map((one) => [
    one.date,
    one.data,
    one.language,
    one.mode,
    one.recordings,
    one.words,
    percent(one.wordErrorRate),
    percent(one.characterErrorRate),
    one.timesRealTime.toFixed(1),
    one.memoryBytes === 0 ? "–" : Math.round(one.memoryBytes / 1e6),
    one.device,
  ]);
  const heads = ["MEASURED", "DATA", "LANGUAGE", "MODE", "FILES", "WORDS", "WER %", "CER %"];
  return renderTable([...heads, "× REAL TIME", "MEMORY MB", "DEVICE"], rows);
}

function measuredJson({ wordErrorRate, characterErrorRate, ...rest }: MeasuredFigures) {
  return {
    date: rest.date,
    data: rest.data,
    language: rest.language,
    mode: rest.mode,
    recordings: rest.recordings,
    audio_seconds: rest.audioSeconds,
    words: rest.words,
    word_error_rate: wordErrorRate ?? null,
    character_error_rate: characterErrorRate ?? null,
    times_real_time: Number(rest.timesRealTime.toFixed(2)),
    memory_bytes: rest.memoryBytes,
    device: rest.device,
  };
}

function describeDefault(service: ModelService): string {
  const model = service.findDefault();
  if (!model) return "No installed model is the default: requests that name none are refused.";
  const notice = noticeOf(model);
  return `Requests that name no model use ${model.id}${notice === undefined ? "" : ` (${notice})`}.`;
}
