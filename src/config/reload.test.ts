import { expect, test } from "bun:test";
import { openTestApp, type TestApp } from "../testing/kits/open-test-app.ts";
import { begin, clientOf } from "../testing/kits/scheduler-kit.ts";
import { scriptedAudio } from "../testing/kits/scripted-engine.ts";
import { testConfig } from "../testing/kits/test-config.ts";
import { changesBetween, takeOver } from "./reload.ts";
import { type Config, RELOADED_SETTINGS } from "./schema.ts";

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

/** Settings that are read while the server opens, although they are reloaded, and why that captures nothing. */
const READ_AT_START: Readonly<Record<string, string>> = {
  "backup.to": "the state of its folder is read, and read again where it is needed",
  "engine.draft_model": "the models name it when they are listed, and are listed again for each request",
  "intake.folder": "the folders are looked at, and looked at again with the settings of that time",
  "models.default": "the readiness begins with the default model, and looks for it again",
  "storage.ballast_bytes": "the ballast is made, and made again each time that its upkeep looks",
  "storage.reserve_bytes": "the readiness looks at the disk, and looks again",
};

/** Makes a config that notes each setting when it is read. */
function watchedBy(note: (setting: string) => void) {
  return (config: Config): Config =>
    Object.fromEntries(
      Object.entries(config).map(([section, settings]) => [
        section,
        new Proxy(settings, {
          get(target, name, receiver) {
            note(`${section}.${String(name)}`);
            return Reflect.get(target, name, receiver);
          },
        }),
      ]),
    ) as unknown as Config;
}

test("a setting that is reloaded is not captured while the server opens", async () => {
  const read = new Set<string>();
  let isOpen = false;
  const watch = watchedBy((setting) => {
    if (!isOpen) read.add(setting);
  });
  // The first one of a process makes a request for its own tests.
  await (await openTestApp()).close();
  const testApp = await openTestApp({ watch, creditPaise: 0 });
  isOpen = true;
  await testApp.close();
  expect(read.size).toBeGreaterThan(10);
  expect(RELOADED_SETTINGS.filter((name) => read.has(name) && !(name in READ_AT_START))).toEqual([]);
});

/** What clients do that reads most settings. */
async function work(testApp: TestApp): Promise<void> {
  const client = clientOf(testApp);
  await client.finished(await begin(testApp));
  const form = new FormData();
  form.append("language", "hi");
  form.append("file", new File([scriptedAudio({ seconds: 1, text: "हाँ" })], "a.wav"));
  const answers = await Promise.all([
    testApp.as(testApp.key)("/v1/audio/transcriptions", { method: "POST", body: form }),
    ...["/v1/models", "/v1/usage", "/v1/transcriptions", "/metrics", "/readyz"].map((path) =>
      testApp.as(testApp.key)(path, { headers: { origin: "https://app.example" } }),
    ),
  ]);
  expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200));
}

/**
 * What has rounds of its own, and reads these in each. The sweep begins with the server, and its next round is much later;
 * the looks at watched folders come each second (`intake/folders/folders.test.ts` changes their settings in between).
 */
const hasOwnRounds = (name: string) =>
  name.startsWith("retention.") || ["webhooks.keep_days", "intake.folder"].includes(name);

test("a setting that is reloaded is not captured by its first use", async () => {
  let read = new Set<string>();
  const testApp = await openTestApp({ watch: watchedBy((setting) => read.add(setting)) });
  try {
    const rounds: Set<string>[] = [];
    for (const _ of [1, 2]) {
      read = new Set();
      await work(testApp);
      rounds.push(read);
    }
    const [first = [], again = new Set()] = rounds;
    const reloaded = [...first].filter((name) => RELOADED_SETTINGS.includes(name) && !hasOwnRounds(name));
    expect(reloaded.length).toBeGreaterThan(20);
    expect(reloaded.filter((name) => !again.has(name))).toEqual([]);
  } finally {
    await testApp.close();
  }
});
