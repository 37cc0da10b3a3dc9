import type { Command } from "commander";
import { AppError } from "../../domain/errors.ts";
import type { FamilyTuning, InstalledModel } from "../../domain/model.ts";
import type { Mode } from "../../domain/transcription.ts";
import { toInstalledModel } from "../../http/console/views.ts";
import { errorMessage } from "../../lib/error-message.ts";
import { asOwnerOf } from "../../lib/rights.ts";
import type { StagedImport } from "../../model-import/import-process.ts";
import type { WeightType } from "../../model-import/quantise.ts";
import type { AddModelOptions } from "../../services/models/models.ts";
import { PUNCTUATION_KIND } from "../../services/models/punctuation-model.ts";
import type { SpeakerWeightKind } from "../../services/models/speaker-weights.ts";
import { type CliContext, CommandError } from "../frame/context.ts";
import { cleanUpAtEnd } from "../frame/ending.ts";
import { openProgress } from "../frame/progress.ts";
import { addFamilyOptions, familyTuningOf } from "./family-options.ts";
import { openModels } from "./installed-models.ts";
import type { FoundSource } from "./model-sources.ts";
import type { TrialReport } from "./model-trial.ts";
import { collectNgram, type GivenNgram, type PreparedNgrams, prepareNgrams } from "./models-ngram.ts";
import {
  collectLanguage,
  type GivenLanguage,
  KINDS,
  type ModelKind,
  readKind,
  readLanguages,
  readModes,
  readWeightType,
} from "./models-options.ts";
import { findingsOf, trialJson } from "./trial-report.ts";

export type AddArguments = Pick<
  AddModelOptions,
  "id" | "name" | "licence" | "source" | "notice" | "sha256"
> & {
  modelVersion?: string;
  language?: GivenLanguage[];
  languages?: GivenLanguage[];
  modes?: Mode[];
  quantise?: WeightType;
  ngram?: GivenNgram[];
  trial: boolean;
  dryRun?: true;
  kind?: ModelKind;
  default?: true;
  json?: true;
};

/** `shruti models add` */
export function registerModelsAdd(models: Command, context: CliContext): void {
  const add = models
    .command("add")
    .description(
      "bring a model into the models directory: Whisper weights of a ggml file, a folder of Hugging Face (safetensors or pytorch_model.bin) or CTranslate2 (faster-whisper) or a ZIP with one, a checkpoint of OpenAI (.pt), a TDT or RNN-T model of NeMo (.nemo), or the folder of a CTC model, such as IndicConformer as AI4Bharat publishes it; a running server notices it at once",
    )
    .argument(
      "<path>",
      "ggml file, .pt file, .nemo file, folder of Hugging Face or CTranslate2, ZIP with one, folder with model.onnx and tokens.txt, or folder with encoder.onnx and ctc_decoder.onnx",
    )
    .option(
      "--kind <kind>",
      `instead of a speech model: ${KINDS}: an ONNX file for telling speakers apart, which takes the place of the executable's net of that kind, or the folder of a model that adds punctuation to texts without any`,
      readKind,
    )
    .option("--id <id>", "ID (default: from the file's or folder's name)")
    .option("--name <name>", "name, for people")
    // The option --version belongs to the program.
    .option("--model-version <version>", "version (default: from the SHA-256)")
    .option(
      "--language <code[=token][@tokens][:modes]>",
      "a language it knows; token: whisper's code it was trained with; tokens of a CTC model: as 256-511; modes: as native+verbatim. Can be repeated (default: all that whisper knows, in all modes; of a CTC model those that it names, native)",
      collectLanguage,
    )
    .option(
      "--languages <codes>",
      "the same for several, separated by commas, such as hi,mr,or=hi",
      readLanguages,
    )
    .option("--modes <modes>", "modes of languages that name none, separated by commas", readModes)
    .option("--licence <text>", "licence of the weights")
    .option("--source <text>", "where they come from")
    .option("--notice <text>", "what users should know before they use it")
    .option("--sha256 <hex>", "refuse the ggml file or model.onnx when it has another SHA-256")
    .option(
      "--quantise <type>",
      "smaller weights: f16, q8_0, q5_0 or q5_1 (default: as they are; f16 of a checkpoint)",
      readWeightType,
    );
  addFamilyOptions(add)
    .option(
      "--ngram <[code=]file>",
      "of a CTC model: an n-gram model of words, ARPA or a binary file of KenLM (build_binary probing), with which texts are searched; can be repeated for further languages",
      collectNgram,
    )
    .option("--no-trial", "do not try the model before it is installed")
    .option("--dry-run", "read, check and try everything, and install nothing")
    .option("--default", "make it the default")
    .option("--json", "print JSON")
    .action(async (path: string, options: AddArguments, command: Command) => {
      if (options.kind === undefined) return addModel(context, path, options, familyTuningOf(command));
      const given = Object.keys(options).filter((name) => command.getOptionValueSource(name) === "cli");
      const other = given.find((name) => !WITH_KIND.has(name));
      if (other !== undefined) {
        throw new CommandError(
          "usage",
          "with --kind there are only --licence, --source, --sha256 and --json",
        );
      }
      if (options.kind === PUNCTUATION_KIND) return addPunctuation(context, path, options);
      return addSpeakerWeights(context, path, options.kind, options);
    });
}

