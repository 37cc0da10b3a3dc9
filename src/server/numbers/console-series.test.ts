import { expect, test } from "bun:test";
import { createSeries, type SeriesSample } from "./console-series.ts";

const SAMPLE: SeriesSample = {
  ...{ finished: 1, failed: 0, requests: 5, serverErrors: 0, queued: 3, busy: 0.5, realTimeFactor: 40 },
  ...{ memoryBytes: 1000, diskFreeBytes: 2000 },
};
const START = Date.UTC(2026, 10, 22, 10);

test("a step of the day adds up what the samples counted, and averages shares", () => {
  const series = createSeries(START);
  series.add(START + 1, SAMPLE);
  series.add(START + 10_001, { ...SAMPLE, queued: 1, busy: 1, realTimeFactor: null, memoryBytes: 1500 });
  const day = series.read("day");
  expect([day.at.at(-1), day.step_seconds]).toEqual([(START + 300_000) / 1000, 300]);
  expect(day).toMatchObject({ object: "console.series", span: "day" });
  const last = Object.fromEntries(
    Object.entries(day).flatMap(([name, column]) => (Array.isArray(column) ? [[name, column.at(-1)]] : [])),
  );
  expect(last).toMatchObject({
    ...{
      queued: 3,
      busy: 0.75,
      real_time_factor: 40,
      finished: 2,
      failed: 0,
      requests: 10,
      server_errors: 0,
    },
    ...{ server_memory_bytes: 1500, disk_free_bytes: 2000 },
  });
  expect(series.read("hour").queued.slice(-2)).toEqual([3, 1]);
});

test("times without samples are null, and a long run keeps no more than its steps", () => {
  const series = createSeries(START);
  for (let ms = START; ms < START + 30 * 3_600_000; ms += 10_000) series.add(ms, SAMPLE);
  const hour = series.read("hour");
  expect(hour.at).toHaveLength(360);
  expect(hour.queued.every((value) => value === 3)).toBe(true);
  series.add(START + 40 * 3_600_000, SAMPLE);
  expect(series.read("hour").queued.filter((value) => value !== null)).toHaveLength(1);
  expect(series.read("day").queued.filter((value) => value === null).length).toBeGreaterThan(100);
});
