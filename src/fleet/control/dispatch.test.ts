import { expect, test } from "bun:test";
import type { Urgency } from "../subjects.ts";
import { subjectsOf } from "../subjects.ts";
import { createDispatch } from "./dispatch.ts";
import { createWantedJobs, type WantedChunk } from "./wanted-jobs.ts";

const MODEL = "a".repeat(64);
const subjects = subjectsOf("main");

/** A dispatch whose tickets reach the server when `arrive` is called. */
function open() {
  const onTheWay: { subject: string; arrive: () => void }[] = [];
  const jobs = createWantedJobs(() => {});
  const dispatch = createDispatch({
    ...{ jobs, subjects, baseUrl: () => "https://127.0.0.1", protocol: () => 1 },
    link: { publish: () => {} },
    tokens: { token: () => "t", proof: () => "p" },
    tickets: {
      publish: (subject) =>
        new Promise((resolve) => {
          onTheWay.push({ subject, arrive: () => resolve({ sequence: 1, isNew: true }) });
        }),
      remove: async () => {},
      ensure: async () => {},
      models: () => [],
      snapshot: () => Promise.reject(new Error("not used")),
    },
  });
  function want(id: string, urgency: Urgency = "a") {
    const stop = new AbortController();
    const { wanted, outcome } = jobs.want<WantedChunk>(
      {
        ...({ kind: "chunk", id, modelSha256: MODEL, queue: MODEL, urgency, isAlone: false } as const),
        ...{ subject: subjects.job(MODEL, urgency, id), audioMs: 1, timeoutMs: 1 },
        job: {
          ...{ windowMs: 1, settings: { language: "en" }, sharers: 1, isAlone: false },
          model: { id: "m", version: "1", family: "whisper", files: {} },
          audio: { pcm: new Uint8Array(2), totalSamples: 1 },
        },
      },
      stop.signal,
    );
    outcome.catch(() => {});
    return { stop, sent: dispatch.send(wanted) };
  }
  const subjectsOnTheWay = () => onTheWay.map(({ subject }) => subject.slice(subject.lastIndexOf(".") + 1));
  return { dispatch, want, onTheWay, subjectsOnTheWay, settle: () => Bun.sleep(0) };
}

test("of hundreds of tickets few are on their way at once, and all arrive in order", async () => {
  const { dispatch, want, onTheWay, subjectsOnTheWay, settle } = open();
  const ids = Array.from({ length: 100 }, (_, n) => `job${n}`);
  const sent = ids.map((id) => want(id).sent);
  await settle();
  const most = onTheWay.length;
  expect(most).toBeLessThan(ids.length / 2);
  expect(subjectsOnTheWay()).toEqual(ids.slice(0, most));
  for (let n = 0; n < ids.length; n++) {
    onTheWay[n]?.arrive();
    await settle();
    expect(onTheWay.length).toBe(Math.min(ids.length, most + n + 1));
  }
  await Promise.all(sent);
  expect(subjectsOnTheWay()).toEqual(ids);
  expect(dispatch.counts().published).toBe(ids.length);
});

test("a ticket that a client waits for overtakes those that wait, and one that is not wanted any more is not sent", async () => {
  const { want, onTheWay, subjectsOnTheWay, settle } = open();
  for (let n = 0; n < 50; n++) want(`first${n}`);
  await settle();
  const most = onTheWay.length;
  const unwanted = want("unwanted");
  want("urgent", "s");
  await settle();
  expect(subjectsOnTheWay().at(-1)).toBe("urgent");
  unwanted.stop.abort();
  for (let n = 0; n < 51; n++) {
    onTheWay[n]?.arrive();
    await settle();
  }
  await unwanted.sent;
  expect(most).toBeLessThan(50);
  expect(subjectsOnTheWay()).toHaveLength(51);
  expect(subjectsOnTheWay()).not.toContain("unwanted");
});
