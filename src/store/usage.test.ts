import { afterAll, describe, expect, test } from "bun:test";
import { AppError } from "../domain/errors.ts";
import { openDatabase } from "./database.ts";
import { exportUsageEvents, insertUsageEvent, listUsageEvents } from "./usage.ts";

const database = openDatabase(":memory:");
afterAll(() => database.close());
const { store } = database;

const add = (name: string, nowMs: number, organizationId = "org_a", projectId = "prj_a") =>
  insertUsageEvent(
    store,
    {
      organizationId,
      projectId,
      transcriptionId: name,
      modelId: "m",
      state: "completed",
      audioMs: 1,
      billedMs: 1,
      channels: 1,
      amountPaise: 1,
    },
    nowMs,
  );

describe("usage events", () => {
  const ids = [100, 200, 300].map((nowMs) => add(`tr_${nowMs}`, nowMs));
  const foreign = add("tr_b", 250, "org_b", "prj_b");
  // The clock was set back, so the event is old although its identifier is new.
  const late = add("tr_late", 150);

  test("are listed in pages, newest first, within the project", () => {
    const first = listUsageEvents(store, { projectId: "prj_a" }, { limit: 3 });
    expect(first.data.map(({ id }) => id)).toEqual([late, ids[2], ids[1]] as string[]);
    expect(first.next).toBe(ids[1] ?? "");
    const second = listUsageEvents(store, { projectId: "prj_a" }, { limit: 3, after: ids[1] ?? "" });
    expect(second.data.map(({ id }) => id)).toEqual([ids[0] ?? ""]);
    expect(second.next).toBeNull();
    expect(listUsageEvents(store, { projectId: "prj_a" }, { limit: 4 }).next).toBeNull();
  });

  test("refuse an `after` of another project or of no event", () => {
    for (const after of [foreign, "ue_nothing"]) {
      expect(() => listUsageEvents(store, { projectId: "prj_a" }, { limit: 3, after })).toThrow(AppError);
    }
  });

  test("exist once for each transcription", () => {
    expect(() => add("tr_100", 400)).toThrow();
  });

  test("are exported by their time, including the start and excluding the end", () => {
    const exported = (range: { fromMs?: number; toMs?: number }) =>
      [...exportUsageEvents(store, "org_a", range)].map(({ createdAt }) => createdAt);
    expect(exported({})).toEqual([100, 200, 300, 150]);
    expect(exported({ fromMs: 150, toMs: 300 })).toEqual([200, 150]);
    expect(exported({ fromMs: 301 })).toEqual([]);
  });

  test("are exported over several pages", () => {
    for (let n = 0; n < 2500; n++) add(`tr_many_${n}`, 1000 + n, "org_many", "prj_many");
    const times = [...exportUsageEvents(store, "org_many", {})].map(({ createdAt }) => createdAt);
    expect(times).toEqual(Array.from({ length: 2500 }, (_, n) => 1000 + n));
  });
});
