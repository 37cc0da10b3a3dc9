import { describe, expect, test } from "bun:test";
import { EngineError } from "../engine/protocol.ts";
import { silentLog } from "../lib/log.ts";
import { isDiskFull } from "../store/disk-full.ts";
import { withRetries } from "./retry.ts";
import { MAX_INTERRUPTIONS } from "./retry-policy.ts";

const tools = { log: silentLog, isWaitedOut: isDiskFull };
const NO_PAUSE_MS = 0;

const diskFull = new EngineError(
  "interrupted",
  "The disk is full.",
  Object.assign(new Error(), { reason: "disk_full" }),
);
const interrupted = new EngineError("interrupted", "the worker was stopped");
const broken = new EngineError("crashed", "the worker ended");

/** Runs work that fails with these errors, one after the other, and then succeeds. Counts its attempts. */
async function attemptsOf(...errors: EngineError[]): Promise<{ attempts: number; outcome: unknown }> {
  let attempts = 0;
  const work = async () => {
    const error = errors[attempts++];
    if (error) throw error;
    return "done";
  };
  const { signal } = new AbortController();
  const outcome = await withRetries(tools, signal, work, NO_PAUSE_MS).catch((error) => error);
  return { attempts, outcome };
}

const times = (count: number, error: EngineError): EngineError[] => Array(count).fill(error);

describe("work on a recording", () => {
  test("is repeated as often as its failures allow", async () => {
    expect(await attemptsOf(...times(2, broken))).toEqual({ attempts: 3, outcome: "done" });
    expect(await attemptsOf(...times(9, broken))).toEqual({ attempts: 3, outcome: broken });
    expect(await attemptsOf(...times(MAX_INTERRUPTIONS, interrupted))).toMatchObject({ outcome: "done" });
    expect(await attemptsOf(...times(99, interrupted))).toEqual({
      attempts: MAX_INTERRUPTIONS + 1,
      outcome: interrupted,
    });
  });

  test("is repeated without limit while the disk is full; that does not count as a failure", async () => {
    const long = times(3 * MAX_INTERRUPTIONS, diskFull);
    expect(await attemptsOf(...long)).toMatchObject({ outcome: "done" });
    expect(await attemptsOf(...long, interrupted, broken, broken)).toMatchObject({ outcome: "done" });
  });

  test("ends at once where another attempt cannot help", async () => {
    const unusable = new EngineError("unusable_model", "not a model");
    expect(await attemptsOf(unusable)).toEqual({ attempts: 1, outcome: unusable });
    const stop = new AbortController();
    const reason = new Error("cancelled");
    const work = async () => {
      stop.abort(reason);
      throw interrupted;
    };
    expect(await withRetries(tools, stop.signal, work).catch((error) => error)).toBe(interrupted);
  });
});
