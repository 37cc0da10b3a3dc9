import { afterEach, describe, expect, test } from "bun:test";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { openLog, silentLog } from "../lib/log.ts";
import { exportAudit } from "../store/audit-log.ts";
import { findIdempotencyKey } from "../store/idempotency.ts";
import { audioForm } from "../testing/answers/api-client.ts";
import { DAY_MS, type Made, openClockWorld, PERIODS } from "../testing/kits/clock-world.ts";
import { manualClock } from "../testing/kits/manual-clock.ts";
import { openTestApp, type TestApp } from "../testing/kits/open-test-app.ts";
import { until } from "../testing/kits/scheduler-kit.ts";
import { scriptedAudio } from "../testing/kits/scripted-engine.ts";
import { createAccountService } from "./accounts.ts";
import { createClockTrust } from "./clock-trust.ts";
import { createConsoleSessionService } from "./console-sessions.ts";

type World = ReturnType<typeof openClockWorld>;
const KINDS = ["recording", "transcript", "upload", "key", "delivery", "copy"] as const;
const HOUR_MS = 3_600_000;

const open: World[] = [];
afterEach(async () => {
  for (const world of open.splice(0)) await world.close();
});
function openWorld(): World {
  const world = openClockWorld();
  open.push(world);
  world.trust().ages();
  return world;
}

/** Lets time pass as a server does: it looks at the clock and removes what is old, again and again. */
async function live(world: World, milliseconds: number, stepMs = HOUR_MS): Promise<void> {
  for (let left = milliseconds; left > 0; left -= stepMs) {
    world.advance(Math.min(stepMs, left));
    await world.runRetention();
  }
}

