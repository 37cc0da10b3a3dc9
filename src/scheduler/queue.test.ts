import { expect, test } from "bun:test";
import { clientOf, FOUR_CHUNKS, until } from "../testing/kits/scheduler-kit.ts";
import { scriptedAudio } from "../testing/kits/scripted-engine.ts";
import { testAppOpener } from "../testing/kits/test-app-opener.ts";

const open = testAppOpener();
const TRANSCRIPTIONS = 12;
const TIMEOUT_MS = 60_000;

test(
  "the event loop does other work between any two starts, such as when a fleet brings hundreds of places",
  async () => {
    const testApp = await open({ config: { engine: { workers: 1 } } });
    const release = testApp.engine.hold();
    const client = clientOf(testApp);
    const { id } = await client.upload(scriptedAudio(FOUR_CHUNKS));
    for (let n = 0; n < TRANSCRIPTIONS; n++) await client.start({ audio: { upload_id: id }, language: "hi" });
    const { scheduler } = testApp.app;
    const running = () => scheduler.status().running;
    await until("some are started in advance", () => running() > 1);
    expect(running()).toBeLessThan(TRANSCRIPTIONS / 2);

    const startsInOneTurn: number[] = [];
    let before = running();
    scheduler.resize({ chunks: 2 * TRANSCRIPTIONS, power: 1, isElastic: false });
    while (before < TRANSCRIPTIONS) {
      await new Promise((resolve) => setImmediate(resolve));
      startsInOneTurn.push(running() - before);
      before = running();
    }
    release();
    expect(Math.max(...startsInOneTurn)).toBe(1);
  },
  TIMEOUT_MS,
);
