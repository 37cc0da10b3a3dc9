import { expect, test } from "bun:test";
import { silentLog } from "../lib/log.ts";
import { createUpgradeHold } from "./upgrade-hold.ts";

test("without an upgrade nothing waits", () => {
  const hold = createUpgradeHold(silentLog, undefined);
  let ran = 0;
  hold.whenOver(() => ran++);
  hold.start(() => false);
  expect([hold.isHeld(), ran]).toEqual([false, 1]);
});

test("work waits until the server is ready and the upgrade confirmed, in this order; a failure is repeated", async () => {
  const events: string[] = [];
  let isReady = false;
  let failures = 1;
  const hold = createUpgradeHold(silentLog, {
    confirm() {
      if (failures-- > 0) throw new Error("full disk");
      events.push("confirmed");
    },
  });
  hold.whenOver(() => events.push("work"));
  hold.start(() => isReady);
  await Bun.sleep(250);
  expect([hold.isHeld(), events]).toEqual([true, []]);
  isReady = true;
  while (hold.isHeld()) await Bun.sleep(10);
  expect(events).toEqual(["confirmed", "work"]);
  hold.whenOver(() => events.push("later"));
  expect(events.at(-1)).toBe("later");
});

test("a server that never gets ready accepts work after a time; a stopped one does not", async () => {
  const late = createUpgradeHold(silentLog, { confirm() {} }, 200);
  late.start(() => false);
  const stopped = createUpgradeHold(silentLog, { confirm() {} }, 200);
  stopped.start(() => true);
  stopped.stop();
  await Bun.sleep(600);
  expect([late.isHeld(), stopped.isHeld()]).toEqual([false, true]);
});
