import { afterAll, beforeEach, describe, expect, test } from "bun:test";
import { AppError } from "../domain/errors.ts";
import { openDatabase } from "../store/database.ts";
import { manualClock } from "../testing/kits/manual-clock.ts";
import { createAccountService } from "./accounts.ts";

const database = openDatabase(":memory:");
afterAll(() => database.close());
let changes = 0;
beforeEach(() => {
  changes = 0;
});
const accounts = createAccountService({ database, clock: manualClock(), onChange: () => changes++ });

const code = (run: () => unknown): string | undefined => {
  try {
    run();
    return undefined;
  } catch (error) {
    return error instanceof AppError ? error.code : String(error);
  }
};

describe("accounts", () => {
  const organization = accounts.createOrganization({ name: "  Physics " });

  test("an organization starts with the settings of the config and without credit", () => {
    expect(accounts.showOrganization(organization.id)).toMatchObject({
      name: "Physics",
      pricePaisePerAudioHour: null,
      weight: 1,
      balancePaise: 0,
      disabledAt: null,
    });
  });

  test("settings are changed one by one, and null restores the config's value", () => {
    accounts.setOrganization(organization.id, { pricePaisePerAudioHour: 0, weight: 3 });
    expect(accounts.showOrganization(organization.id)).toMatchObject({
      pricePaisePerAudioHour: 0,
      weight: 3,
    });
    accounts.setOrganization(organization.id, { pricePaisePerAudioHour: null });
    expect(accounts.showOrganization(organization.id)).toMatchObject({
      pricePaisePerAudioHour: null,
      weight: 3,
    });
    expect(changes).toBe(2);
  });

  const wrong = [
    {},
    { weight: 0 },
    { pricePaisePerAudioHour: -1 },
    { maxQueued: 1.5 },
    { name: " " },
    { name: "a\nb" },
  ];
  for (const settings of wrong) {
    test(`refuses the settings ${JSON.stringify(settings)}`, () => {
      expect(code(() => accounts.setOrganization(organization.id, settings))).toBe("invalid_request");
      expect(changes).toBe(0);
    });
  }

  test("disabling and enabling call the listener once each", () => {
    const first = accounts.disableOrganization(organization.id).disabledAt;
    expect(first).not.toBeNull();
    expect(accounts.disableOrganization(organization.id).disabledAt).toBe(first);
    expect(changes).toBe(1);
    expect(accounts.enableOrganization(organization.id).disabledAt).toBeNull();
    expect(changes).toBe(2);
  });

  test("a project needs an organization that exists", () => {
    const project = accounts.createProject({ organizationId: organization.id, name: "Lab" });
    expect(accounts.listProjects(organization.id)).toEqual([project]);
    expect(accounts.showProject(project.id)).toEqual(project);
    expect(code(() => accounts.createProject({ organizationId: "org_none", name: "Lab" }))).toBe("not_found");
    expect(code(() => accounts.listProjects("org_none"))).toBe("not_found");
    expect(code(() => accounts.disableOrganization("org_none"))).toBe("not_found");
    expect(code(() => accounts.showProject("prj_none"))).toBe("not_found");
  });
});
