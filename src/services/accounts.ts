import { AppError } from "../domain/errors.ts";
import type { Clock } from "../lib/clock.ts";
import { newId } from "../lib/ids.ts";
import { named } from "../lib/named.ts";
import { differences, recordAct } from "../store/audit-log.ts";
import { type Database, transaction } from "../store/database.ts";
import {
  insertOrganization,
  listOrganizations,
  markOrganizationDisabled,
  markOrganizationEnabled,
  type OrganizationRow,
  type OrganizationSettings,
  requireOrganization,
  updateOrganization,
} from "../store/organizations.ts";
import {
  findProject,
  insertProject,
  listProjects,
  type ProjectRow,
  type ProjectSettings,
  updateProject,
} from "../store/projects.ts";
import { endLowCredit } from "./low-credit.ts";

export type AccountServiceDeps = {
  database: Database;
  clock: Clock;
  /** Is called after an organization has changed, for code that keeps a copy in memory. */
  onChange?: () => void;
};

export type NewOrganization = { name: string } & Partial<OrganizationSettings>;
export type NewProject = { organizationId: string; name: string };

/**
 * Organizations and their projects. Only admins use it. Methods with an `id` throw AppError `not_found` for an unknown
 * one.
 */
export type AccountService = {
  /** Creates an organization. @throws AppError `invalid_request` for a name or a setting out of bounds */
  createOrganization(input: NewOrganization): OrganizationRow;
  /**
   * Returns the organization of a name, and creates it where there is none. One that has left (`purge`) has no name any
   * more. Settings are only those of a new one.
   *
   * @throws AppError as `createOrganization`; `conflict` when several have the name
   */
  ensureOrganization(input: NewOrganization): { organization: OrganizationRow; isNew: boolean };
  /** Lists the organizations that have a name, without those that have left. */
  organizationsNamed(name: string): OrganizationRow[];
  /** Lists all organizations, oldest first, also those that have left. */
  listOrganizations(): OrganizationRow[];
  showOrganization(id: string): OrganizationRow;
  /**
   * Changes the given settings; null returns a setting to the config's value.
   *
   * @throws AppError `invalid_request` without any setting, or for one out of bounds
   */
  setOrganization(id: string, input: Partial<OrganizationSettings>): OrganizationRow;
  /** Disables an organization: from now on its keys are refused. Disabling it again changes nothing. */
  disableOrganization(id: string): OrganizationRow;
  /** Enables a disabled organization. Enabling it again changes nothing. @throws AppError `conflict` after a purge */
  enableOrganization(id: string): OrganizationRow;
  /** Creates a project. @throws AppError `not_found` for an unknown organization, `invalid_request` for the name */
  createProject(input: NewProject): ProjectRow;
  /**
   * Returns the project of a name in an organization, and creates it where there is none.
   *
   * @throws AppError as `createProject`; `conflict` when several have the name
   */
  ensureProject(input: NewProject): { project: ProjectRow; isNew: boolean };
  /** Lists all projects, or those of one organization. */
  listProjects(organizationId?: string): ProjectRow[];
  showProject(id: string): ProjectRow;
  /**
   * Changes how long a project keeps recordings and transcripts, and the language of requests that name none; null
   * returns a setting to the config's.
   *
   * @throws AppError `not_found`; `invalid_request` without any setting, or for one out of bounds
   */
  setProject(id: string, settings: Partial<ProjectSettings>): ProjectRow;
};

const MAX_DAYS = 36_500;
const LANGUAGE_CODE = /^[a-z]{2,3}$/;

/** Bounds of the settings. They refuse a value in a wrong unit. */
const BOUNDS = {
  pricePaisePerAudioHour: { min: 0, max: 1_000_000_000, detail: "price" },
  dailySpendLimitPaise: { min: 0, max: Number.MAX_SAFE_INTEGER, detail: "daily_spend_limit" },
  maxQueued: { min: 0, max: 10_000_000, detail: "max_queued" },
  requestsPerSecond: { min: 0, max: 1_000_000, detail: "requests_per_second" },
  maxStoredBytes: { min: 0, max: Number.MAX_SAFE_INTEGER, detail: "stored_bytes" },
  lowCreditPaise: { min: 0, max: Number.MAX_SAFE_INTEGER, detail: "low_credit" },
  weight: { min: 1, max: 1000, detail: "weight" },
} as const;

