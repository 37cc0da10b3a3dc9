import { afterAll, beforeAll, expect, test } from "bun:test";
import { createHash } from "node:crypto";
import fc from "fast-check";
import { AppError } from "../../domain/errors.ts";
import { testConfig } from "../../testing/kits/test-config.ts";
import { CALLER, openUploadBench, STRANGER, type UploadBench } from "../../testing/kits/upload-bench.ts";

let bench: UploadBench;
beforeAll(() => {
  bench = openUploadBench();
});
afterAll(() => bench.close());

/** The actions of a client on an upload. `bytes` counts from where it starts. */
type Step =
  | {
      kind: "put" | "patch";
      bytes: number;
      chunk: number;
      breaksOff: boolean;
      takenOver: boolean;
      afterMs: number;
    }
  | { kind: "discard" }
  | { kind: "complete" };

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      kind: fc.constantFrom("put" as const, "patch" as const),
      bytes: fc.integer({ min: 0, max: 70 }),
      chunk: fc.integer({ min: 1, max: 30 }),
      breaksOff: fc.boolean(),
      takenOver: fc.boolean(),
      // 0: before the first byte is read.
      afterMs: fc.integer({ min: 0, max: 2 }),
    }),
  },
  { weight: 1, arbitrary: fc.constant({ kind: "discard" as const }) },
  { weight: 2, arbitrary: fc.constant({ kind: "complete" as const }) },
);

/** One client that sends nothing, and another that takes over before the first one's bytes are awaited. */
const TAKEN_OVER_AT_ONCE: [Uint8Array<ArrayBuffer>, Step[]] = [
  new Uint8Array([1, 2]),
  [{ kind: "put", bytes: 0, chunk: 1, breaksOff: false, takenOver: true, afterMs: 0 }],
];

/** Sends some bytes of the file, or more than it has where requested, and may then break off or stall. */
function bodyOf(
  data: Uint8Array,
  start: number,
  { bytes, chunk, breaksOff, takenOver }: Extract<Step, { bytes: number }>,
) {
  const part = new Uint8Array([...data, ...new Uint8Array(100)]).slice(start, start + bytes);
  let at = 0;
  return new ReadableStream<Uint8Array>({
    pull(controller) {
      if (at < part.length) {
        controller.enqueue(part.slice(at, at + chunk));
        at += chunk;
        return;
      }
      if (breaksOff) controller.error(new Error("the line is dead"));
      else if (!takenOver) controller.close();
    },
  });
}

async function codeOf(work: Promise<unknown>): Promise<string> {
  return work.then(
    () => "done",
    (error: unknown) => {
      if (error instanceof AppError) return error.code;
      throw error;
    },
  );
}

test("whatever a client does, the stored file is a beginning of the recording, and only a complete one can be completed", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.uint8Array({ minLength: 1, maxLength: 60 }),
      fc.array(step, { minLength: 1, maxLength: 12 }),
      async (data, steps) => {
        const { uploads } = bench;
        const sha256 = createHash("sha256").update(data).digest("hex");
        const { upload } = await uploads.create(CALLER, { bytes: data.length, sha256 });
        let isComplete = false;
        for (const next of steps) {
          const before = (await uploads.storedBytes(upload.id)) ?? 0;
          if (next.kind === "discard") {
            expect(await codeOf(uploads.discardBytes(upload.id))).toBe(isComplete ? "conflict" : "done");
          } else if (next.kind === "complete") {
            const code = await codeOf(uploads.complete(CALLER, upload.id));
            expect(code).toBe(before === data.length ? "done" : "upload_incomplete");
            isComplete ||= code === "done";
          } else {
            const start = next.kind === "put" ? 0 : before;
            const body = bodyOf(data, start, next);
            const sending = codeOf(
              uploads.receive(upload.id, { at: next.kind === "put" ? "start over" : start, body }),
            );
            if (next.takenOver && !next.breaksOff) {
              if (next.afterMs > 0) await Bun.sleep(next.afterMs);
              await uploads.settleWriter(upload.id);
            }
            const code = await sending;
            const isTooLong = start + next.bytes > data.length;
            if (isComplete) expect(code).toBe("conflict");
            else if (isTooLong) expect(["audio_too_large", "conflict"]).toContain(code);
            else expect(code).toBe(next.breaksOff || next.takenOver ? "conflict" : "done");
          }
          const stored = await Bun.file(uploads.audioPath(upload.id))
            .bytes()
            .catch(() => new Uint8Array());
          expect(stored.length).toBeLessThanOrEqual(data.length);
          expect(stored).toEqual(data.slice(0, stored.length));
        }
        expect(uploads.get(CALLER, upload.id).state).toBe(isComplete ? "complete" : "allocated");
      },
    ),
    { numRuns: 60, examples: [TAKEN_OVER_AT_ONCE] },
  );
}, 60_000);

/** A body that sends nothing, or some bytes first. */
const silentBody = (first?: Uint8Array) =>
  new ReadableStream<Uint8Array>({
    start(controller) {
      if (first) controller.enqueue(first);
    },
  });

test("an organization that writes as many uploads as it may leaves places for another one", async () => {
  const opened = openUploadBench();
  const gone = new AbortController();
  const write = async (caller: typeof CALLER) => {
    const { upload } = await opened.uploads.create(caller, { bytes: 10 });
    return codeOf(
      opened.uploads.receive(upload.id, { at: "start over", body: silentBody(), signal: gone.signal }),
    );
  };
  try {
    const ends: string[] = [];
    const writers = Array.from({ length: 780 }, () => write(CALLER).then((end) => ends.push(end)));
    while (ends.length < 12) await Bun.sleep(5);
    // Three quarters of all.
    expect(ends).toEqual(ends.map(() => "capacity_unavailable"));
    expect(opened.uploads.receiving()).toBe(768);
    const { upload } = await opened.uploads.create(STRANGER, { bytes: 2 });
    const body = new Response(new Uint8Array(2)).body;
    expect(await opened.uploads.receive(upload.id, { at: "start over", body })).toMatchObject({
      isWhole: true,
    });
    gone.abort();
    await Promise.all(writers);
    expect(ends.length).toBe(780);
    // All places are free again.
    expect(await codeOf(opened.uploads.receive(upload.id, { at: 0, body: null }))).not.toBe(
      "capacity_unavailable",
    );
  } finally {
    gone.abort();
    await opened.close();
  }
}, 60_000);

test("a body that arrives too slowly is refused, and a resumed upload continues at the same position", async () => {
  const opened = openUploadBench({
    config: testConfig({ storage: { reserve_bytes: 0 }, limits: { slow_receive_seconds: 1 } }),
  });
  try {
    const { upload } = await opened.uploads.create(CALLER, { bytes: 6 });
    const begunMs = performance.now();
    const slow = opened.uploads.receive(upload.id, { at: 0, body: silentBody(new Uint8Array([1, 2, 3])) });
    expect(await codeOf(slow)).toBe("capacity_unavailable");
    expect(performance.now() - begunMs).toBeLessThan(3_000);
    expect(opened.uploads.receiving()).toBe(0);
    expect(await opened.uploads.storedBytes(upload.id)).toBe(3);
    const rest = new Response(new Uint8Array([4, 5, 6])).body;
    expect(await opened.uploads.receive(upload.id, { at: 3, body: rest })).toMatchObject({ isWhole: true });
  } finally {
    await opened.close();
  }
}, 60_000);
