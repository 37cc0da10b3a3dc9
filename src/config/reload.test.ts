import { expect, test } from "bun:test";
import { testConfig } from "../testing/test-config.ts";
import { changesBetween, takeOver } from "./reload.ts";

test("settings that a running server takes over, and settings that need a restart", () => {
  const running = testConfig({ limits: { max_queued: 5 }, server: { listen: "127.0.0.1:1" } });
  const limits = running.limits;
  const wanted = testConfig({
    limits: { max_queued: 6, synchronous_max_receiving: 3 },
    server: { listen: "127.0.0.1:2", trusted_proxies: ["10.0.0.0/8"] },
    billing: { timezone: "Asia/Kathmandu", price_paise_per_audio_hour: 1 },
    models: { languages: { hi: "one" } },
  });
  const changes = changesBetween(running, wanted);
  expect(changes.reloaded.sort()).toEqual([
    "billing.price_paise_per_audio_hour",
    "limits.max_queued",
    "models.languages",
    "server.trusted_proxies",
  ]);
  expect(changes.needRestart.sort()).toEqual([
    "billing.timezone",
    "limits.synchronous_max_receiving",
    "server.listen",
  ]);
  takeOver(running, wanted, changes.reloaded);
  // All who hold a section see the change.
  expect(limits.max_queued).toBe(6);
  expect(running.server).toMatchObject({ listen: "127.0.0.1:1", trusted_proxies: ["10.0.0.0/8"] });
  const left = changesBetween(running, wanted);
  expect([left.reloaded, left.needRestart.sort()]).toEqual([[], changes.needRestart]);
});
