import { describe, expect, test } from "bun:test";
import { type Actor, currentActor, runAs, SERVER } from "../lib/actor.ts";
import { exportAudit, listAudit, recordAct, verifyAudit } from "./audit-log.ts";
import { openDatabase, transaction } from "./database.ts";

const ANNA: Actor = { source: "command_line", name: "anna", via: "orgs create" };
const KEY = { source: "api_key", name: "key_1", via: "req_1" } as const;
const ORG = "org_01K00000000000000000000000";

function withThree() {
  const database = openDatabase(":memory:");
  const { store } = database;
  runAs(ANNA, () =>
    transaction(store, (tx) => {
      recordAct(tx, { action: "organization.create", object: ORG, organizationId: ORG }, 1000);
      recordAct(
        tx,
        { action: "organization.set", object: ORG, organizationId: ORG, after: { weight: 2 } },
        2000,
      );
    }),
  );
  recordAct(store, { action: "webhook.remove", object: "whe_1" }, 3000, KEY);
  return database;
}

test("each entry says who, what, on which object and when, and the chain holds", () => {
  const { store } = withThree();
  const entries = [...exportAudit(store)];
  expect(entries.map((each) => [each.sequence, each.createdAt, each.source, each.actor, each.via])).toEqual([
    [1, 1000, "command_line", "anna", "orgs create"],
    [2, 2000, "command_line", "anna", "orgs create"],
    [3, 3000, "api_key", "key_1", "req_1"],
  ]);
  expect(entries[1]).toMatchObject({
    action: "organization.set",
    object: ORG,
    before: null,
    after: '{"weight":2}',
  });
  expect(verifyAudit(store)).toMatchObject({
    ok: true,
    entries: 3,
    head: { sequence: 3, hash: entries[2]?.hash },
  });
});

test("an act and its entry are one transaction", () => {
  const { store } = withThree();
  const fail = () =>
    transaction(store, (tx) => {
      recordAct(tx, { action: "credit.grant" }, 4000);
      throw new Error("the change failed");
    });
  expect(fail).toThrow("the change failed");
  expect(listAudit(store, {}, { limit: 1 }).data[0]?.sequence).toBe(3);
});

test("entries are listed newest first, by page and by filter", () => {
  const { store } = withThree();
  const first = listAudit(store, {}, { limit: 2 });
  expect([first.data.map(({ sequence }) => sequence), first.next]).toEqual([[3, 2], 2]);
  const second = listAudit(store, {}, { limit: 2, after: 2 });
  expect([second.data.map(({ sequence }) => sequence), second.next]).toEqual([[1], null]);
  const found = (filter: Parameters<typeof listAudit>[1]) =>
    listAudit(store, filter, { limit: 9 }).data.map(({ sequence }) => sequence);
  expect(found({ organizationId: ORG })).toEqual([2, 1]);
  expect(found({ object: "whe_1" })).toEqual([3]);
  expect(found({ sources: ["api_key"] })).toEqual([3]);
  expect(found({ sources: ["command_line", "console"] })).not.toContain(3);
  expect(found({ actor: "anna", action: "organization.set" })).toEqual([2]);
  expect(found({ fromMs: 2000, toMs: 3000 })).toEqual([2]);
});

test("no secret gets into an entry", () => {
  const { store } = openDatabase(":memory:");
  const secret = `${"A1b2".repeat(20)}`;
  const actor = { source: "console", name: `whsec_${secret}`, via: `upt_${secret}` } as const;
  const act = {
    action: "key.create",
    object: `shr_${secret}`,
    before: { name: `x shr_${secret} y` },
  } as const;
  recordAct(store, { ...act, after: { long: "z".repeat(5000) } }, 1, actor);
  const [entry] = exportAudit(store);
  expect(JSON.stringify(entry)).not.toContain(secret);
  expect(entry).toMatchObject({
    actor: "whsec_…",
    via: "upt_…",
    object: "shr_…",
    before: '{"name":"x shr_… y"}',
  });
  expect(entry?.after?.length).toBeLessThan(400);
  expect(verifyAudit(store).ok).toBe(true);
});

describe("the log is append-only", () => {
  test.each([
    "UPDATE audit_log SET actor = 'x'",
    "DELETE FROM audit_log",
    "REPLACE INTO audit_log SELECT * FROM audit_log",
  ])("%s is refused or changes nothing", (statement) => {
    const { sqlite, store } = withThree();
    const before = JSON.stringify([...exportAudit(store)]);
    try {
      sqlite.run(statement);
    } catch (error) {
      expect(String(error)).toContain("append-only");
    }
    expect(JSON.stringify([...exportAudit(store)])).toBe(before);
  });

  const forgeries: [string, string, string][] = [
    ["another actor", "UPDATE audit_log SET actor = 'bob' WHERE sequence = 1", "entry 1 was altered"],
    ["another time", "UPDATE audit_log SET created_at = 5 WHERE sequence = 2", "entry 2 was altered"],
    ["a missing entry", "DELETE FROM audit_log WHERE sequence = 2", "entries 2 to 2 are missing"],
    ["other values", "UPDATE audit_log SET after = '{}' WHERE sequence = 2", "entry 2 was altered"],
  ];
  test.each(forgeries)("%s is found", (_name, statement, problem) => {
    const { sqlite, store } = withThree();
    for (const event of ["update", "delete"]) sqlite.run(`DROP TRIGGER audit_log_refuses_${event}`);
    sqlite.run(statement);
    const verified = verifyAudit(store);
    expect(verified.ok).toBe(false);
    expect(verified.problems).toContain(problem);
  });

  test("removed last entries are found with an anchor noted earlier", () => {
    const { sqlite, store } = withThree();
    const { head } = verifyAudit(store);
    sqlite.run("DROP TRIGGER audit_log_refuses_delete");
    sqlite.run("DELETE FROM audit_log WHERE sequence = 3");
    expect(verifyAudit(store).ok).toBe(true);
    expect(verifyAudit(store, [{ ...head, known: "noted earlier" }]).problems).toEqual([
      "entry 3 is not the one with the hash noted earlier: the log ends at entry 2",
    ]);
  });
});

test("the actor is known after an await and in timers, and each piece of work has its own", async () => {
  const seen = async () => {
    await Bun.sleep(1);
    return new Promise<string>((resolve) => setTimeout(() => resolve(currentActor().name), 1));
  };
  expect(await Promise.all([runAs(ANNA, seen), runAs(KEY, seen), seen()])).toEqual([
    "anna",
    "key_1",
    SERVER.name,
  ]);
});
