import { afterEach, describe, expect, test } from "bun:test";
import { createBrokenVariants } from "../../native/cpu-variants.ts";
import { NO_NATIVE_FILES } from "../../testing/kits/native-files.ts";
import { engineOptions } from "../../testing/kits/test-config.ts";
import { EngineError, type WorkerReply, type WorkerRequest } from "../protocol.ts";
import { createWorkerHost, type HostOptions, type WorkerHost } from "./worker-host.ts";
import type { WorkerExit, WorkerProcess } from "./worker-process.ts";

/** A scripted worker made of closures. The test decides what it does with a chunk. */
type Behaviour = (id: number, reply: (reply: WorkerReply) => void, die: (exit: WorkerExit) => void) => void;

const OUTCOME = { segments: [], elapsedMs: 5 };
const answer: Behaviour = (id, reply) => reply({ type: "transcribed", id, outcome: OUTCOME });
const crash: Behaviour = (_id, _reply, die) => die({ code: null, signal: "SIGSEGV" });
const hang: Behaviour = () => {};

const hosts: WorkerHost[] = [];
afterEach(async () => {
  for (const host of hosts.splice(0)) await host.stop(true);
});

type Load = (
  die: (exit: WorkerExit) => void,
  request: Extract<WorkerRequest, { type: "load" }>,
) => WorkerReply | undefined;

function openHost(
  behaviours: Behaviour[],
  load: Load | WorkerReply = { type: "loaded", device: "cpu" },
  more: Partial<HostOptions> = {},
) {
  let spawned = 0;
  const received: WorkerRequest[] = [];
  const logged: string[] = [];
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
        if (request.type === "load") {
          const reply = typeof load === "function" ? load(exited.resolve, request) : load;
          if (reply) later(reply);
        }
        if (request.type === "transcribe") (behaviours.shift() ?? answer)(request.id, later, exited.resolve);
      },
    };
  };
  const host = createWorkerHost({
    nativeFiles: NO_NATIVE_FILES,
    backendDirs: [],
    engine: engineOptions(),
    opens: ["whisper"],
    load: { files: { weights: "model.bin" }, device: "cpu" },
    log: (_level, message) => void logged.push(message),
    spawn,
    ...more,
  });
  hosts.push(host);
  return { host, received, logged, spawned: () => spawned };
}

type Values = { signal?: AbortSignal; timeoutMs?: number; isAlone?: boolean; threadGroups?: number };

function ask(host: WorkerHost, { threadGroups = 0, ...values }: Values = {}) {
  const audio = { pcmPath: "x", slices: [], totalSamples: 0 };
  return host.request(
    { type: "transcribe", audio, settings: { language: "en" }, threads: 1, threadGroups },
    { signal: new AbortController().signal, timeoutMs: 5_000, isAlone: false, ...values },
  );
}

