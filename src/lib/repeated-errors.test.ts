import { expect, test } from "bun:test";
import { openLog } from "./log.ts";
import { createRepeatedErrors } from "./repeated-errors.ts";

const full = () => Object.assign(new Error("disk is full"), { code: "SQLITE_FULL" });

/** Opens a log with the filter, and a clock that the test advances. */
function open() {
  const lines: Record<string, unknown>[] = [];
  let nowMs = 0;
  const stateOf = ({ err, state }: Record<string, unknown>) =>
    typeof state === "string"
      ? state
      : (err as { code?: string })?.code === "SQLITE_FULL"
        ? "full"
        : undefined;
  const filter = createRepeatedErrors(stateOf, () => nowMs);
  const log = openLog("info", "json", (line) => lines.push(JSON.parse(line)), false, filter);
  return {
    log,
    lines,
    pass: (ms: number) => {
      nowMs += ms;
    },
  };
}

test("of errors that a lasting state repeats, the first is logged, and then their number every five minutes", () => {
  const { log, lines, pass } = open();
  const child = log.child({ transcription_id: "tr_1" });
  for (let second = 0; second < 601; second++) {
    log.error({ err: full() }, "a chunk cannot be stored");
    child.error({ err: full() }, "a transcription cannot be handed back");
    pass(1_000);
  }
  expect(lines.map(({ msg, repeated }) => [msg, repeated])).toEqual([
    ["a chunk cannot be stored", undefined],
    ["a transcription cannot be handed back", undefined],
    ["a chunk cannot be stored", 300],
    ["a transcription cannot be handed back", 300],
    ["a chunk cannot be stored", 300],
    ["a transcription cannot be handed back", 300],
  ]);
  expect(JSON.stringify(lines[0])).toContain("stack");
  expect(JSON.stringify(lines[2])).not.toContain("stack");
  expect(lines[5]).toMatchObject({ level: "error", transcription_id: "tr_1", state: "full" });
});

test("other lines are logged as they are, and a state that returns after a while as if it were new", () => {
  const { log, lines, pass } = open();
  for (let n = 0; n < 3; n++) log.error({ err: new Error("other") }, "it failed");
  for (let n = 0; n < 3; n++) log.info("a line without fields");
  log.error({ state: "full", fault: "a" }, "a request failed");
  log.error({ state: "full", fault: "b" }, "a request failed");
  expect(lines.length).toBe(7);
  pass(3_600_000);
  log.error({ err: full() }, "a chunk cannot be stored");
  expect(lines.at(-1)).toMatchObject({ msg: "a chunk cannot be stored", err: { message: "disk is full" } });
});
