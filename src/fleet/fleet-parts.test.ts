import { describe, expect, test } from "bun:test";
import { X509Certificate } from "node:crypto";
import { modelHashOf } from "../domain/model-hash.ts";
import { createSuspects } from "./control/suspects.ts";
import { jobIdOf } from "./job-id.ts";
import type { Link } from "./link.ts";
import {
  type Beat,
  faultOf,
  MessageError,
  PROTOCOL,
  readBeat,
  readDone,
  readTicket,
  write,
} from "./messages.ts";
import { makeAuthority, makeServerCertificate } from "./setup/certificates.ts";
import { workerRights } from "./setup/nats-config.ts";
import { subjectsOf } from "./subjects.ts";
import { createJobTokens } from "./tokens.ts";
import { createHealth } from "./worker/health.ts";
import { createOfferedModels } from "./worker/offered-models.ts";
import { createPulling } from "./worker/pulling.ts";

/** Parts of a fleet that need no messaging server. */

const encode = (value: unknown) => new TextEncoder().encode(JSON.stringify(value));
const JOB = "a".repeat(32);

describe("messages", () => {
  const beat: Beat = {
    ...{
      v: PROTOCOL,
      instance: "0".repeat(16),
      version: "1",
      device: "cpu",
      places: 2,
      synchronous_places: 1,
    },
    ...{ models: [{ sha256: "b".repeat(64), id: "demo", usable: true }], jobs: [JOB], draining: false },
  };

  test("are read as they were written, and unknown fields are ignored", () => {
    expect(readBeat(write(beat))).toEqual(beat);
    expect(readBeat(encode({ ...beat, later: 1 }))).toMatchObject(beat);
  });

  test("say of a worker only what can be shown in one line", () => {
    const [wild, shown] = ["x\u001b[2J\n\u009by", "x?[2J??y"];
    const said = (text: string): Beat => ({
      ...{ ...beat, version: text, device: text, problem: text },
      ...{
        models: [{ sha256: "b".repeat(64), id: text, usable: true }],
        lacking: [{ id: text, reason: text }],
      },
    });
    expect(readBeat(encode(said(wild)))).toEqual(said(shown));
    const done = { v: PROTOCOL, job: JOB, attempt: "0".repeat(16), proof: "x".repeat(43) };
    expect(readDone(encode({ ...done, failed: { kind: "failed", reason: wild } })).failed?.reason).toBe(
      shown,
    );
  });

  test.each([
    ["another protocol", { ...beat, v: PROTOCOL + 1 }],
    ["no protocol", { ...beat, v: undefined }],
    ["a job that is not a job", { ...beat, jobs: ["../x"] }],
    ["too many jobs", { ...beat, jobs: Array.from({ length: 5_000 }, () => JOB) }],
    ["negative places", { ...beat, places: -1 }],
    ["a speed that no machine has", { ...beat, speed: 1e300 }],
    ["a list", [beat]],
    ["null", null],
  ])("with %s are refused", (_, value) => {
    expect(() => readBeat(encode(value))).toThrow(MessageError);
  });

  test("that are not JSON, not UTF-8 or too large are refused", () => {
    for (const data of [new Uint8Array([0xff]), new TextEncoder().encode("{"), new Uint8Array(300_000)]) {
      expect(() => readBeat(data)).toThrow(MessageError);
      expect(() => readTicket(data)).toThrow(MessageError);
    }
    const done = { v: PROTOCOL, job: JOB, attempt: "0".repeat(16), proof: "x".repeat(43) };
    expect(() => readDone(encode(done))).toThrow(MessageError);
    const failed = { kind: "failed", reason: "r" };
    const outcome = { segments: [], elapsed_ms: 1 };
    expect(() => readDone(encode({ ...done, failed, outcome }))).toThrow(MessageError);
    expect(readDone(encode({ ...done, failed })).failed?.kind).toBe("failed");
  });

  // The control plane reads them in the thread that answers requests.
  const BYTES = 256 * 1024;
  const filled = (before: string, piece: string, after: string) =>
    before + piece.repeat(Math.floor((BYTES - before.length - after.length) / piece.length)) + after;
  test.each([
    ["brackets", filled("", "[", "")],
    ["pairs of brackets", "[".repeat(BYTES / 2) + "]".repeat(BYTES / 2)],
    ["objects in each other", '{"a":'.repeat(40_000) + "1".padEnd(40_001, "}")],
    ["empty objects", filled(`{"v":${PROTOCOL},"models":[`, "{},", "{}]}")],
    ["short texts", filled(`{"v":${PROTOCOL},"jobs":[`, '"a",', '"a"]}')],
    ["numbers", filled("[", "1e308,", "1]")],
  ])("that consist of %s are refused within 50 ms of the processor's time", (_, text) => {
    const data = new TextEncoder().encode(text);
    for (const read of [readBeat, readDone, readTicket]) {
      const { user, system } = process.threadCpuUsage();
      expect(() => read(data)).toThrow(MessageError);
      const after = process.threadCpuUsage();
      expect((after.user + after.system - user - system) / 1000).toBeLessThan(50);
    }
  });

  test("a result must lie within its audio and window", () => {
    const segment = { startMs: 0, endMs: 29_900, text: "t", language: "en", confidence: 1 };
    const bounds = { audioMs: 4_000, windowMs: 30_000 };
    expect(faultOf({ segments: [segment], elapsed_ms: 1 }, bounds)).toBeUndefined();
    for (const wrong of [
      { endMs: 31_001 },
      { startMs: -1 },
      { startMs: 5, endMs: 4 },
      { endMs: Number.NaN },
    ]) {
      expect(faultOf({ segments: [{ ...segment, ...wrong }], elapsed_ms: 1 }, bounds)).toBeDefined();
    }
  });

  test("the words of a result are within its segments, in order, and no more than the text", () => {
    const bounds = { audioMs: 5_000, windowMs: 30_000 };
    const segment = { startMs: 1_000, endMs: 4_000, text: "one two", language: "en", confidence: 1 };
    const word = (text: string, startMs: number, endMs: number) => ({ text, startMs, endMs, confidence: 1 });
    const faultWith = (...words: ReturnType<typeof word>[]) =>
      faultOf({ segments: [{ ...segment, words }], elapsed_ms: 1 }, bounds);
    expect(faultWith(word("one", 1_000, 2_000), word("two", 2_000, 4_000))).toBeUndefined();
    expect(faultWith()).toBeUndefined();
    for (const wrong of [
      [word("one", 999, 2_000)],
      [word("one", 1_000, 4_001)],
      [word("one", 2_000, 1_500)],
      [word("one", 2_000, 3_000), word("two", 2_999, 3_500)],
      [word("onetwothree", 1_000, 2_000)],
      [word("one", Number.NaN, 2_000)],
    ]) {
      expect(faultWith(...wrong)).toBeDefined();
    }
    const head = { v: PROTOCOL, job: JOB, attempt: "0".repeat(16), proof: "p".repeat(43) };
    const read = (words: unknown) =>
      readDone(encode({ ...head, outcome: { segments: [{ ...segment, words }], elapsed_ms: 1 } }));
    expect(read([word("one", 1_000, 2_000)]).outcome?.segments[0]?.words).toHaveLength(1);
    for (const wrong of [
      [{ ...word("one", 1_000, 2_000), confidence: 2 }],
      [word("one two", 1_000, 2_000)],
      [word("", 1_000, 2_000)],
      [{ text: "one" }],
      Array(2_001).fill(word("o", 1_000, 1_000)),
      "one",
    ]) {
      expect(() => read(wrong)).toThrow(MessageError);
    }
  });
});

