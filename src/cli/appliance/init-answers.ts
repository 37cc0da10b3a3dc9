import { readConfig } from "../../config/load.ts";
import type { Config } from "../../config/schema.ts";
import { type CliContext, CommandError } from "../frame/context.ts";
import { modelsHere, type Obtaining, offersFor, speechModels } from "./init-model.ts";
import {
  askAnswers,
  hasQuestions,
  type InitAnswers,
  readGivenModel,
  type Surroundings,
} from "./init-questions.ts";

/** Options of `shruti init`. */
export type InitOptions = {
  data?: string;
  name: string;
  projectName: string;
  keyName: string;
  keyFile?: string;
  languages?: string[];
  model?: string;
  bundleKey?: string;
  acceptUnverified?: true;
  mirror?: string;
  openai?: boolean;
  unlessExists?: true;
  service?: boolean;
  yes?: true;
  json?: true;
};

/** Where config and database are, or will be. */
export type NewAppliance = {
  configPath: string;
  /** undefined: there is no config file, and `init` makes it when the rest is there; else it stays as it is. */
  config: Config | undefined;
  dataDir: string;
};

/** Takes the answers from the options, and asks a person for the others where there is one. Writes nothing. */
export async function answersFor(
  context: CliContext,
  appliance: NewAppliance,
  options: InitOptions,
): Promise<InitAnswers> {
  const { environment, converse } = context.io;
  const { model, openai, service, languages, bundleKey, acceptUnverified, mirror } = options;
  const obtaining: Obtaining = {
    ...(acceptUnverified ? { acceptUnverified } : {}),
    ...(bundleKey === undefined ? {} : { bundleKey }),
    ...(mirror === undefined ? {} : { mirror }),
  };
  const namesDataDir = options.data !== undefined || environment.SHRUTI_STORAGE_DATA_DIR !== undefined;
  const hasConfig = appliance.config !== undefined;
  const dataDir = hasConfig || namesDataDir ? appliance.dataDir : undefined;
  const given = { dataDir, languages, model, obtaining, openai, service };
  const isQuiet = options.yes || options.json || options.unlessExists;
  if (converse && !isQuiet && hasQuestions(given, hasConfig)) {
    const conversation = converse();
    try {
      return await askAnswers(conversation, given, await surroundingsOf(context, appliance));
    } finally {
      conversation.close();
    }
  }
  if (model === undefined && Object.keys(obtaining).length > 0)
    throw new CommandError("usage", "--bundle-key, --accept-unverified and --mirror need --model");
  const choice =
    model === undefined
      ? undefined
      : await readGivenModel(model, await modelsIn(context, appliance, appliance.dataDir), obtaining);
  return {
    ...{ dataDir: appliance.dataDir, languages: languages ?? [], model: choice },
    ...{ obtaining, openai, service: service ?? false },
  };
}

/** Lists the models that need no file, under the config that is there or the one that `init` makes. */
async function modelsIn({ io }: CliContext, { config }: NewAppliance, dataDir: string) {
  return modelsHere(config ?? readConfig(undefined, io.environment).config, dataDir);
}

async function surroundingsOf(context: CliContext, appliance: NewAppliance): Promise<Surroundings> {
  const [{ availableMemoryBytes }, { unverifiedFiles }] = await Promise.all([
    import("../../engine/machine.ts"),
    import("../../services/models/catalogue.ts"),
  ]);
  const catalogue = await speechModels();
  return {
    environment: context.io.environment,
    configPath: appliance.configPath,
    hasConfig: appliance.config !== undefined,
    defaultDataDir: appliance.dataDir,
    availableMemoryBytes: availableMemoryBytes(),
    modelsHere: (dataDir) => modelsIn(context, appliance, dataDir),
    offersFor: (languages, memoryBytes) => offersFor(languages, memoryBytes, catalogue),
    unverified: (entry) => unverifiedFiles(entry).map(({ name }) => name),
    say: (text) => void context.io.err(text),
  };
}