export function createAccountService({
  database,
  clock,
  onChange = () => {},
}: AccountServiceDeps): AccountService {
  const { store } = database;

  const showOrganization = (id: string) => requireOrganization(store, id);

  /** Changes a row by a compare-and-set, which does nothing when the row has the wanted state already. */
  function change(
    id: string,
    action: "organization.disable" | "organization.enable",
    write: (tx: typeof store) => OrganizationRow | undefined,
  ): OrganizationRow {
    const changed = transaction(store, (tx) => {
      const row = write(tx);
      if (row) recordAct(tx, { action, object: id, organizationId: id }, clock.now());
      return row;
    });
    if (changed) onChange();
    return changed ?? showOrganization(id);
  }

  function set(id: string, settings: Partial<OrganizationSettings>): OrganizationRow {
    const changed = transaction(store, (tx) => {
      const before = requireOrganization(tx, id);
      const row = updateOrganization(tx, id, settings) ?? before;
      if (settings.lowCreditPaise != null) endLowCredit(tx, id, settings.lowCreditPaise);
      const changes = differences(settingsOf(before), settingsOf(row));
      if (changes) {
        const act = { action: "organization.set", object: id, organizationId: id, ...changes } as const;
        recordAct(tx, act, clock.now());
      }
      return row;
    });
    onChange();
    return changed;
  }

  /** Makes an organization in a transaction. The settings have been checked. */
  function makeOrganization(tx: typeof store, settings: NewOrganization): OrganizationRow {
    const nowMs = clock.now();
    const made = insertOrganization(tx, {
      ...settings,
      id: newId("organization", nowMs),
      createdAt: nowMs,
    });
    const { id } = made;
    const after = settingsOf(made);
    recordAct(tx, { action: "organization.create", object: id, organizationId: id, after }, nowMs);
    return made;
  }

  const checkedOrganization = (input: NewOrganization) => ({
    ...checkSettings(input),
    name: checkName(input.name),
  });

  return {
    createOrganization(input) {
      const settings = checkedOrganization(input);
      return transaction(store, (tx) => makeOrganization(tx, settings));
    },
    ensureOrganization(input) {
      const settings = checkedOrganization(input);
      return transaction(store, (tx) => {
        const found = onlyOne(named(listOrganizations(tx), settings.name).filter(isPresent), "organizations");
        return { organization: found ?? makeOrganization(tx, settings), isNew: found === undefined };
      });
    },
    organizationsNamed: (name) => named(listOrganizations(store), name).filter(isPresent),
    listOrganizations: () => listOrganizations(store),
    showOrganization,
    setOrganization(id, input) {
      const settings = checkSettings(input);
      if (Object.keys(settings).length === 0) {
        throw new AppError("invalid_request", { message: "Give at least one value to set." });
      }
      return set(id, settings);
    },
    disableOrganization: (id) =>
      change(id, "organization.disable", (tx) => markOrganizationDisabled(tx, id, clock.now())),
    enableOrganization(id) {
      if (showOrganization(id).purgeStartedAt !== null)
        throw new AppError("conflict", {
          message: `${id} was purged; a customer who returns gets a new one.`,
        });
      return change(id, "organization.enable", (tx) => markOrganizationEnabled(tx, id));
    },
    ...projectsOf({ database, clock }),
  };
}

type ProjectMethods = Pick<
  AccountService,
  "createProject" | "ensureProject" | "listProjects" | "showProject" | "setProject"
>;

function projectsOf({
  database: { store },
  clock,
}: Pick<AccountServiceDeps, "database" | "clock">): ProjectMethods {
  function showProject(id: string): ProjectRow {
    const row = findProject(store, id);
    if (!row) throw new AppError("not_found", { message: `There is no project ${id}.` });
    return row;
  }

  function makeProject(tx: typeof store, { organizationId, name }: NewProject): ProjectRow {
    const nowMs = clock.now();
    const row = { id: newId("project", nowMs), organizationId, name, createdAt: nowMs };
    recordAct(tx, { action: "project.create", object: row.id, organizationId, after: { name } }, nowMs);
    return insertProject(tx, row);
  }

  const checked = ({ organizationId, name }: NewProject) => ({
    organizationId: requireOrganization(store, organizationId).id,
    name: checkName(name),
  });

  return {
    createProject(input) {
      const wanted = checked(input);
      return transaction(store, (tx) => makeProject(tx, wanted));
    },
    ensureProject(input) {
      const wanted = checked(input);
      return transaction(store, (tx) => {
        const found = onlyOne(named(listProjects(tx, wanted.organizationId), wanted.name), "projects");
        return { project: found ?? makeProject(tx, wanted), isNew: found === undefined };
      });
    },
    listProjects(organizationId) {
      if (organizationId !== undefined) requireOrganization(store, organizationId);
      return listProjects(store, organizationId);
    },
    showProject,
    setProject(id, input) {
      const settings = checkProjectSettings(input);
      return transaction(store, (tx) => {
        const before = showProject(id);
        const row = updateProject(tx, id, settings) ?? before;
        const changes = differences(projectSettingsOf(before), projectSettingsOf(row));
        const { organizationId } = row;
        if (changes) {
          recordAct(tx, { action: "project.set", object: id, organizationId, ...changes }, clock.now());
        }
        return row;
      });
    },
  };
}

