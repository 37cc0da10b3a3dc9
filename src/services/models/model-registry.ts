import { join, resolve } from "node:path";
import type { Config } from "../../config/schema.ts";
import type { Act } from "../../domain/audit.ts";
import { AppError } from "../../domain/errors.ts";
import type { InstalledModel } from "../../domain/model.ts";
import { FAMILIES, type Families } from "../../families/families.ts";
import type { Clock } from "../../lib/clock.ts";
import type { Log } from "../../lib/log.ts";
import { differences, recordAct } from "../../store/audit-log.ts";
import { type Database, transaction } from "../../store/database.ts";
import { findSetting, putSetting, SETTING_NAMES, type SettingName } from "../../store/settings.ts";
import type { CarriedModels } from "./carried-models.ts";
import { createDraftAttachment, type DraftUse, draftUse } from "./draft-model.ts";
import { createModelScanner } from "./model-files.ts";

export type ModelRegistryDeps = {
  database: Database;
  config: Config;
  /** Absolute path of the data directory. */
  dataDir: string;
  log: Log;
  clock: Clock;
  /** Left out: those of the program. */
  families?: Families;
};

/** Which models are installed, and which one is the default. Each call sees the files as they are at that moment. */
export type ModelRegistry = {
  /** Absolute path of the directory of installed models. */
  directory: string;
  /** Returns the installed models by id, without those inside the executable. Logs each unusable file once. */
  installed(): InstalledModel[];
  /** Returns the models that requests can name: the default first, then by id. */
  list(): InstalledModel[];
  /** Returns the models inside the executable: the one that serves while none is installed first. */
  carried(): readonly InstalledModel[];
  /** Says why files of the directory are left out, one sentence each. */
  problems(): string[];
  /**
   * Finds a model by id. It also finds those inside the executable while others are installed, so that work that began
   * with them can continue.
   */
  find(id: string): InstalledModel | undefined;
  /** Finds an installed model. @throws AppError `not_found` */
  requireInstalled(id: string): InstalledModel;
  /**
   * Finds the model for requests that name none: the named default, else the only installed one, else the first of
   * those inside the executable. Undefined when the named one is not installed, or when several are installed and none
   * is named.
   */
  findDefault(): InstalledModel | undefined;
  /** Returns the id that the config file, else an admin's choice names; undefined when neither names one. */
  namedDefault(): string | undefined;
  /** Returns the ids of models by the languages that they serve: an admin's choices, overridden by the config file. */
  routes(): Readonly<Record<string, string>>;
  /** Stores an admin's choices: the id of the model for each language; undefined removes a choice. */
  route(changes: Readonly<Record<string, string | undefined>>): void;
  /** Reports whether this id is stored as the default. */
  isChosen(id: string): boolean;
  /** Reports whether the default was chosen when models were added, and not by an admin. */
  isDefaultByItself(): boolean;
  /**
   * Stores the default; undefined removes it.
   *
   * @param isByItself the program chooses, not an admin: a model that knows more may take its place
   */
  choose(id: string | undefined, isByItself?: boolean): void;
  /** Says what the draft model of the config does; undefined: the config names none. */
  draftUse(): DraftUse | undefined;
  /** Reads the choice again at the next call, because another process may have changed it. */
  forgetChoice(): void;
};

/** Returns the directory of installed models, absolute. */
export function modelDirectoryOf(config: Config, dataDir: string): string {
  return resolve(config.models.dir || join(dataDir, "models"));
}

/**
 * Opens the registry of models.
 *
 * @param carried the models inside the executable, which are available while no other is installed. The first is then
 *   the default, unless another is chosen.
 */