/** Options that say something of speaker weights. */
const WITH_KIND: ReadonlySet<string> = new Set(["kind", "licence", "source", "sha256", "json"]);

async function addPunctuation(
  context: CliContext,
  folder: string,
  { licence, source, sha256, json }: AddArguments,
): Promise<void> {
  const { statSync } = await import("node:fs");
  if (!asOwnerOf(folder, () => statSync(folder, { throwIfNoEntry: false })?.isDirectory()))
    throw new CommandError("not_found", `there is no folder ${folder}`);
  const service = await openModels(context);
  const card = await service.addPunctuation(folder, {
    ...(licence === undefined ? {} : { licence }),
    ...(source === undefined ? {} : { source }),
    ...(sha256 === undefined ? {} : { sha256 }),
  });
  if (!service.punctuation()) context.note("it is not used: engine.punctuation is off in the config");
  if (card.licenceFiles.length === 0)
    context.note("the folder has no text of a licence; none is kept with the model");
  if (json) context.printJson({ kind: PUNCTUATION_KIND, ...card });
  else context.printLine(PUNCTUATION_KIND);
}

async function addSpeakerWeights(
  context: CliContext,
  file: string,
  kind: SpeakerWeightKind,
  { licence, source, sha256, json }: AddArguments,
): Promise<void> {
  const { existsSync } = await import("node:fs");
  if (!asOwnerOf(file, () => existsSync(file)))
    throw new CommandError("not_found", `there is no file ${file}`);
  const service = await openModels(context);
  const card = await service.addSpeakerWeights(kind, file, {
    ...(licence === undefined ? {} : { licence }),
    ...(source === undefined ? {} : { source }),
    ...(sha256 === undefined ? {} : { sha256 }),
  });
  context.note(`the ${service.diarizationMethod()} method distinguishes speakers now`);
  if (json) context.printJson({ kind, ...card, diarization: { method: service.diarizationMethod() } });
  else context.printLine(kind);
}