describe("the clock", () => {
  const WRONG = 40 * DAY_MS;
  const CASES: [name: string, work: (world: World) => void, isDoubtful: boolean][] = [
    ["that runs without a leap is trusted", (world) => world.advance(WRONG), false],
    ["that is corrected by a day is trusted", (world) => world.setError(-DAY_MS), false],
    ["that leaps ahead is not", (world) => world.setError(WRONG), true],
    ["that leaps back is not", (world) => world.setError(-WRONG), true],
    [
      "that is put forward by a day each time is not, from the third time on",
      (world) => {
        for (const days of [1, 2, 3]) {
          world.setError(days * DAY_MS);
          world.trust().ages();
        }
      },
      true,
    ],
    ["of a machine that was off for a day is trusted", (world) => world.switchOff(DAY_MS), false],
    ["of a machine that was off for three weeks is not", (world) => world.switchOff(21 * DAY_MS), true],
    [
      "of a machine that ran on while the program did not is trusted",
      (world) => {
        world.advance(21 * DAY_MS);
        world.restart();
      },
      false,
    ],
    [
      "of a machine that starts in another year is not",
      (world) => {
        world.setError(-9_000 * DAY_MS);
        world.clock.reboot();
      },
      true,
    ],
    [
      "that was wrong is not trusted because the program starts again",
      (world) => {
        world.setError(WRONG);
        world.trust().ages();
        world.restart();
        world.clock.reboot();
      },
      true,
    ],
    [
      "that stays wrong for weeks is still not trusted",
      (world) => {
        world.setError(WRONG);
        for (let hour = 0; hour < 20 * 24; hour += 1) {
          world.trust().ages();
          world.advance(HOUR_MS);
        }
      },
      true,
    ],
  ];
  test.each(CASES)("%s", async (_name, work, isDoubtful) => {
    const world = openWorld();
    work(world);
    expect(world.trust().verdict().isDoubtful).toBe(isDoubtful);
    expect(world.trust().ages() === undefined).toBe(isDoubtful);
  });

  test("agrees again: it is trusted after a day, across restarts, and not before", () => {
    const world = openWorld();
    world.setError(40 * DAY_MS);
    world.trust().ages();
    world.advance(5 * HOUR_MS);
    expect(world.trust().ages()).toBeUndefined();
    world.setError(0);
    expect(world.trust().verdict()).toMatchObject({ isDoubtful: true, agreedMs: 0, offsetMs: 0 });
    world.trust().ages();
    for (let hour = 0; hour < 23; hour += 1) {
      world.advance(HOUR_MS);
      expect(world.trust().ages()).toBeUndefined();
      if (hour === 10) world.restart();
    }
    world.advance(HOUR_MS);
    expect(world.trust().ages()).toEqual({ nowMs: world.clock.now(), wrong: [] });
  });

  test("a day of agreement begins again when the clock leaps in it", () => {
    const world = openWorld();
    for (const hours of [0, 20, 20]) {
      world.setError(40 * DAY_MS);
      world.trust().ages();
      world.setError(0);
      world.trust().ages();
      world.advance(hours * HOUR_MS);
      expect(world.trust().ages()).toBeUndefined();
    }
  });

  test("a confirmation counts for the reading that was confirmed, and leaves its entry", () => {
    const world = openWorld();
    const trust = world.trust();
    expect(trust.confirm()).toBeUndefined();
    world.switchOff(21 * DAY_MS);
    // A command confirms beside the server.
    const command = createClockTrust({
      database: world.database,
      clock: world.clock,
      log: silentLog,
    });
    expect(command.confirm()).toMatchObject({ isDoubtful: true, offsetMs: 21 * DAY_MS });
    expect(trust.ages()).toEqual({ nowMs: world.clock.now(), wrong: [] });
    const acts = [...exportAudit(world.database.store)].map(({ action, after }) => [action, after]);
    expect(acts).toEqual([
      ["clock.confirm", JSON.stringify({ confirmed: new Date(world.clock.now()).toISOString() })],
    ]);
    world.setError(40 * DAY_MS);
    expect(trust.ages()).toBeUndefined();
  });

  test("a doubt is logged once and then daily, and its end", () => {
    const world = openWorld();
    const lines: string[] = [];
    const log = openLog("info", "json", (line) => void lines.push(line));
    const trust = createClockTrust({ ...world, log });
    trust.ages();
    world.setError(-40 * DAY_MS);
    trust.ages();
    trust.ages();
    expect(lines.map((line) => JSON.parse(line).level)).toEqual(["warn"]);
    expect(lines[0]).toContain("shruti clock show");
    trust.confirm();
    trust.ages();
    expect(lines.map((line) => JSON.parse(line).level)).toEqual(["warn", "info"]);
  });

  test("while the database must not be written to, nothing is", () => {
    const world = openWorld();
    world.setError(40 * DAY_MS);
    const before = world.database.sqlite.query("SELECT * FROM settings").values();
    const trust = createClockTrust({ ...world, log: silentLog, isHeld: () => true });
    expect(trust.ages()).toBeUndefined();
    expect(world.database.sqlite.query("SELECT * FROM settings").values()).toEqual(before);
  });
});

describe("a database whose clock was never read", () => {
  const CASES: [name: string, entryDays: number, fileDays: number | undefined, isDoubtful: boolean][] = [
    ["with an entry of today", 0, undefined, false],
    ["with an entry from long ago", -40, undefined, true],
    ["with an entry from long ago and a file of today, which a restore has written", -40, 0, true],
    ["with an entry from the future", 40, undefined, true],
    ["with a file from the future", 0, 40, true],
  ];
  test("without a recording: the machine may start long after `shruti init`", () => {
    const world = openClockWorld();
    open.push(world);
    createAccountService(world).createOrganization({ name: "First" });
    world.clock.leap(90 * DAY_MS);
    expect(createClockTrust({ ...world, log: silentLog }).ages()).toEqual({
      nowMs: world.clock.now(),
      wrong: [],
    });
  });

  test.each(CASES)("%s", async (_name, entryDays, fileDays, isDoubtful) => {
    const world = openClockWorld();
    open.push(world);
    world.clock.leap(entryDays * DAY_MS);
    world.make("recording");
    world.clock.leap(-entryDays * DAY_MS);
    const fileMs = fileDays === undefined ? undefined : world.clock.now() + fileDays * DAY_MS;
    const trust = createClockTrust({ ...world, log: silentLog, newestFileMs: () => fileMs });
    expect(trust.ages() === undefined).toBe(isDoubtful);
  });
});