/** Asks for a chunk whose steps are made with those of others; the kind of its failure, and whether it is suspect. */
async function askTogether(host: WorkerHost, values: Values = {}): Promise<[string, boolean]> {
  try {
    await ask(host, { threadGroups: 2, ...values });
    return ["fine", false];
  } catch (error) {
    return error instanceof EngineError ? [error.kind, error.isSuspect] : [String(error), false];
  }
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

  test("a crash fails the requests in that process, and the next request gets a new process after a pause", async () => {
    const { host, spawned } = openHost([hang, crash]);
    const both = [kindOf(ask(host)), kindOf(ask(host))];
    expect(await Promise.all(both)).toEqual(["crashed", "crashed"]);
    const before = performance.now();
    expect(await kindOf(ask(host))).toBe("fine");
    expect(performance.now() - before).toBeGreaterThan(150);
    expect(spawned()).toBe(2);
    expect(host.status().restarts).toBe(1);
  });

  test("when chunks that make their steps together end the process, all are suspects and none has failed", async () => {
    const { host } = openHost([hang, hang, crash]);
    const all = [askTogether(host), kindOf(ask(host)), askTogether(host)];
    expect(await Promise.all(all)).toEqual([["interrupted", true], "crashed", ["interrupted", true]]);
    const hanging = openHost([hang, hang, hang]).host;
    const [slow, others] = [
      askTogether(hanging, { timeoutMs: 50 }),
      [askTogether(hanging), kindOf(ask(hanging))],
    ];
    expect(await Promise.all([slow, ...others])).toEqual([
      ["interrupted", true],
      ["interrupted", true],
      "interrupted",
    ]);
  });

  test("a chunk that is the only one to make steps in a process is known as the cause", async () => {
    expect(await askTogether(openHost([crash]).host)).toEqual(["crashed", false]);
    expect(await askTogether(openHost([hang]).host, { timeoutMs: 50 })).toEqual(["hung", false]);
  });

  test("a hung chunk ends its worker process, and the other chunks in it do not count as failed", async () => {
    const { host } = openHost([hang, hang]);
    const slow = kindOf(ask(host, { timeoutMs: 60_000 }));
    const hung = kindOf(ask(host, { timeoutMs: 50 }));
    expect(await Promise.all([slow, hung])).toEqual(["interrupted", "hung"]);
    expect(await kindOf(ask(host))).toBe("fine");
  });

  test("an abort is passed on; if the worker does not obey within the grace time, its process is killed", async () => {
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

  test("weights that cannot be loaded fail with the reason, and again on the next attempt", async () => {
    const { host } = openHost([], { type: "unusable", reason: "no tensors" });
    await expect(ask(host)).rejects.toThrow("no tensors");
    expect(await kindOf(ask(host))).toBe("unusable_model");
  });

  test("a request that asks to run alone has no others beside it", async () => {
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

  test("stopping interrupts running requests", async () => {
    const { host } = openHost([hang]);
    const running = kindOf(ask(host));
    await Bun.sleep(5);
    await host.stop(true);
    expect(await running).toBe("interrupted");
    expect(await kindOf(ask(host))).toBe("interrupted");
  });

  test("weights that end one worker process after another are given up, each time after a longer pause", async () => {
    const { host, spawned } = openHost([], (die) => {
      die({ code: null, signal: "SIGSEGV" });
      return undefined;
    });
    const before = performance.now();
    expect(await kindOf(ask(host))).toBe("interrupted");
    expect(await kindOf(ask(host))).toBe("interrupted");
    expect(await kindOf(ask(host))).toBe("unusable_model");
    expect(performance.now() - before).toBeGreaterThan(250 + 500 - 20);
    expect(spawned()).toBe(3);
    expect(host.status()).toMatchObject({ state: "backoff", problem: expect.stringContaining("SIGSEGV") });
  });

  test("a worker program that cannot be started does not crash this one", async () => {
    const spawn = () => {
      throw new Error("EACCES");
    };
    const { host } = openHost([], undefined, { spawn });
    expect(await kindOf(ask(host))).toBe("unusable_model");
    expect(host.status().problem).toContain("EACCES");
  });

  test("requests that wait for a slow load, a pause or a lone chunk end at once when they are aborted", async () => {
    const slow = openHost([], () => undefined).host;
    const paused = openHost([crash, hang]).host;
    await kindOf(ask(paused));
    const busy = openHost([hang]).host;
    const alone = kindOf(ask(busy, { isAlone: true }));
    await Bun.sleep(5);
    const controller = new AbortController();
    const waiting = [slow, paused, busy].map((host) => kindOf(ask(host, { signal: controller.signal })));
    controller.abort();
    // When this process is late, so are its timers. This timer was set last, so it fires after the awaited one.
    const late = Bun.sleep(100).then(() => "late");
    expect(await Promise.race([Promise.all(waiting), late])).toEqual(["aborted", "aborted", "aborted"]);
    await busy.stop(true);
    expect(await alone).toBe("interrupted");
  });

  test("under auto, a GPU that ends the worker process before any result is no longer used, and no request counts as failed", async () => {
    const devices: string[] = [];
    const { host, received, logged } = openHost(
      [crash],
      (_die, request) => {
        devices.push(request.device);
        return { type: "loaded", device: request.device === "auto" ? "CUDA0" : "cpu" };
      },
      { load: { files: { weights: "model.bin" }, device: "auto" }, backendDirs: ["/backends"] },
    );
    expect(await kindOf(ask(host))).toBe("interrupted");
    expect(await kindOf(ask(host))).toBe("fine");
    expect(devices).toEqual(["auto", "cpu"]);
    expect(received.filter(({ type }) => type === "start").at(-1)).toMatchObject({ backendDirs: [] });
    expect(logged).toContain("the worker ended with a GPU backend loaded; the processor takes its place");
    expect(host.status()).toMatchObject({ device: "cpu", gpuFailure: "a worker ended while it was in use" });
  });

  test("each process receives the settings of the engine as they are", async () => {
    for (const engine of [engineOptions(), engineOptions({ precision: "exact", shared_steps: "never" })]) {
      const { host, received } = openHost([crash, answer], { type: "loaded", device: "cpu" }, { engine });
      expect(await kindOf(ask(host))).toBe("crashed");
      expect(await kindOf(ask(host))).toBe("fine");
      const started = received.flatMap((request) => (request.type === "start" ? [request.engine] : []));
      expect(started).toEqual([engine, engine]);
    }
  });

  test("the reason why a GPU refused a model is kept with the model", async () => {
    const { host } = openHost(
      [answer],
      { type: "loaded", device: "cpu", gpuFailure: "CUDA0 has 1.0 GiB of memory free" },
      { load: { files: { weights: "model.bin" }, device: "auto" }, backendDirs: ["/backends"] },
    );
    expect(await kindOf(ask(host))).toBe("fine");
    expect(host.status()).toMatchObject({ device: "cpu", gpuFailure: "CUDA0 has 1.0 GiB of memory free" });
  });

  test("the reason why a draft model is not used is kept with the model, and logged", async () => {
    const draft = { id: "small", sha256: "", files: { weights: "s.bin" }, bytes: 1, languageCodes: ["en"] };
    const { host, received, logged } = openHost(
      [answer],
      { type: "loaded", device: "cpu", draftFailure: "the draft model has other tokens" },
      { load: { files: { weights: "model.bin" }, device: "cpu", draft } },
    );
    expect(await kindOf(ask(host))).toBe("fine");
    expect(received.find(({ type }) => type === "load")).toMatchObject({ draft });
    expect(host.status().draftFailure).toBe("the draft model has other tokens");
    expect(logged).toContain("the draft model is not used");
  });

  test("a device that is set by name is never replaced", async () => {
    const { host, received } = openHost(
      [crash, answer],
      { type: "loaded", device: "CUDA0" },
      { load: { files: { weights: "model.bin" }, device: "cuda" }, backendDirs: ["/backends"] },
    );
    expect(await kindOf(ask(host))).toBe("crashed");
    expect(await kindOf(ask(host))).toBe("fine");
    expect(received.filter(({ type }) => type === "load")).toEqual(
      Array(2).fill({ type: "load", files: { weights: "model.bin" }, device: "cuda" }),
    );
  });

  test("a request that cannot be sent rejects with the reason once, and leaves nothing behind", async () => {
    const unhandled: unknown[] = [];
    const note = (reason: unknown) => void unhandled.push(reason);
    process.on("unhandledRejection", note);
    try {
      const { host } = openHost([
        () => {
          throw new Error("cannot be sent");
        },
      ]);
      await expect(ask(host, { timeoutMs: 20 })).rejects.toThrow("cannot be sent");
      expect(host.status().running).toBe(0);
      await Bun.sleep(50);
      expect(host.status().state).toBe("ready");
      await host.stop(true);
      await Bun.sleep(0);
    } finally {
      process.off("unhandledRejection", note);
    }
    expect(unhandled).toEqual([]);
  });

  test("a request to a worker process that has just ended does not wait for ever", async () => {
    const { host } = openHost([crash, answer]);
    const first = kindOf(ask(host));
    const second = kindOf(ask(host));
    expect(["crashed", "interrupted", "fine"]).toContain(await second);
    expect(await first).toBe("crashed");
  });
});

describe("a worker process that this processor's code ends before its first chunk", () => {
  const VARIANTS = ["amx", "avx512", "avx2", "plain"];

  /** Workers that load the best variant that is not avoided. Those in `broken` end at their first chunk. */
  function openHostWith(
    broken: Record<string, string>,
    { at = "transcribe", ...more }: Partial<HostOptions> & { at?: "load" | "transcribe" } = {},
  ) {
    const used: string[] = [];
    const logged: { level: string; message: string; fields: Record<string, unknown> }[] = [];
    const spawn = (onReply: (reply: WorkerReply) => void): WorkerProcess => {
      const exited = Promise.withResolvers<WorkerExit>();
      const later = (reply: WorkerReply) => queueMicrotask(() => onReply(reply));
      let variant = "";
      return {
        pid: 2000 + used.length,
        exited: exited.promise,
        kill: () => exited.resolve({ code: null, signal: "SIGKILL" }),
        send(request) {
          if (request.type === "start") {
            const [first = "plain", ...plainerVariants] = VARIANTS.filter(
              (name) => !request.avoidedVariants.includes(name),
            );
            variant = first;
            used.push(variant);
            const engine = { libraryVersion: "1", cpuVariant: variant, plainerVariants };
            later({ type: "started", engine: { ...engine, devices: [], backendFailures: [] } });
          }
          const signal = broken[variant];
          if (request.type === at && signal !== undefined) {
            queueMicrotask(() => exited.resolve({ code: null, signal }));
            return;
          }
          if (request.type === "load") later({ type: "loaded", device: "cpu" });
          if (request.type === "transcribe") later({ type: "transcribed", id: request.id, outcome: OUTCOME });
        },
      };
    };
    const log: HostOptions["log"] = (level, message, fields) => void logged.push({ level, message, fields });
    const load = { files: { weights: "model.bin" }, device: "cpu" as const };
    const host = createWorkerHost({
      nativeFiles: NO_NATIVE_FILES,
      backendDirs: [],
      engine: engineOptions(),
      opens: ["whisper"],
      load,
      log,
      spawn,
      ...more,
    });
    hosts.push(host);
    return { host, used, logged };
  }

  test("is replaced by one with plainer code, without a failure or a pause", async () => {
    const { host, used, logged } = openHostWith({ amx: "SIGILL", avx512: "SIGILL" });
    const before = performance.now();
    expect(await Promise.all([kindOf(ask(host)), kindOf(ask(host))])).toEqual(["fine", "fine"]);
    expect(performance.now() - before).toBeLessThan(200);
    expect(used).toEqual(["amx", "avx512", "avx2"]);
    const warnings = logged.filter(({ message }) => message.includes("plainer code takes its place"));
    expect(warnings).toMatchObject([
      { level: "warn", fields: { variant: "amx", plainer: "avx512", signal: "SIGILL" } },
      { level: "warn", fields: { variant: "avx512", plainer: "avx2", signal: "SIGILL" } },
    ]);
    expect(host.status()).toMatchObject({ info: { cpuVariant: "avx2" }, problem: undefined });
    expect(await kindOf(ask(host))).toBe("fine");
    expect(used).toHaveLength(3);
  });

  test("is replaced in the same way while a caller waits for the load", async () => {
    const { host, used } = openHostWith({ amx: "SIGSEGV" }, { at: "load" });
    await host.warm(new AbortController().signal);
    expect(used).toEqual(["amx", "avx512"]);
    expect(host.status()).toMatchObject({ state: "ready", problem: undefined });
  });

  test("is not tried again by other hosts", async () => {
    const brokenVariants = createBrokenVariants();
    await ask(openHostWith({ amx: "SIGILL" }, { brokenVariants }).host);
    const second = openHostWith({ amx: "SIGILL" }, { brokenVariants });
    await ask(second.host);
    expect(second.used).toEqual(["avx512"]);
    expect(brokenVariants.list()).toEqual([{ variant: "amx", signal: "SIGILL" }]);
  });

  test("counts as failed by its work when plainer code ends it as well, and the best code is used again", async () => {
    const all = Object.fromEntries(VARIANTS.map((name) => [name, "SIGSEGV"]));
    const brokenVariants = createBrokenVariants();
    const { host, used, logged } = openHostWith(all, { brokenVariants });
    expect(await kindOf(ask(host))).toBe("crashed");
    expect(used).toEqual(["amx", "avx512", "avx2"]);
    expect(brokenVariants.list()).toEqual([]);
    expect(logged.at(-1)?.message).toContain("the better code is used again");
    expect(await kindOf(ask(host))).toBe("crashed");
    expect(used).toEqual(["amx", "avx512", "avx2", "amx"]);
  });

  test("that had too little memory is treated like one that was ended", async () => {
    const { host, used } = openHostWith({ amx: "SIGKILL" });
    expect(await kindOf(ask(host))).toBe("crashed");
    expect(used).toEqual(["amx"]);
  });

  test("reports an abort to a caller that gives up in the meantime", async () => {
    const { host } = openHostWith({ amx: "SIGILL" });
    const controller = new AbortController();
    const aborted = kindOf(ask(host, { signal: controller.signal }));
    queueMicrotask(() => controller.abort());
    expect(await aborted).toBe("aborted");
    expect(await kindOf(ask(host))).toBe("fine");
  });
});