test("tokens hold for one job, ten minutes and one purpose", () => {
  let now = 1_000;
  const tokens = createJobTokens("secret", () => now);
  const token = tokens.token("audio", JOB);
  const other = "c".repeat(32);
  expect(tokens.opens("audio", JOB, token)).toBe(true);
  expect(tokens.opens("audio", other, token)).toBe(false);
  expect(createJobTokens("another", () => now).opens("audio", JOB, token)).toBe(false);
  for (const wrong of ["", ".", `${token}x`, `9${token}`, `${token}.x`, token.replace(/^\d+/, "Infinity")]) {
    expect(tokens.opens("audio", JOB, wrong)).toBe(false);
  }
  expect(tokens.opens("model", JOB, token)).toBe(false);
  expect(tokens.opens("model", JOB, tokens.token("model", JOB))).toBe(true);
  expect(tokens.proves(JOB, tokens.proof(JOB))).toBe(true);
  expect(tokens.proves(other, tokens.proof(JOB))).toBe(false);
  expect(tokens.proves(JOB, token.split(".")[1] ?? "")).toBe(false);
  now += 600_000;
  expect(tokens.opens("audio", JOB, token)).toBe(false);
});

test("a job is named by audio, model and settings, and not by how it is run", () => {
  const job = {
    model: { id: "m", version: "1", family: "whisper" as const, files: {} },
    ...{
      windowMs: 30_000,
      settings: { language: "en" },
      audio: { pcmPath: "/p", slices: [], totalSamples: 5 },
    },
  };
  const id = jobIdOf(job, "h");
  expect(id).toMatch(/^[0-9a-f]{32}$/);
  expect(jobIdOf({ ...job, settings: { language: "hi" } }, "h")).not.toBe(id);
  expect(jobIdOf({ ...job, audio: { ...job.audio, pcmPath: "/q" } }, "h")).not.toBe(id);
  expect(jobIdOf(job, "i")).not.toBe(id);
  const parts = [
    { role: "model", name: "a", sha256: "1" },
    { role: "tokens", name: "b", sha256: "2" },
  ];
  expect(modelHashOf({ sha256: "1" })).toBe("1");
  expect(modelHashOf({ sha256: "1", parts })).toBe(modelHashOf({ sha256: "1", parts: parts.toReversed() }));
  const others = parts.map((part) => ({ ...part, sha256: `${part.sha256}0` }));
  expect(modelHashOf({ sha256: "1", parts: others })).not.toBe(modelHashOf({ sha256: "1", parts }));
});

