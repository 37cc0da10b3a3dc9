import { existsSync } from "node:fs";
import type { Command } from "commander";
import { InvalidArgumentError, Option } from "commander";
import { CTC_FEATURES } from "../domain/ctc-settings.ts";
import { engineOf, fileOf, type InstalledModel } from "../domain/model.ts";
import { MODES, type Mode } from "../domain/transcription.ts";
import type { AddModelOptions, ModelService } from "../services/models/models.ts";
import { SPEAKER_WEIGHT_KINDS, type SpeakerWeightKind } from "../services/models/speaker-weights.ts";
import { type CliContext, CommandError } from "./context.ts";
import { renderFields, renderTable } from "./output.ts";

type AddArguments = Omit<AddModelOptions, "languages" | "version"> & {
  modelVersion?: string;
  language?: NonNullable<AddModelOptions["languages"]>;
  kind?: SpeakerWeightKind;
  default?: true;
  json?: true;
};

/** `shruti models …` */
export function registerModels(program: Command, context: CliContext): void {
  const models = program.command("models").description("speech models: Whisper weights in ggml format");

  models
    .command("list")
    .description("installed models, the default first")
    .option("--json", "print JSON")
    .action(async (options: { json?: true }) => {
      const service = await openModels(context);
      const all = service.list();
      for (const problem of service.problems()) context.note(`left out: ${problem}`);
      if (options.json) {
        context.printJson(all.map((model) => toJson(service, model)));
        return;
      }
      const chosen = service.findDefault();
      const rows = all.map((model) => [
        model === chosen ? "*" : "",
        model.id,
        model.version,
        megabytes(model.bytes),
        model.languages.map(({ code }) => code).join(" "),
        model.notice ?? "",
      ]);
      context.io.out(renderTable(["", "ID", "VERSION", "MB", "LANGUAGES", "NOTICE"], rows));
      const installed = service.speakerWeightKinds();
      const kinds = installed.length === 0 ? "" : `; installed weights: ${installed.join(", ")}`;
      context.note(`the ${service.diarizationMethod()} method distinguishes speakers${kinds}`);
    });

  models
    .command("show")
    .description("one model")
    .argument("<id>", "model")
    .option("--json", "print JSON")
    .action(async (id: string, options: { json?: true }) => {
      const service = await openModels(context);
      const model = service.find(id);
      if (!model) throw new CommandError("not_found", `There is no model ${id}.`);
      if (options.json) context.printJson(toJson(service, model));
      else context.io.out(renderFields(fieldsOf(model)));
    });

  registerAdd(models, context);
  registerVerify(models, context);
  registerRemove(models, context);
  registerDefault(models, context);
  registerRoute(models, context);
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
    .description("read the weights of one model, or of all, and compare their SHA-256")
    .argument("[id]", "model")
    .option("--json", "print JSON")
    .action(async (id: string | undefined, options: { json?: true }) => {
      const service = await openModels(context);
      const ids = id === undefined ? service.list().map((model) => model.id) : [id];
      const outcomes = [];
      for (const each of ids) outcomes.push(await service.verify(each));
      if (options.json) context.printJson(outcomes);
      for (const { id: checked, problems } of outcomes) {
        if (!options.json) context.printLine(`${checked}: ${problems.join("; ") || "unchanged"}`);
      }
      if (outcomes.some(({ problems }) => problems.length > 0)) {
        throw new CommandError("failed", "A model has changed since it was added.");
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
    .action(async (id: string | undefined, { kind }: { kind?: SpeakerWeightKind }) => {
      if ((id === undefined) === (kind === undefined)) {
        throw new CommandError("usage", "Name a model, or a kind with --kind.");
      }
      const service = await openModels(context);
      if (kind !== undefined) await service.removeSpeakerWeights(kind);
      else if (id !== undefined) await service.remove(id);
      context.note(kind === undefined ? `Model ${id} was removed.` : `The ${kind} weights were removed.`);
      if (kind === undefined) context.note(describeDefault(service));
    });
}

function registerDefault(models: Command, context: CliContext): void {
  models
    .command("default")
    .description("choose the model for requests that name none; without an ID, print it")
    .argument("[id]", "model")
    .action(async (id: string | undefined) => {
      const service = await openModels(context);
      if (id !== undefined) service.setDefault(id);
      const { id: chosen } = service.resolve();
      context.printLine(chosen);
      if (id !== undefined && chosen !== id) {
        context.note("`models.default` in the config file overrides this.");
      }
    });
}

function registerAdd(models: Command, context: CliContext): void {
  models
    .command("add")
    .description(
      "copy Whisper weights or a CTC model into the models directory; a running server notices it at once",
    )
    .argument(
      "<file>",
      "weights in ggml format, such as scripts/fetch-model.ts downloads; or a folder with model.onnx and tokens.txt",
    )
    .option(
      "--kind <kind>",
      `instead of a speech model: ONNX weights for telling speakers apart, ${KINDS}; both are needed to take the built-in method's place`,
      readKind,
    )
    .option("--id <id>", "ID (default: from the file's name)")
    .option("--name <name>", "name, for people")
    // The option --version belongs to the program.
    .option("--model-version <version>", "version (default: from the SHA-256)")
    .option(
      "--language <code[=token][@tokens][:modes]>",
      "a language it knows; token: whisper's code it was trained with; tokens of a CTC model: as 256-511; modes: as native+verbatim. Can be repeated (default: all that whisper knows, in all modes; of a CTC model those that it names, native)",
      collectLanguage,
    )
    .option("--licence <text>", "licence of the weights")
    .option("--source <text>", "where they come from")
    .option("--notice <text>", "what users should know before they use it")
    .option("--sha256 <hex>", "refuse the file when it has another SHA-256")
    .addOption(
      new Option("--features <kind>", "of a CTC model: how its features are computed").choices(CTC_FEATURES),
    )
    .option("--default", "make it the default")
    .option("--json", "print JSON")
    .action(async (file: string, options: AddArguments) => {
      const { language, modelVersion, kind, default: isDefault, json, ...rest } = options;
      if (!existsSync(file)) throw new CommandError("not_found", `There is no file ${file}.`);
      const service = await openModels(context);
      if (kind !== undefined) {
        if (Object.keys(options).some((name) => name !== "kind")) {
          throw new CommandError("usage", "With --kind there are no other options.");
        }
        await service.addSpeakerWeights(kind, file);
        context.note(`the ${service.diarizationMethod()} method distinguishes speakers now`);
        context.printLine(kind);
        return;
      }
      const model = await service.add(file, {
        ...rest,
        ...(language === undefined ? {} : { languages: language }),
        ...(modelVersion === undefined ? {} : { version: modelVersion }),
      });
      if (isDefault) service.setDefault(model.id);
      if (json) context.printJson(toJson(service, model));
      else context.printLine(model.id);
    });
}

async function openModels(context: CliContext): Promise<ModelService> {
  const [{ createModelService }, { checkModelFile }, { checkCtcFiles }, services] = await Promise.all([
    import("../services/models/models.ts"),
    import("../engine/whisper/whisper-model-file.ts"),
    import("../engine/ctc/ctc-files.ts"),
    context.openServices(),
  ]);
  const { database, config, dataDir, log, clock } = services;
  return createModelService({
    database,
    config,
    dataDir,
    log,
    clock,
    checkModelFile,
    checkCtcFiles,
    tryOutModel: async (model) => {
      const { tryOutModel } = await import("./model-trial.ts");
      await tryOutModel(config, dataDir, log, model);
    },
    tryOutSpeakerWeights: async (weights) => {
      const { tryOutSpeakerWeights } = await import("./speaker-weights.ts");
      await tryOutSpeakerWeights(config, dataDir, log, weights);
    },
  });
}

const KINDS = SPEAKER_WEIGHT_KINDS.join(" or ");

function readKind(text: string): SpeakerWeightKind {
  const kind = SPEAKER_WEIGHT_KINDS.find((known) => known === text);
  if (!kind) throw new InvalidArgumentError(`It is ${KINDS}.`);
  return kind;
}

type GivenLanguage = NonNullable<AddModelOptions["languages"]>[number];

/** Parses a language such as `hi`, `hi:native+codemix`, `or=hi`, `or=hi:native` or `hi@1536-1791`. */
function collectLanguage(text: string, collected: GivenLanguage[] = []): GivenLanguage[] {
  const pattern = /^([a-z]{2,3})(?:=([a-z]{2,3}))?(?:@(\d{1,7})-(\d{1,7}))?(?::([a-z+]+))?$/;
  const [, code, decoderLanguage, first, last, modes] = pattern.exec(text) ?? [];
  const names = modes?.split("+") ?? [];
  if (code === undefined || !names.every(isMode) || Number(first) > Number(last)) {
    throw new InvalidArgumentError("It is as hi, hi:native+codemix, or=hi, or=hi:native or hi@1536-1791.");
  }
  const language: GivenLanguage = { code };
  if (decoderLanguage !== undefined) language.decoderLanguage = decoderLanguage;
  if (first !== undefined) language.tokenSpan = { first: Number(first), last: Number(last) };
  if (modes !== undefined) language.modes = names.filter(isMode);
  return [...collected, language];
}

function isMode(name: string): name is Mode {
  return MODES.some((mode) => mode === name);
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
    ["Engine", `${engineOf(model.family)} (${model.family})`],
    ["Licence", model.licence],
    ["Source", model.source],
    ["Notice", model.notice ?? "–"],
    ["Weights", Object.values(model.files).join(", ")],
    ["Size", `${megabytes(model.bytes)} MB`],
    ["SHA-256", model.sha256],
  ];
}

function describeDefault(service: ModelService): string {
  const model = service.findDefault();
  if (!model) return "No installed model is the default: requests that name none are refused.";
  const notice = model.notice === undefined ? "" : ` (${model.notice})`;
  return `Requests that name no model use ${model.id}${notice}.`;
}

function toJson(service: ModelService, model: InstalledModel) {
  const { capabilities, diarization } = service.describe(model);
  return {
    id: model.id,
    object: "model",
    name: model.name,
    version: model.version,
    default: service.findDefault()?.id === model.id,
    default_languages: service.servedLanguages(model),
    languages: model.languages.map(({ code, name, modes }) => ({ code, name, modes })),
    capabilities,
    diarization,
    licence: model.licence,
    source: model.source,
    ...(model.notice === undefined ? {} : { notice: model.notice }),
    embedded: model.embedded,
    engine: engineOf(model.family),
    family: model.family,
    path: fileOf(model.files, model.parts ? "model" : "weights"),
    bytes: model.bytes,
    sha256: model.sha256,
  };
}