/** Brings a model into the models directory, and prints what `shruti models add` prints. @throws as that command does */
export async function addModel(
  context: CliContext,
  path: string,
  options: AddArguments,
  tuning: FamilyTuning,
): Promise<void> {
  const settings = toModelOptions(options, tuning);
  const ending = cleanUpAtEnd();
  const progress = openProgress(context.io, options.id ?? "import");
  let trial: TrialReport | undefined;
  let ngrams: PreparedNgrams | undefined;
  try {
    ngrams = await prepareNgrams(options.ngram ?? [], settings.languages ?? []);
    const tryModel = async (model: InstalledModel) => {
      trial = await tryOut(context, model);
      return findingsOf(trial);
    };
    const service = await openModels(context, options.trial ? tryModel : undefined);
    const { findSource } = await import("./model-sources.ts");
    const source = findSource(path, {
      ...(options.quantise === undefined ? {} : { quantise: options.quantise }),
      further: ngrams.files,
      reserveBytes: context.loadConfig().config.storage.reserve_bytes,
      onProgress: progress.update,
      onImported: (imported) => {
        progress.close();
        context.note(describeImport(imported));
      },
    });
    checkFound(source);
    context.note(`found ${source.kind}: ${path}`);
    noteHints(context, source, options);
    if (options.dryRun) {
      const made = options.trial
        ? await service.rehearse(source.added, settings)
        : await source.rehearse(service.directory);
      return reportRehearsal(context, source, made, trial, options);
    }
    const model = await service.add(source.added, settings);
    if (options.default) service.setDefault(model.id);
    if (options.json)
      context.printJson({
        ...toInstalledModel(service, model),
        ...(trial ? { trial: trialJson(trial) } : {}),
      });
    else context.printLine(model.id);
  } finally {
    progress.close();
    ngrams?.remove();
    ending.stop();
  }
}

/** Checks quickly whether what was found can be added. @throws AppError `invalid_request` with the reason */
export function checkFound(source: FoundSource): void {
  try {
    source.check();
  } catch (error) {
    throw new AppError("invalid_request", { message: errorMessage(error), detail: "file" });
  }
}

function toModelOptions(options: AddArguments, tuning: FamilyTuning): AddModelOptions {
  const { modelVersion, language, languages, modes, ...rest } = options;
  if (language && languages) throw new CommandError("usage", "give --language or --languages, not both");
  const given = language ?? languages;
  if (modes && !given) throw new CommandError("usage", "with --modes there must be --languages");
  const { id, name, licence, source, notice, sha256 } = rest;
  const texts = Object.entries({ id, name, licence, source, notice, sha256 }).filter(
    ([, value]) => value !== undefined,
  );
  return {
    ...(Object.fromEntries(texts) as AddModelOptions),
    ...(given ? { languages: given.map((one) => ({ ...(modes ? { modes } : {}), ...one })) } : {}),
    ...(modelVersion === undefined ? {} : { version: modelVersion }),
    decoding: { tuning },
  };
}

/** Tries a model and prints what that showed. @throws Error with the reason why it must not be installed */
export async function tryOut(context: CliContext, model: InstalledModel): Promise<TrialReport> {
  const [{ tryOutModel }, { describeTrial }] = await Promise.all([
    import("./model-trial.ts"),
    import("./trial-report.ts"),
  ]);
  const { config, dataDir, log } = await context.openServices();
  context.note("trying the model on speech, silence and noise …");
  const report = await tryOutModel(config, dataDir, log, model);
  for (const line of describeTrial(report)) context.note(line);
  return report;
}

function reportRehearsal(
  context: CliContext,
  { kind, name }: FoundSource,
  made: { bytes: number; sha256: string } | undefined,
  trial: TrialReport | undefined,
  { json }: AddArguments,
): void {
  const result = made ? { bytes: made.bytes, sha256: made.sha256 } : {};
  if (json) context.printJson({ kind, name, ...result, ...(trial ? { trial: trialJson(trial) } : {}) });
  else context.printLine(`${kind} ${name} can be added.`);
}

/** Renders what an import made as a line. */
export function describeImport({ size, tensors, bytes, sha256, peakBytes }: StagedImport): string {
  return `imported: ${size}, ${tensors} tensors, ${megabytes(bytes)} MB, SHA-256 ${sha256}; the import needed ${megabytes(peakBytes)} MB of memory`;
}

const megabytes = (bytes: number): number => Math.round(bytes / 1e6);

function noteHints(context: CliContext, { hint }: FoundSource, options: AddArguments): void {
  if (hint?.licence !== undefined && options.licence === undefined) {
    context.note(
      `its README says the licence is ${hint.licence}; --licence records the one you have checked`,
    );
  }
  if (hint && hint.languages.length > 0 && !options.language && !options.languages) {
    const codes = hint.languages.slice(0, 10).join(",");
    context.note(`its README names the languages ${codes}; --languages lists only those that it is good at`);
  }
}