export function openModelRegistry(deps: ModelRegistryDeps, carried: CarriedModels): ModelRegistry {
  const { config, dataDir, log, families = FAMILIES } = deps;
  const directory = modelDirectoryOf(config, dataDir);
  const attachDraft = createDraftAttachment({ config, families });
  const scan = createModelScanner(directory, deps.families);
  const logged = new Set<string>();
  const choice = openChoice(deps, SETTING_NAMES.defaultModel, asDefault);
  const routing = openChoice(deps, SETTING_NAMES.languageModels, asTexts);

  function everything(): Record<"installed" | "carried", InstalledModel[]> {
    const { models, problems } = scan();
    for (const problem of problems) {
      if (!logged.has(problem)) log.warn({ problem }, "a model is left out");
      logged.add(problem);
    }
    const all = [...models, ...carried.models];
    return { installed: attachDraft(models, all), carried: attachDraft(carried.models, all) };
  }

  const installed = () => everything().installed;

  const routes = () => ({ ...routing.read(), ...config.models.languages });

  function available(): InstalledModel[] {
    const all = everything();
    return all.installed.length === 0 ? all.carried : all.installed;
  }

  /** The stored choice. That of a model inside the executable holds only while this model is listed. */
  function chosen(): DefaultChoice | undefined {
    const stored = choice.read();
    const isOf = (models: readonly InstalledModel[]) => models.some(({ id }) => id === stored?.id);
    return isOf(carried.models) && !isOf(available()) ? undefined : stored;
  }

  const namedDefault = () => (config.models.default !== "" ? config.models.default : chosen()?.id);

  function lookUpDefault(): InstalledModel | undefined {
    const models = available();
    const named = namedDefault();
    if (named === undefined) return models.length === 1 || models[0]?.embedded ? models[0] : undefined;
    return models.find(({ id }) => id === named);
  }

  function findDefault(): InstalledModel | undefined {
    const found = lookUpDefault();
    if (found) return found;
    // Another process may have chosen a moment ago.
    choice.forget();
    return lookUpDefault();
  }

  return {
    directory,
    installed,
    namedDefault,
    findDefault,
    problems: () => [...carried.problems, ...scan().problems],
    list() {
      const models = available();
      const first = findDefault();
      return first ? [first, ...models.filter((model) => model !== first)] : models;
    },
    find(id) {
      const all = everything();
      return [...all.installed, ...all.carried].find((model) => model.id === id);
    },
    carried: () => everything().carried,
    requireInstalled(id) {
      const model = installed().find((found) => found.id === id);
      if (!model) throw new AppError("not_found", { message: `There is no installed model ${id}.` });
      return model;
    },
    routes,
    route(changes) {
      const all = Object.entries({ ...routing.read(), ...changes });
      const kept = all.filter((entry): entry is [string, string] => entry[1] !== undefined);
      const before = routing.read() ?? {};
      const after = kept.length === 0 ? undefined : Object.fromEntries(kept);
      routing.write(after, { action: "model.route", before, after: after ?? {} });
    },
    isChosen: (id) => choice.read()?.id === id,
    isDefaultByItself: () => config.models.default === "" && chosen()?.isByItself !== false,
    choose(id, isByItself = false) {
      const before = choice.read()?.id ?? null;
      choice.write(id === undefined ? undefined : { id, isByItself }, {
        ...{ action: "model.default", before: { default: before }, after: { default: id ?? null } },
        ...(id === undefined ? {} : { object: id }),
      });
    },
    draftUse: () => draftUse({ config, families }, [...installed(), ...carried.models], available(), routes),
    forgetChoice() {
      choice.forget();
      routing.forget();
    },
  };
}

type DefaultChoice = { id: string; isByItself: boolean };

/** Older versions have stored the id alone. */
const asDefault = (value: unknown): DefaultChoice | undefined =>
  typeof value === "string"
    ? { id: value, isByItself: false }
    : ((value ?? undefined) as DefaultChoice | undefined);
const asTexts = (value: unknown) =>
  typeof value === "object" && value !== null ? (value as Record<string, string>) : undefined;

/** An admin's choice, as stored, with a copy in memory. */
function openChoice<T>(
  { database, clock }: Pick<ModelRegistryDeps, "database" | "clock">,
  name: SettingName,
  read: (value: unknown) => T | undefined,
) {
  let known: { value: T | undefined } | undefined;
  const forget = (): void => {
    known = undefined;
  };
  return {
    read(): T | undefined {
      known ??= { value: read(findSetting(database.store, name)) };
      return known.value;
    },
    write(value: T | undefined, { before = {}, after = {}, ...act }: Act): void {
      const changes = differences(before, after);
      transaction(database.store, (tx) => {
        putSetting(tx, name, value, clock.now());
        if (changes) recordAct(tx, { ...act, ...changes }, clock.now());
      });
      forget();
    },
    forget,
  };
}
