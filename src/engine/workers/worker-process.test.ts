import { describe, expect, test } from "bun:test";
import { relay, spawnWorker } from "./worker-process.ts";

async function relayed(parts: string[]): Promise<string[]> {
  const lines: string[] = [];
  const stream = new ReadableStream<Uint8Array>({
    start(controller) {
      for (const part of parts) controller.enqueue(new TextEncoder().encode(part));
      controller.close();
    },
  });
  await relay(stream, (line) => lines.push(line));
  return lines;
}

describe("the standard error output of a worker process", () => {
  test("is passed on line by line, in however many parts a line arrives", async () => {
    expect(await relayed(["Invalid device index ", "7", " here.\nsecond\n\n", "no end"])).toEqual([
      "Invalid device index 7 here.",
      "second",
      "no end",
    ]);
  });

  test("is limited in the length and the number of lines", async () => {
    const [long] = await relayed(["x".repeat(10_000), "y".repeat(10_000)]);
    expect(long?.length).toBe(500);
    expect((await relayed(Array.from({ length: 1_000 }, () => "line\n"))).length).toBe(200);
  });
});

test("a message to a process that is ending is lost and no error, at each moment until it has ended", async () => {
  for (let round = 0; round < 3; round++) {
    const worker = spawnWorker(
      () => {},
      () => {},
    );
    let hasEnded = false;
    const ended = worker.exited.then((exit) => {
      hasEnded = true;
      return exit;
    });
    await Bun.sleep(300);
    process.kill(worker.pid, "SIGKILL");
    while (!hasEnded) {
      worker.send({ type: "abort", id: 1 });
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(await ended).toEqual({ code: null, signal: "SIGKILL" });
    worker.send({ type: "abort", id: 1 });
  }
});