describe("suspects", () => {
  test("a chunk whose machines are lost one after the other is guilty at the second", () => {
    const suspects = createSuspects();
    suspects.lost(0);
    expect(suspects.blame(JOB, 0)).toBe(false);
    expect(suspects.isSuspect(JOB)).toBe(true);
    suspects.lost(3_000);
    expect(suspects.blame(JOB, 3_000)).toBe(true);
    expect(suspects.isGuilty(JOB)).toBe(true);
  });

  test("chunks of machines that are lost together are not suspect, and recognized ones are no longer", () => {
    const suspects = createSuspects();
    suspects.lost(0);
    suspects.lost(900);
    expect([suspects.blame(JOB, 0), suspects.blame(JOB, 900), suspects.isSuspect(JOB)]).toEqual([
      false,
      false,
      false,
    ]);
    suspects.lost(5_000);
    suspects.blame(JOB, 5_000);
    expect(suspects.isSuspect(JOB)).toBe(true);
    suspects.clear(JOB);
    expect(suspects.isSuspect(JOB)).toBe(false);
  });

  test("a chunk is not suspect any more when another machine turns out to be lost at the same time", () => {
    const suspects = createSuspects();
    suspects.lost(0);
    suspects.blame(JOB, 0);
    // Noticed a tick later.
    suspects.lost(900);
    expect([suspects.blame("other", 900), suspects.isSuspect(JOB), suspects.isSuspect("other")]).toEqual([
      false,
      false,
      false,
    ]);
    suspects.lost(10_000);
    expect(suspects.blame(JOB, 10_000)).toBe(false);
    suspects.lost(20_000);
    expect(suspects.blame(JOB, 20_000)).toBe(true);
  });
});

test("a worker that fails at every chunk rests for longer and longer", () => {
  let now = 0;
  const health = createHealth("chunks", () => now);
  const fail = () => health.observe("failed");
  for (const _ of [1, 2]) fail();
  expect(health.isResting()).toBe(false);
  fail();
  expect(health.problem()).toContain("3 chunks");
  now += 2_000;
  expect(health.isResting()).toBe(false);
  fail();
  now += 2_000;
  expect(health.isResting()).toBe(true);
  now += 2_000;
  health.observe("done");
  fail();
  expect(health.isResting()).toBe(false);
});

test("a worker that can still recognize silence rests for a short time only, as often as chunks fail", () => {
  let now = 0;
  const health = createHealth("chunks", () => now);
  for (let n = 0; n < 10; n++) health.observe("failed");
  now += 50_000;
  expect(health.isResting()).toBe(true);
  health.acquit();
  now += 2_000;
  expect(health.isResting()).toBe(false);
  for (let n = 0; n < 10; n++) {
    health.observe("failed");
    expect(health.isResting()).toBe(true);
    health.acquit();
    now += 2_000;
    expect(health.isResting()).toBe(false);
  }
});

test("a worker whose process ends with several chunks does not rest: each of them runs alone next", () => {
  const health = createHealth();
  for (let n = 0; n < 8; n++) health.observe("suspect");
  expect(health.isResting()).toBe(false);
});

