import { afterEach, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TranscriptionResult } from "../http/wire/schemas.ts";
import { sha256OfFile } from "../store/file-hash.ts";
import { copyOfFleet, WORKER_WITHOUT_SKILLS } from "../testing/boxes/changed-program.ts";
import { NATS_SERVER } from "../testing/boxes/nats-server.ts";
import { installFleet, SCRIPTED_WORKER, workersPresent } from "./fleet-kit.ts";
import { reached, until, uploaded } from "./kit.ts";
import { sampleBytes, wordsIn } from "./samples.ts";

/**
 * Word times where one worker of a fleet is too old for them: the executable as control plane and as worker, and the worker's code
 * without skills, which says so by its words: it gives chunks another text.
 */

const fleetTest = NATS_SERVER === undefined ? test.skip : test;
const TIMEOUT_MS = 240_000;
const DEMO = join(import.meta.dirname, "../../models/demo.bin");
const SAMPLE = "04-en";
const SYNCHRONOUS_SECONDS = 10;
const PROBLEM = "no worker of the fleet is new enough to give words times";

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

/** Opens a fleet with both kinds of worker, which are not started. */
async function openFleet() {
  const folder = mkdtempSync(join(tmpdir(), "shruti-older-"));
  cleanups.push(() => rmSync(folder, { recursive: true }));
  const fleet = await installFleet({
    environment: {
      SHRUTI_CAPABILITIES_WORD_TIMESTAMPS: "true",
      SHRUTI_LIMITS_SYNCHRONOUS_TIMEOUT_SECONDS: String(SYNCHRONOUS_SECONDS),
      SHRUTI_LIMITS_REQUESTS_PER_SECOND: "0",
    },
  });
  cleanups.push(fleet.remove);
  const copy = copyOfFleet(join(folder, "program"), WORKER_WITHOUT_SKILLS, [SCRIPTED_WORKER]);
  const script = { modelSha256: await sha256OfFile(DEMO), places: 4, meanMs: 20 };
  const older = await fleet.addWorker("older", { path: join(copy, SCRIPTED_WORKER), script });
  return { fleet, older, able: await fleet.addWorker("able") };
}

/** Expects the words of the recording, each with its times, as the executable gives them. */
function expectTimed({ text, segments, warnings }: TranscriptionResult): void {
  expect(text).toBe(wordsIn(SAMPLE));
  expect(warnings).not.toContain("word_times_missing");
  let last = 0;
  for (const segment of segments) {
    expect(segment.words?.map((word) => word.text).join(" ")).toBe(segment.text);
    for (const { start, end } of segment.words ?? []) {
      expect(start).toBeGreaterThanOrEqual(last);
      expect(end).toBeGreaterThan(start);
      last = end;
    }
  }
  expect(last).toBeGreaterThan(0);
}

fleetTest(
  "a worker that is too old for word times recognizes without them; requests with them wait for another one (needs nats-server)",
  async () => {
    const { fleet, older, able } = await openFleet();
    const server = await fleet.serve();
    const api = server.api();
    const bytes = sampleBytes(SAMPLE);
    const upload_id = await uploaded(api, bytes);
    const begin = async (timestamps: "word" | "segment") =>
      (await api.start({ audio: { upload_id }, language: "en", timestamps })).body.id;
    const problem = async () =>
      (await fleet.json<{ server: { models: { problem?: string }[] } }>("status")).server.models[0]?.problem;

    older.start();
    await server.ready();
    await workersPresent(fleet, 1);
    const plain = await api.transcribe(bytes, { language: "en" });
    expect(plain.segments.length).toBeGreaterThan(0);
    expect(plain.text).not.toBe(wordsIn(SAMPLE));

    // Only the old worker is there: the words wait, and a client that waits for its answer gets the code for that.
    const waiting = await begin("word");
    await until("the log says why", () => server.log().includes("chunks wait whose words are to have times"));
    await until("the status says why", async () => (await problem()) === PROBLEM);
    await expect(api.transcribe(bytes, { language: "en", timestamps: "word" })).rejects.toThrow(
      /504 timeout/,
    );
    const between = await begin("segment");
    await reached(api, between);
    expect((await api.result(between)).text).toBe(plain.text);
    expect((await api.get(waiting)).state).toBe("transcribing");

    able.start();
    await reached(api, waiting);
    expectTimed(await api.result(waiting));
    expect(await problem()).toBeUndefined();
    await workersPresent(fleet, 2);
    const both = await Promise.all(Array.from({ length: 6 }, () => begin("word")));
    const answers = both.map(async (id) => (await reached(api, id)) && api.result(id));
    for (const result of await Promise.all(answers)) expectTimed(result);
    expectTimed(await api.transcribe(bytes, { language: "en", timestamps: "word" }));

    // When the able one is lost, its words are not left to the old one.
    await able.signal("SIGKILL");
    const interrupted = await begin("word");
    await workersPresent(fleet, 1);
    await until("words wait again", async () => (await problem()) === PROBLEM);
    expect((await api.get(interrupted)).state).toBe("transcribing");
    able.start();
    await reached(api, interrupted);
    expectTimed(await api.result(interrupted));
    expect((await fleet.fleet()).results.refused).toBe(0);
    expect(await server.stop()).toBe(0);
  },
  TIMEOUT_MS,
);
