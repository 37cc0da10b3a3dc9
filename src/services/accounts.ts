import { AppError } from "../domain/errors.ts";
import type { Clock } from "../lib/clock.ts";
import { newId } from "../lib/ids.ts";
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
import { findProject, insertProject, listProjects, type ProjectRow } from "../store/projects.ts";

export type AccountServiceDeps = {
  database: Database;
  clock: Clock;
  /** Called after an organization changed, for whoever keeps a copy in memory. */
  onChange?: () => void;
};
export type AccountService = ReturnType<typeof createAccountService>;

/** Largest values an admin may set; a wrong unit is caught before it costs anything. */
const BOUNDS = {
  pricePaisePerAudioHour: { min: 0, max: 1_000_000_000, detail: "price" },
  dailySpendLimitPaise: { min: 0, max: Number.MAX_SAFE_INTEGER, detail: "daily_spend_limit" },
  maxQueued: { min: 0, max: 10_000_000, detail: "max_queued" },
  requestsPerSecond: { min: 0, max: 1_000_000, detail: "requests_per_second" },
  weight: { min: 1, max: 1000, detail: "weight" },
} as const;

/** Organizations and projects, for the admin. Unknown ones are AppError `not_found`. */
export function createAccountService({ database, clock, onChange = () => {} }: AccountServiceDeps) {
  const { store } = database;

  const showOrganization = (id: string) => requireOrganization(store, id);

  /** Changes a row by a compare-and-set that does nothing when the wanted state is there already. */
  function change(id: string, write: (tx: typeof store) => OrganizationRow | undefined): OrganizationRow {
    const changed = transaction(store, write);
    if (changed) onChange();
    return changed ?? showOrganization(id);
  }

  return {
    /** @throws AppError `invalid_request` for a name or setting out of bounds */
    createOrganization(input: { name: string } & Partial<OrganizationSettings>): OrganizationRow {
      const settings = checkSettings(input);
      const nowMs = clock.now();
      const row = {
        ...settings,
        name: checkName(input.name),
        id: newId("organization", nowMs),
        createdAt: nowMs,
      };
      return transaction(store, (tx) => insertOrganization(tx, row));
    },
    listOrganizations: () => listOrganizations(store),
    showOrganization,
    /** Changes what is given; null goes back to the config's value. */
    setOrganization(id: string, input: Partial<OrganizationSettings>): OrganizationRow {
      const settings = checkSettings(input);
      if (Object.keys(settings).length === 0) {
        throw new AppError("invalid_request", { message: "Give at least one value to set." });
      }
      return change(id, (tx) => updateOrganization(tx, id, settings));
    },
    /** From now on its keys are refused; disabling twice changes nothing. */
    disableOrganization: (id: string) => change(id, (tx) => markOrganizationDisabled(tx, id, clock.now())),
    enableOrganization: (id: string) => change(id, (tx) => markOrganizationEnabled(tx, id)),

    createProject(input: { organizationId: string; name: string }): ProjectRow {
      const nowMs = clock.now();
      const organizationId = showOrganization(input.organizationId).id;
      const row = {
        id: newId("project", nowMs),
        organizationId,
        name: checkName(input.name),
        createdAt: nowMs,
      };
      return transaction(store, (tx) => insertProject(tx, row));
    },
    listProjects(organizationId?: string): ProjectRow[] {
      if (organizationId !== undefined) showOrganization(organizationId);
      return listProjects(store, organizationId);
    },
    showProject(id: string): ProjectRow {
      const row = findProject(store, id);
      if (!row) throw new AppError("not_found", { message: `There is no project ${id}.` });
      return row;
    },
  };
}

/**
 * A name for people: 1 to 200 characters, no control characters, trimmed.
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
  const { name, pricePaisePerAudioHour, dailySpendLimitPaise, maxQueued, requestsPerSecond, weight } = input;
  const numbers = { pricePaisePerAudioHour, dailySpendLimitPaise, maxQueued, requestsPerSecond, weight };
  const given = Object.fromEntries(Object.entries(numbers).filter(([, value]) => value !== undefined));
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