describe("what the clock's leaps do not do", () => {
  test("a leap ahead makes no idempotency key forgotten", () => {
    const world = openWorld();
    const key = { projectId: "prj_test", submission: "asynchronous" } as const;
    world.make("key");
    const [{ key: name } = { key: "" }] = world.database.sqlite
      .query<{ key: string }, []>("SELECT key FROM idempotency_keys")
      .all();
    const isKnown = () =>
      findIdempotencyKey(world.database.store, { ...key, key: name }, world.trust().ages()) !== undefined;
    world.setError(40 * DAY_MS);
    expect(isKnown()).toBe(true);
    world.setError(0);
    expect(isKnown()).toBe(true);
    world.trust().confirm();
    world.advance(2 * DAY_MS);
    expect(isKnown()).toBe(false);
  });

  test("a leap back makes no end of access undone, and what begins then ends in time", () => {
    const world = openWorld();
    const { access } = world.trust();
    const nowMs = world.clock.now();
    world.setError(-400 * DAY_MS);
    expect(access.now()).toBe(nowMs);
    world.advance(5 * HOUR_MS);
    expect(access.now()).toBe(nowMs + 5 * HOUR_MS);
    world.setError(400 * DAY_MS);
    expect(access.now()).toBe(world.clock.now());
  });

  test("an admin is not shut out, and a session of a clock that was ahead does not stay open", () => {
    const world = openWorld();
    const { access } = world.trust();
    const sessions = createConsoleSessionService({ database: world.database, clock: access });
    const begin = () => sessions.open(sessions.createLink().secret).secret;
    world.setError(-400 * DAY_MS);
    const behind = begin();
    expect(sessions.require(behind).secret).toBe(behind);
    world.advance(12 * HOUR_MS);
    expect(() => sessions.require(behind)).toThrow("no admin session");
    world.setError(400 * DAY_MS);
    const ahead = begin();
    expect(sessions.require(ahead).secret).toBe(ahead);
    world.setError(0);
    expect(() => sessions.require(ahead)).toThrow("no admin session");
    expect(sessions.require(begin()).name).toBeString();
  });

  test("what was made under a clock of another year is not old when the clock is right", async () => {
    const world = openWorld();
    world.setError(-9_000 * DAY_MS);
    await world.runRetention();
    const made = KINDS.map((kind) => world.make(kind));
    world.advance(HOUR_MS);
    await world.runRetention();
    world.setError(0);
    await live(world, DAY_MS / 2);
    world.trust().confirm();
    await world.runRetention();
    expect(made.map(({ isKept }) => isKept())).toEqual(KINDS.map(() => true));
    await live(world, 31 * DAY_MS, 12 * HOUR_MS);
    expect(made.map(({ isKept }) => isKept())).toEqual(KINDS.map(() => false));
  });

  test("what was made before the first correction of a clock is not old either", async () => {
    const world = openWorld();
    world.setError(0);
    const made = KINDS.map((kind) => world.make(kind));
    // The clock was years behind from the start, and is put right.
    world.clock.leap(9_000 * DAY_MS);
    await world.runRetention();
    world.trust().confirm();
    await world.runRetention();
    expect(made.map(({ isKept }) => isKept())).toEqual(KINDS.map(() => true));
  });
});

test("hundreds of leaps keep the state small, and delay only what was made under a wrong clock", async () => {
  const world = openWorld();
  const before = world.make("recording");
  for (let leap = 0; leap < 300; leap += 1) {
    world.setError((leap % 2 === 0 ? -9_000 - leap : -3) * DAY_MS);
    world.trust().ages();
    world.advance(HOUR_MS / 4);
    world.setError(0);
    if (leap % 3 === 0) world.trust().confirm();
    world.trust().ages();
  }
  world.trust().confirm();
  const [{ value } = { value: "" }] = world.database.sqlite
    .query<{ value: string }, []>("SELECT value FROM settings WHERE name = 'clock.state'")
    .all();
  expect(value.length).toBeLessThan(4_000);
  await live(world, 38 * DAY_MS, 20 * HOUR_MS);
  expect(before.isKept()).toBe(false);
});