/** A customer whose purge has begun has left for good. */
const isPresent = ({ purgeStartedAt }: OrganizationRow) => purgeStartedAt === null;

function onlyOne<T extends { id: string; name: string }>(found: readonly T[], what: string): T | undefined {
  if (found.length < 2) return found[0];
  const ids = found.map(({ id }) => id).join(", ");
  throw new AppError("conflict", {
    message: `${found.length} ${what} have the name ${found[0]?.name}: ${ids}.`,
  });
}

const projectSettingsOf = ({ audioDays, transcriptDays, defaultLanguage }: ProjectSettings) => ({
  audio_days: audioDays,
  transcript_days: transcriptDays,
  default_language: defaultLanguage,
});

function checkProjectSettings(input: Partial<ProjectSettings>): Partial<ProjectSettings> {
  const given = Object.entries(input).filter(([, value]) => value !== undefined);
  if (given.length === 0) {
    throw new AppError("invalid_request", { message: "Give at least one value to set." });
  }
  const { defaultLanguage: language = null, ...periods } = input;
  if (language !== null && !LANGUAGE_CODE.test(language)) {
    const message = "A language is a code of two or three small letters, such as hi.";
    throw new AppError("invalid_request", { message, detail: "default_language" });
  }
  for (const [name, days = null] of Object.entries(periods)) {
    if (days === null || (Number.isSafeInteger(days) && days >= 0 && days <= MAX_DAYS)) continue;
    throw new AppError("invalid_request", {
      message: `A period is a whole number of days from 0 to ${MAX_DAYS}.`,
      detail: name === "audioDays" ? "audio_days" : "transcript_days",
    });
  }
  return Object.fromEntries(given);
}

function settingsOf(row: OrganizationSettings) {
  const { name, pricePaisePerAudioHour, dailySpendLimitPaise, maxQueued, requestsPerSecond, weight } = row;
  const { maxStoredBytes, lowCreditPaise } = row;
  return {
    name,
    price_paise_per_audio_hour: pricePaisePerAudioHour,
    daily_spend_limit_paise: dailySpendLimitPaise,
    max_queued: maxQueued,
    requests_per_second: requestsPerSecond,
    max_stored_bytes: maxStoredBytes,
    low_credit_paise: lowCreditPaise,
    weight,
  };
}

/**
 * Trims a name and checks it: 1 to 200 characters, no control characters.
 *
 * @throws AppError `invalid_request`
 */
export function checkName(name: string): string {
  const trimmed = name.trim();
  if (trimmed === "" || trimmed.length > 200 || /\p{Cc}/u.test(trimmed)) {
    throw new AppError("invalid_request", {
      message: "A name has 1 to 200 characters and no control characters.",
      detail: "name",
    });
  }
  return trimmed;
}

function checkSettings(input: Partial<OrganizationSettings>): Partial<OrganizationSettings> {
  const { name, ...numbers } = input;
  const given = Object.fromEntries(
    Object.entries(numbers).filter(([setting, value]) => setting in BOUNDS && value !== undefined),
  );
  for (const [setting, value] of Object.entries(given)) {
    const { min, max, detail } = BOUNDS[setting as keyof typeof BOUNDS];
    const isBack = value === null && setting !== "weight";
    if (isBack || (Number.isSafeInteger(value) && Number(value) >= min && Number(value) <= max)) continue;
    throw new AppError("invalid_request", {
      message: `The value of ${detail} must be a whole number from ${min} to ${max}.`,
      detail,
    });
  }
  return name === undefined ? given : { ...given, name: checkName(name) };
}
