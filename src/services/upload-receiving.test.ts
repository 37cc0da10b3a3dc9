import { afterAll, beforeAll, expect, test } from "bun:test";
import { createHash } from "node:crypto";
import fc from "fast-check";
import { AppError } from "../domain/errors.ts";
import { CALLER, openUploadBench, type UploadBench } from "../testing/upload-bench.ts";

let bench: UploadBench;
beforeAll(() => {
  bench = openUploadBench();
});
afterAll(() => bench.close());

/** What a client may do with an upload; `bytes` counts from where it starts. */
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
      // 0: before the first byte is read
      afterMs: fc.integer({ min: 0, max: 2 }),
    }),
  },
  { weight: 1, arbitrary: fc.constant({ kind: "discard" as const }) },
  { weight: 2, arbitrary: fc.constant({ kind: "complete" as const }) },
);

/** A client that says nothing, and another that takes over before the first one's bytes are waited for. */
const TAKEN_OVER_AT_ONCE: [Uint8Array<ArrayBuffer>, Step[]] = [
  new Uint8Array([1, 2]),
  [{ kind: "put", bytes: 0, chunk: 1, breaksOff: false, takenOver: true, afterMs: 0 }],
];

/** Sends some bytes of the file, more than it has where asked to, and perhaps breaks off or stalls after them. */
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

test("whatever a client does, the file is a beginning of the recording, and only a whole one completes", async () => {
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