describe("what an appliance keeps", () => {
  const DAYS = Number(process.env.SHRUTI_CLOCK_DAYS ?? 0);
  test.skipIf(DAYS === 0)(
    "while its clock leaps for a long time (needs SHRUTI_CLOCK_DAYS)",
    async () => {
      const seed = Number(Date.now() % 1_000_000);
      let drawn = 0;
      const next = () => Number(Bun.hash(`${seed} ${drawn++}`) % 1_000_000n) / 1_000_000;
      const errors = [3, -3, 15, -15, 40, -40, 400, -400, 9_000, -9_000];
      const sums = { leaps: 0, hours_in_doubt: 0, made: 0, removed: 0, confirmed: 0, starts: 0, off: 0 };
      const world = openWorld();
      const count = (removed: number) => {
        sums.removed += removed;
        if (removed > 0) requireNothingYoungRemoved(world);
      };
      const removedIn = (report: object) => Object.values(report).reduce((sum, one) => sum + one, 0);
      for (let hour = 0; hour < DAYS * 24; hour += 1) {
        world.advance(HOUR_MS);
        // Each few days the clock leaps; most leaps are undone within some days.
        if (next() < 1 / 120) {
          world.setError((errors[Math.floor(next() * errors.length)] ?? 0) * DAY_MS);
          sums.leaps += 1;
        } else if (world.errorMs() !== 0 && next() < 1 / 60) world.setError(0);
        if (next() < 1 / 200) {
          world.restart();
          sums.starts += 1;
        }
        if (next() < 1 / 500) {
          world.switchOff(Math.floor(next() * 400) * HOUR_MS);
          sums.off += 1;
        }
        // An admin looks each few days, and confirms a clock that is right.
        if (next() < 1 / 100 && world.errorMs() === 0 && world.trust().confirm()) sums.confirmed += 1;
        if (hour % 4 === 0) {
          world.make(KINDS[(hour / 4) % KINDS.length] ?? "recording");
          sums.made += 1;
        }
        count(removedIn(await world.runRetention()));
        if (world.trust().verdict().isDoubtful) sums.hours_in_doubt += 1;
      }
      process.stdout.write(`${JSON.stringify({ seed, days: DAYS, ...sums })}\n`);
      expect(sums.removed).toBeGreaterThan(0);
      await requireOldRemoved(world);
    },
    3_600_000,
  );
});

test("a server that starts with a clock 40 days ahead keeps its recordings, until an admin confirms the clock", async () => {
  const directory = mkdtempSync(join(tmpdir(), "shruti-ahead-"));
  const clock = manualClock();
  const start = (lines: string[] = [], timezone = "Asia/Kolkata") => {
    const log = openLog("info", "json", (line) => void lines.push(line));
    return openTestApp({ directory, clock, log, config: { billing: { timezone } } });
  };
  const recordings = () => readdirSync(join(directory, "uploads")).length;
  try {
    const first = await start();
    const ask = async (of: TestApp) => {
      const body = audioForm(scriptedAudio({ seconds: 2, text: "a" }), { language: "hi" });
      const headers = { "idempotency-key": "once" };
      const answer = await of.as(first.key)("/v1/audio/transcriptions", { method: "POST", headers, body });
      return ((await answer.json()) as { id: string }).id;
    };
    const id = await ask(first);
    expect(recordings()).toBe(1);
    const left = first.app.services.credit.show(first.organization.id).availablePaise;
    await first.close();
    clock.reboot();
    clock.leap(40 * DAY_MS);
    const lines: string[] = [];
    const second = await start(lines, "Pacific/Kiritimati");
    // The first round of retention comes right after the start.
    await until("it warns", () => lines.some((line) => line.includes("the clock is in doubt")));
    // Neither the leap nor the other time zone has the same request charged twice.
    expect(await ask(second)).toBe(id);
    expect(second.app.services.credit.show(first.organization.id).availablePaise).toBe(left);
    const metrics = await (await second.fetch("/metrics")).text();
    expect(metrics).toContain("\nshruti_clock_doubtful 1\n");
    expect(metrics).toContain(`\nshruti_clock_offset_seconds ${40 * 86_400}\n`);
    await second.close();
    expect(recordings()).toBe(1);
    expect(lines.filter((line) => line.includes('"retention"'))).toEqual([]);

    const third = await start();
    third.app.trust.confirm();
    await third.close();
    const fourth = await start();
    await until("the recording is removed", () => recordings() === 0);
    await fourth.close();
  } finally {
    rmSync(directory, { recursive: true });
  }
});

