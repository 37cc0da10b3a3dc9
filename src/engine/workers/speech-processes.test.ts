import { describe, expect, test } from "bun:test";
import { NO_NATIVE_FILES } from "../../testing/kits/native-files.ts";
import { engineOptions } from "../../testing/kits/test-config.ts";
import type { WorkerReply, WorkerRequest } from "../protocol.ts";
import { createSpeechProcesses } from "./speech-processes.ts";
import type { HostOptions } from "./worker-host.ts";
import type { WorkerExit, WorkerProcess } from "./worker-process.ts";

const never = new AbortController().signal;
const LIMITS = { maxSamples: 480_000, gapSamples: 1_600 };

/** Speech detectors that answer when the test lets them. */
function openDetectors(speechWorkers: number, idleMs?: number) {
  const running: { pid: number; id: number; onReply: (reply: WorkerReply) => void }[] = [];
  const processes = new Map<number, () => void>();
  let pids = 0;
  const spawn = (onReply: (reply: WorkerReply) => void): WorkerProcess => {
    const pid = ++pids;
    const exited = Promise.withResolvers<WorkerExit>();
    const end = () => {
      processes.delete(pid);
      exited.resolve({ code: null, signal: "SIGKILL" });
    };
    processes.set(pid, end);
    return {
      pid,
      exited: exited.promise,
      kill: end,
      send(request: WorkerRequest) {
        if (request.type === "start") queueMicrotask(() => onReply({ type: "started" }));
        if (request.type === "detect_speech") running.push({ pid, id: request.id, onReply });
      },
    };
  };
  const hostOptions: HostOptions = {
    ...{ nativeFiles: NO_NATIVE_FILES, backendDirs: [], log: () => {}, opens: ["speech"], spawn },
    engine: engineOptions(),
  };
  const detectors = createSpeechProcesses(hostOptions, speechWorkers, idleMs);
  return {
    detectors,
    processes,
    running,
    detect: () =>
      detectors.run((host) =>
        host.request(
          { type: "detect_speech", pcmPath: "", limits: LIMITS, reportsFound: false },
          { signal: never, timeoutMs: 5_000, isAlone: false },
        ),
      ),
    async untilRunning(count: number) {
      for (let n = 0; n < 200 && running.length !== count; n++) await Bun.sleep(5);
      expect(running).toHaveLength(count);
    },
    finish() {
      for (const { id, onReply } of running.splice(0)) onReply({ type: "speech", id, regions: [] });
    },
  };
}

describe("processes that find speech", () => {
  test("work goes to the process that has the least, and processes are added while all have work", async () => {
    const { detectors, detect, running, untilRunning, finish, processes } = openDetectors(3);
    const first = detect();
    await untilRunning(1);
    finish();
    await first;
    const all = Array.from({ length: 7 }, detect);
    await untilRunning(7);
    const counts = [...processes.keys()].map((pid) => running.filter((job) => job.pid === pid).length);
    expect(counts.sort()).toEqual([2, 2, 3]);
    finish();
    await Promise.all(all);
    await detectors.close();
    expect(processes.size).toBe(0);
    await expect(detect()).rejects.toMatchObject({ kind: "interrupted" });
  });

  test("the end of a process fails only its own work, and the next work has a process again", async () => {
    const { detectors, detect, running, untilRunning, finish, processes } = openDetectors(2);
    const outcomes = [detect(), detect()].map((job) =>
      job.then(({ type }) => type).catch(({ kind }) => kind),
    );
    await untilRunning(2);
    const [lost, kept] = running.splice(0);
    processes.get(lost?.pid ?? 0)?.();
    if (kept) running.push(kept);
    finish();
    expect((await Promise.all(outcomes)).sort()).toEqual(["crashed", "speech"]);
    const again = detect();
    await untilRunning(1);
    finish();
    await again;
    await detectors.close();
  });

  test("a further process ends after a while without work, and the first one stays", async () => {
    const { detectors, detect, untilRunning, finish, processes } = openDetectors(3, 20);
    const all = [detect(), detect(), detect()];
    await untilRunning(3);
    finish();
    await Promise.all(all);
    for (let n = 0; n < 200 && processes.size > 1; n++) await Bun.sleep(5);
    expect([...processes.keys()]).toEqual([1]);
    await detectors.close();
  });
});
