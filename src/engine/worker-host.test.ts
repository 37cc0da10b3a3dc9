import { afterEach, describe, expect, test } from "bun:test";
import { EngineError, type WorkerReply, type WorkerRequest } from "./protocol.ts";
import { createWorkerHost, type WorkerHost } from "./worker-host.ts";
import type { WorkerExit, WorkerProcess } from "./worker-process.ts";

/** A worker made of closures: what it does with a chunk is said by the test. */
type Behaviour = (id: number, reply: (reply: WorkerReply) => void, die: (exit: WorkerExit) => void) => void;

const OUTCOME = { segments: [], elapsedMs: 5 };
const answer: Behaviour = (id, reply) => reply({ type: "transcribed", id, outcome: OUTCOME });
const crash: Behaviour = (_id, _reply, die) => die({ code: null, signal: "SIGSEGV" });
const hang: Behaviour = () => {};

const hosts: WorkerHost[] = [];
afterEach(async () => {
  for (const host of hosts.splice(0)) await host.stop(true);
});

function openHost(behaviours: Behaviour[], loadReply: WorkerReply = { type: "loaded", device: "cpu" }) {
  let spawned = 0;
  const received: WorkerRequest[] = [];
  const spawn = (onReply: (reply: WorkerReply) => void): WorkerProcess => {
    spawned++;
    const exited = Promise.withResolvers<WorkerExit>();
    const later = (reply: WorkerReply) => queueMicrotask(() => onReply(reply));
    return {
      pid: 1000 + spawned,
      exited: exited.promise,
      kill: () => exited.resolve({ code: null, signal: "SIGKILL" }),
      send(request) {
        received.push(request);
        if (request.type === "load") later(loadReply);
        if (request.type === "transcribe") (behaviours.shift() ?? answer)(request.id, later, exited.resolve);
      },
    };
  };
  const files = { dir: "", ffmpeg: "", ffprobe: "", smartWhisper: "", sherpa: "", sileroVad: "" };
  const host = createWorkerHost({
    nativeFiles: files,
    backendDirs: [],
    load: { weightsPath: "model.bin", device: "cpu" },
    log: () => {},
    spawn,
  });
  hosts.push(host);
  return { host, received, spawned: () => spawned };
}

function ask(host: WorkerHost, values: { signal?: AbortSignal; timeoutMs?: number; isAlone?: boolean } = {}) {
  const audio = { pcmPath: "x", slices: [], totalSamples: 0 };
  const options = {} as Extract<WorkerRequest, { type: "transcribe" }>["options"];
  return host.request(
    { type: "transcribe", audio, options },
    { signal: new AbortController().signal, timeoutMs: 5_000, isAlone: false, ...values },
  );
}

async function kindOf(promise: Promise<unknown>): Promise<string> {
  try {
    await promise;
    return "fine";
  } catch (error) {
    return error instanceof EngineError ? error.kind : String(error);
  }
}

describe("worker host", () => {
  test("one worker serves many requests", async () => {
    const { host, spawned } = openHost([]);
    await Promise.all([ask(host), ask(host), ask(host)]);
    expect(spawned()).toBe(1);
  });

  test("a crash fails the work inside, and the next request gets a new worker after a pause", async () => {
    const { host, spawned } = openHost([hang, crash]);
    const both = [kindOf(ask(host)), kindOf(ask(host))];
    expect(await Promise.all(both)).toEqual(["crashed", "crashed"]);
    const before = performance.now();
    expect(await kindOf(ask(host))).toBe("fine");
    expect(performance.now() - before).toBeGreaterThan(150);
    expect(spawned()).toBe(2);
    expect(host.status().restarts).toBe(1);
  });

  test("a hung chunk costs its worker, and its neighbour is not to blame", async () => {
    const { host } = openHost([hang, hang]);
    const slow = kindOf(ask(host, { timeoutMs: 60_000 }));
    const hung = kindOf(ask(host, { timeoutMs: 50 }));
    expect(await Promise.all([slow, hung])).toEqual(["interrupted", "hung"]);
    expect(await kindOf(ask(host))).toBe("fine");
  });

  test("an abort is passed on; one that is not heard within the grace is enforced", async () => {
    const { host, received } = openHost([hang]);
    const controller = new AbortController();
    const aborted = kindOf(ask(host, { signal: controller.signal }));
    await Bun.sleep(5);
    const before = performance.now();
    controller.abort();
    expect(await aborted).toBe("aborted");
    expect(performance.now() - before).toBeLessThan(2_000);
    expect(received.some(({ type }) => type === "abort")).toBe(true);
  });

  test("weights that cannot be loaded say why, again on the next try", async () => {
    const { host } = openHost([], { type: "unusable", reason: "no tensors" });
    expect(ask(host)).rejects.toThrow("no tensors");
    expect(await kindOf(ask(host))).toBe("unusable_model");
  });

  test("who asks to be alone has no neighbours", async () => {
    const running: number[] = [];
    let most = 0;
    const slow: Behaviour = (id, reply) => {
      running.push(id);
      most = Math.max(most, running.length);
      setTimeout(() => {
        running.splice(running.indexOf(id), 1);
        reply({ type: "transcribed", id, outcome: OUTCOME });
      }, 10);
    };
    const alone: Behaviour = (id, reply, die) => {
      expect(running).toEqual([]);
      slow(id, reply, die);
    };
    const { host } = openHost([slow, slow, alone, slow]);
    await Promise.all([ask(host), ask(host), ask(host, { isAlone: true }), ask(host)]);
    expect(most).toBe(2);
  });

  test("stopping interrupts what runs", async () => {
    const { host } = openHost([hang]);
    const running = kindOf(ask(host));
    await Bun.sleep(5);
    await host.stop(true);
    expect(await running).toBe("interrupted");
    expect(await kindOf(ask(host))).toBe("interrupted");
  });
});