describe("asking for tickets", () => {
  /** The server's answer at the end of a wait. */
  const EMPTY = { subject: "", data: new Uint8Array(), status: 408 };
  /** More would keep the event loop busy. A test cannot time out then, so the calls end. */
  const MANY = 1_000;

  const pullingWith = (pull: Link["pull"]) =>
    createPulling({
      link: { publish: () => {}, pull },
      subjects: subjectsOf("main"),
      offers: () => [{ hash: "b".repeat(64) }],
      mayPull: () => true,
      run: async () => {},
      onBadTicket: () => {},
    });

  test.each([
    [
      "the link is down after a dial that timed out",
      () => Promise.reject(new Error("not connected: timeout")),
    ],
    ["there is no consumer", () => Promise.reject(new Error("no responders"))],
    ["the server has too many requests", async () => ({ subject: "", data: new Uint8Array(), status: 409 })],
  ])("pauses when requests fail at once, because %s", async (_, answer) => {
    let calls = 0;
    const pulling = pullingWith(() => (++calls < MANY ? answer() : new Promise<never>(() => {})));
    pulling.setPlaces({ a: 1, s: 0, prepare: 0 });
    await Bun.sleep(50);
    pulling.stop();
    expect(calls).toBeGreaterThan(0);
    expect(calls).toBeLessThan(MANY);
  });

  test("does not wait for long before there is a consumer", async () => {
    const waitsMs: number[] = [];
    const marginsMs: number[] = [];
    const answers = [() => Promise.reject(new Error("timeout")), async () => EMPTY, async () => EMPTY];
    const pulling = pullingWith((_, ask, timeoutMs) => {
      const waitMs = (JSON.parse(ask) as { expires: number }).expires / 1_000_000;
      waitsMs.push(waitMs);
      marginsMs.push(timeoutMs - waitMs);
      return (answers.shift() ?? (() => new Promise<never>(() => {})))();
    });
    pulling.setPlaces({ a: 1, s: 0, prepare: 0 });
    while (waitsMs.length < 4) await Bun.sleep(10);
    pulling.stop();
    // The server of Debian 12 does not say that a consumer is missing. It is present when it has answered.
    expect(waitsMs).toEqual([250, 250, 5_000, 5_000]);
    // A ticket whose reply is read too late would count as delivered.
    expect(marginsMs).toEqual([1_000, 1_000, 5_000, 5_000]);
  });
});

test("a model is offered when its files are those of its manifest, and not for a while after a failure", async () => {
  const problems: string[] = [];
  const model = (id: string, sha256: string) => ({
    ...{
      id,
      name: id,
      version: "1",
      family: "whisper" as const,
      sha256,
      languages: [],
      licence: "",
      source: "",
    },
    ...{ decoding: {}, files: { weights: `/${id}` }, bytes: 1, embedded: false },
  });
  const offered = createOfferedModels({
    installed: () => [model("good", "1"), model("bad", "2"), model("gone", "3")],
    sha256OfFile: async (path) => {
      if (path === "/gone") throw new Error("no such file");
      return "1";
    },
    onProblem: (id) => problems.push(id),
  });
  await offered.refresh();
  await offered.refresh();
  expect(offered.list()).toEqual([{ hash: "1", id: "good", isUsable: true }]);
  expect(problems).toEqual(["bad", "gone"]);
  offered.distrust("1", "no memory");
  expect(offered.list()).toEqual([{ hash: "1", id: "good", isUsable: false }]);
});

test("certificates come from the fleet's authority and have all names", async () => {
  const authority = await makeAuthority("main");
  const { cert, key } = await makeServerCertificate(authority, ["nats.example", "10.1.2.3"]);
  const certificate = new X509Certificate(cert);
  expect(certificate.verify(new X509Certificate(authority.cert).publicKey)).toBe(true);
  expect(certificate.checkHost("nats.example")).toBe("nats.example");
  expect(certificate.checkIP("10.1.2.3")).toBe("10.1.2.3");
  expect(certificate.checkHost("other.example")).toBeUndefined();
  expect(certificate.ca).toBe(false);
  expect(key).toContain("PRIVATE KEY");
});

test.each([0x00, 0x7f, 0x80, 0xff])(
  "certificates are readable when their random number begins with %p",
  async (byte) => {
    const random = (count: number) => Buffer.alloc(count, byte).fill(0x11, 1);
    const authority = await makeAuthority("main", random);
    const { cert } = await makeServerCertificate(authority, ["nats.example"], random);
    const certificate = new X509Certificate(cert);
    expect(certificate.verify(new X509Certificate(authority.cert).publicKey)).toBe(true);
    expect(certificate.serialNumber).toMatch(/^[4-7][0-9A-F]{31}$/);
  },
);

test("the rights of a worker name its own subjects only", () => {
  const { publish, subscribe } = workerRights("main", "one");
  expect(publish).toEqual([
    ...["shruti.main.beat.one", "shruti.main.done.one", "shruti.main.hello.one"],
    ...["$JS.API.CONSUMER.MSG.NEXT.SHRUTI_main.*", "$JS.ACK.SHRUTI_main.>"],
  ]);
  expect(subscribe).toEqual(["_INBOX.one.>", "shruti.main.cancel", "shruti.main.order.one"]);
});