type Step =
  | { do: "live"; hours: number }
  | { do: "make"; kind: (typeof KINDS)[number] }
  | { do: "leap"; days: number }
  | { do: "off"; hours: number }
  | { do: "restart" | "confirm" }
  | { do: "zone"; zone: string };

const steps: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({ do: fc.constant("live" as const), hours: fc.integer({ min: 1, max: 240 }) }),
  },
  { weight: 6, arbitrary: fc.record({ do: fc.constant("make" as const), kind: fc.constantFrom(...KINDS) }) },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant("leap" as const),
      days: fc.constantFrom(0, 0, 0, 3, -3, 15, -15, 40, -40, 400, -400, 9_000, -9_000),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ do: fc.constant("off" as const), hours: fc.constantFrom(1, 12, 40, 500) }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constantFrom("restart" as const, "confirm" as const) }) },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant("zone" as const),
      zone: fc.constantFrom("Pacific/Kiritimati", "Pacific/Pago_Pago", "Asia/Kolkata", "UTC"),
    }),
  },
);

/** Fails where something was removed that is younger in truth than its period, but for what no machine can notice. */
function requireNothingYoungRemoved(world: World): void {
  const kept = world.made.filter((one) => one.isKept());
  for (const one of world.made.splice(0, world.made.length, ...kept)) {
    if (kept.includes(one)) continue;
    const ageDays = (world.trueMs() - one.trueMs) / DAY_MS;
    // A clock that differs by up to two days is trusted.
    if (ageDays < PERIODS[one.kind] - 2)
      throw new Error(`a ${one.kind} was removed at the age of ${ageDays.toFixed(2)} days`);
  }
}

async function take(world: World, step: Step): Promise<void> {
  if (step.do === "live")
    await live(world, step.hours * HOUR_MS, Math.max(HOUR_MS, (step.hours * HOUR_MS) / 8));
  else if (step.do === "make") world.make(step.kind);
  else if (step.do === "leap") world.setError(step.days * DAY_MS);
  else if (step.do === "off") world.switchOff(step.hours * HOUR_MS);
  else if (step.do === "restart") world.restart();
  else if (step.do === "zone") process.env.TZ = step.zone;
  // An admin confirms a clock that is right.
  else if (world.errorMs() === 0) world.trust().confirm();
  await world.runRetention();
}

/** Puts the clock right, and lets time pass: then everything that the clock has not dated in the future is old. */
async function requireOldRemoved(world: World): Promise<void> {
  world.setError(0);
  world.trust().ages();
  world.trust().confirm();
  const confirmedMs = world.trueMs();
  // What was made under a wrong clock counts as younger, by as long as the clock was wrong at most.
  await live(world, confirmedMs - world.beganMs + 31 * DAY_MS, 20 * HOUR_MS);
  const left = world.made.filter((one: Made) => one.isKept() && one.clockMs <= confirmedMs);
  expect(left.map(({ kind, clockMs }) => [kind, new Date(clockMs).toISOString()])).toEqual([]);
}

test("whatever the clock does, nothing young is removed, and what is old is removed in the end", async () => {
  const zone = process.env.TZ;
  try {
    await fc.assert(
      fc.asyncProperty(fc.array(steps, { minLength: 5, maxLength: 25 }), async (sequence) => {
        const world = openWorld();
        try {
          for (const step of sequence) {
            await take(world, step);
            requireNothingYoungRemoved(world);
          }
          await requireOldRemoved(world);
        } finally {
          open.splice(open.indexOf(world), 1);
          await world.close();
        }
      }),
      { numRuns: Number(process.env.SHRUTI_CLOCK_RUNS ?? 10) },
    );
  } finally {
    if (zone === undefined) delete process.env.TZ;
    else process.env.TZ = zone;
  }
});
