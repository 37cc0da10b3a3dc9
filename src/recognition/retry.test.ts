import { describe, expect, test } from "bun:test";
import { EngineError } from "../engine/protocol.ts";
import { silentLog } from "../lib/log.ts";
import { isOutOfRoom } from "../store/out-of-room.ts";
import { MAX_INTERRUPTIONS } from "./context.ts";
import { withRetries } from "./retry.ts";

const tools = { log: silentLog, isWaitedOut: isOutOfRoom };
const NO_PAUSE_MS = 0;

const withoutRoom = new EngineError(
  "interrupted",
  "There is no room.",
  Object.assign(new Error(), { reason: "no_room" }),
);
const interrupted = new EngineError("interrupted", "the worker was stopped");
const broken = new EngineError("crashed", "the worker ended");

/** How often work is tried that fails in these ways, one after the other, and then succeeds. */
async function triesOf(...errors: EngineError[]): Promise<{ tries: number; outcome: unknown }> {
  let tries = 0;
  const work = async () => {
    const error = errors[tries++];
    if (error) throw error;
    return "done";
  };
  const { signal } = new AbortController();
  const outcome = await withRetries(tools, signal, work, NO_PAUSE_MS).catch((error) => error);
  return { tries, outcome };
}

const times = (count: number, error: EngineError): EngineError[] => Array(count).fill(error);

describe("work on a recording", () => {
  test("is tried again so often as its failures allow", async () => {
    expect(await triesOf(...times(2, broken))).toEqual({ tries: 3, outcome: "done" });
    expect(await triesOf(...times(9, broken))).toEqual({ tries: 3, outcome: broken });
    expect(await triesOf(...times(MAX_INTERRUPTIONS, interrupted))).toMatchObject({ outcome: "done" });
    expect(await triesOf(...times(99, interrupted))).toEqual({
      tries: MAX_INTERRUPTIONS + 1,
      outcome: interrupted,
    });
  });

  test("waits for room on the disk for as long as it takes, which counts as no failure", async () => {
    const long = times(3 * MAX_INTERRUPTIONS, withoutRoom);
    expect(await triesOf(...long)).toMatchObject({ outcome: "done" });
    expect(await triesOf(...long, interrupted, broken, broken)).toMatchObject({ outcome: "done" });
  });

  test("ends at once where trying again cannot help", async () => {
    const unusable = new EngineError("unusable_model", "not a model");
    expect(await triesOf(unusable)).toEqual({ tries: 1, outcome: unusable });
    const stop = new AbortController();
    const reason = new Error("cancelled");
    const work = async () => {
      stop.abort(reason);
      throw interrupted;
    };
    expect(await withRetries(tools, stop.signal, work).catch((error) => error)).toBe(interrupted);
  });
});
