import { expect, test } from "bun:test";
import { openTestApp } from "../../testing/kits/open-test-app.ts";
import { begin, forever, until, watchChunks } from "../../testing/kits/scheduler-kit.ts";
import { queueNumbersOf } from "./program-numbers.ts";

test("the metrics and what `shruti status` reads have the same numbers", async () => {
  const testApp = await openTestApp({ config: { engine: { workers: 1 }, server: { drain_seconds: 0 } } });
  try {
    watchChunks(testApp.engine, (_chunk, signal) => forever(signal));
    await begin(testApp);
    await begin(testApp);
    await until("one runs", () => testApp.app.scheduler.status().slots.waiting > 0);
    const text = await (await testApp.fetch("/metrics")).text();
    const metric = (name: string) =>
      Number(new RegExp(`^shruti_${name.replaceAll(/[{}]/g, "\\$&")} (\\S+)$`, "m").exec(text)?.[1]);
    const { unfinished, ...queue } = queueNumbersOf(testApp.app.status());
    expect({
      ...{ places: metric("engine_places"), placesBusy: metric("engine_places_busy") },
      chunksWaiting: metric("engine_chunks_waiting"),
      synchronousPlacesTaken: metric("synchronous_places_taken"),
      emptyInSeconds: metric("queue_empty_in_seconds"),
      realTimeFactor: metric("engine_real_time_factor") || null,
    }).toEqual({
      ...{ places: queue.places, placesBusy: queue.placesBusy, chunksWaiting: queue.chunksWaiting },
      synchronousPlacesTaken: queue.synchronousPlacesTaken,
      ...{ emptyInSeconds: queue.emptyInSeconds, realTimeFactor: queue.realTimeFactor },
    });
    const states = Object.entries(unfinished).map(([state]) =>
      metric(`transcriptions_unfinished{state="${state}"}`),
    );
    expect(states).toEqual(Object.values(unfinished));
    expect(queue.running + unfinished.queued).toBe(2);
  } finally {
    await testApp.close();
  }
});
