import { expect, test } from "bun:test";
import packageJson from "../../../package.json" with { type: "json" };
import { openTestApp } from "../../testing/kits/open-test-app.ts";
import { begin, clientOf, forever, until, watchChunks } from "../../testing/kits/scheduler-kit.ts";
import { scriptedAudio } from "../../testing/kits/scripted-engine.ts";

/** Returns the values of the exposition format by name and labels. */
async function numbersOf(send: () => Promise<Response>): Promise<Map<string, number>> {
  const text = await (await send()).text();
  const lines = text.split("\n").filter((line) => line !== "" && !line.startsWith("#"));
  return new Map(lines.map((line) => [line.slice(0, line.lastIndexOf(" ")), Number(line.split(" ").at(-1))]));
}

test("the metrics of queue, engine and deliveries have names of their kinds, and follow the work", async () => {
  const testApp = await openTestApp({ config: { engine: { workers: 1 } } });
  try {
    const numbers = () => numbersOf(() => testApp.fetch("/metrics"));
    const idle = await numbers();
    expect(idle.get('shruti_transcriptions_unfinished{state="queued"}')).toBe(0);
    expect(idle.get("shruti_engine_places")).toBe(1);
    expect(idle.get("shruti_engine_real_time_factor")).toBe(0);
    expect(idle.get('shruti_webhook_attempts_total{outcome="succeeded"}')).toBe(0);
    expect(idle.get("shruti_webhook_deliveries_failed_total")).toBe(0);
    expect(idle.get('shruti_webhook_deliveries{state="pending"}')).toBe(0);
    expect([...idle.keys()].filter((name) => name.startsWith("shruti_webhooks"))).toEqual([]);

    watchChunks(testApp.engine, (_chunk, signal) => forever(signal));
    const id = await begin(testApp);
    await until("it runs", () => testApp.app.scheduler.status().slots.running === 1);
    await Bun.sleep(300);
    const busy = await numbers();
    expect(busy.get('shruti_transcriptions_unfinished{state="transcribing"}')).toBe(1);
    expect(busy.get("shruti_engine_places_busy")).toBe(1);
    expect(busy.get("shruti_engine_chunks_waiting")).toBe(1);
    expect(busy.get("shruti_queue_empty_in_seconds")).toBeGreaterThan(0);
    await clientOf(testApp).cancel(id);
    const after = await numbers();
    expect(after.get('shruti_transcriptions_finished_total{state="cancelled"}')).toBe(1);
    expect(after.get('shruti_transcriptions_finished_total{state="completed"}')).toBe(0);
    expect(after.get("shruti_audio_seconds_total")).toBe(0);
  } finally {
    await testApp.close();
  }
});

test("finished work is counted", async () => {
  const testApp = await openTestApp();
  try {
    const { status } = await clientOf(testApp).transcribe(scriptedAudio({ seconds: 2, text: "एक" }), {
      language: "hi",
    });
    expect(status).toBe("completed");
    const numbers = await numbersOf(() => testApp.fetch("/metrics"));
    expect(numbers.get('shruti_transcriptions_finished_total{state="completed"}')).toBe(1);
    expect(numbers.get("shruti_audio_seconds_total")).toBe(2);
  } finally {
    await testApp.close();
  }
});

test("the process reports itself under the usual metric names, and only with true values", async () => {
  const testApp = await openTestApp();
  try {
    const numbers = await numbersOf(() => testApp.fetch("/metrics"));
    expect(numbers.get(`shruti_build_info{version="${packageJson.version}"}`)).toBe(1);
    const startedAt = numbers.get("process_start_time_seconds") ?? 0;
    expect(Math.abs(startedAt - (Date.now() / 1000 - process.uptime()))).toBeLessThan(2);
    const { user, system } = process.cpuUsage();
    const seconds = numbers.get("process_cpu_seconds_total") ?? 0;
    expect(seconds).toBeLessThanOrEqual((user + system) / 1e6);
    expect(seconds).toBeGreaterThan((user + system) / 1e6 - 5);
    expect(numbers.get("process_resident_memory_bytes")).toBeGreaterThan(10_000_000);
    if (process.platform === "linux") expect(numbers.get("process_open_fds")).toBeGreaterThan(3);
    expect(numbers.get("shruti_disk_free_bytes")).toBeGreaterThan(0);
    expect([...numbers.keys()].filter((name) => /nodejs|_process_/.test(name))).toEqual([]);
    for (const [name, value] of numbers) expect([name, Number.isFinite(value)]).toEqual([name, true]);
  } finally {
    await testApp.close();
  }
});

test("counters only rise, however often they are read", async () => {
  const testApp = await openTestApp();
  try {
    const totals = async () => {
      const numbers = await numbersOf(() => testApp.fetch("/metrics"));
      return [...numbers].filter(([name]) => /^shruti_webhook\w+_total/.test(name));
    };
    const first = await totals();
    expect(first.length).toBe(4);
    expect(await totals()).toEqual(first);
  } finally {
    await testApp.close();
  }
});
