import { expect, test } from "bun:test";
import type { FileHandle } from "node:fs/promises";
import fc from "fast-check";
import { openAudioWriter, SYNC_BYTES, WRITE_AHEAD_BYTES } from "./audio-writer.ts";

/** A file in memory. Its kernel accepts as many bytes at a time as the test says. */
function memoryFile(takes: readonly number[], failsAfterBytes = Number.POSITIVE_INFINITY) {
  const content: number[] = [];
  let calls = 0;
  const writev = async (chunks: Uint8Array[], position: number) => {
    await Bun.sleep(0);
    const all = chunks.flatMap((chunk) => [...chunk]);
    if (position + all.length > failsAfterBytes) throw Object.assign(new Error("full"), { code: "ENOSPC" });
    const bytesWritten = Math.max(1, Math.min(all.length, takes[calls % takes.length] ?? all.length));
    calls += 1;
    content.splice(position, bytesWritten, ...all.slice(0, bytesWritten));
    return { bytesWritten, buffers: chunks };
  };
  return { content, handle: { writev } as unknown as FileHandle };
}

const chunkArrays = fc.array(fc.uint8Array({ maxLength: 50 }), { maxLength: 40 });

test("whatever the chunks and however few bytes the kernel accepts, the file has them in order", async () => {
  await fc.assert(
    fc.asyncProperty(
      chunkArrays,
      fc.array(fc.integer({ min: 1, max: 70 }), { minLength: 1 }),
      async (chunks, takes) => {
        const { content, handle } = memoryFile(takes);
        const expected = chunks.flatMap((chunk) => [...chunk]);
        const writer = openAudioWriter(handle, 0);
        for (const chunk of chunks) await writer.write(chunk.slice());
        await writer.flush();
        expect(content).toEqual(expected);
        expect(writer.written()).toBe(expected.length);
      },
    ),
    { numRuns: 200 },
  );
});

test("the sender must wait while many bytes wait for the disk, and may continue afterwards", async () => {
  const gate = Promise.withResolvers<void>();
  const writev = async (chunks: Uint8Array[]) => {
    await gate.promise;
    return { bytesWritten: chunks.reduce((sum, chunk) => sum + chunk.length, 0), buffers: chunks };
  };
  const writer = openAudioWriter({ writev } as unknown as FileHandle, 0);
  expect(writer.write(new Uint8Array(WRITE_AHEAD_BYTES / 2))).toBeUndefined();
  const held = writer.write(new Uint8Array(WRITE_AHEAD_BYTES / 2));
  expect(held).toBeInstanceOf(Promise);
  expect(await Promise.race([held?.then(() => "let go"), Bun.sleep(20).then(() => "held")])).toBe("held");
  gate.resolve();
  await held;
  await writer.flush();
  expect(writer.written()).toBe(WRITE_AHEAD_BYTES);
});

test("a full disk is reported, with the number of written bytes", async () => {
  const { content, handle } = memoryFile([100], 25);
  const writer = openAudioWriter(handle, 0);
  for (let index = 0; index < 2; index += 1) await writer.write(new Uint8Array(10).fill(7));
  await writer.flush();
  await writer.write(new Uint8Array(10));
  await expect(writer.flush()).rejects.toThrow("full");
  expect(writer.written()).toBe(20);
  expect(content.length).toBe(20);
  await expect(writer.write(new Uint8Array(1))).rejects.toThrow("full");
});

test("the memory of written chunks is released, but not that of other buffers", async () => {
  const { handle } = memoryFile([1000]);
  const writer = openAudioWriter(handle, 0);
  const own = new Uint8Array(10);
  const shared = new Uint8Array(20).subarray(5, 15);
  await writer.write(own);
  await writer.write(shared);
  await writer.flush();
  expect(own.buffer.byteLength).toBe(0);
  expect(shared.buffer.byteLength).toBe(20);
});

/** A file whose sync ends when the test calls `finish`. */
function syncedFile() {
  const syncs: PromiseWithResolvers<void>[] = [];
  const handle = {
    writev: async (chunks: Uint8Array[]) => ({
      bytesWritten: chunks.reduce((sum, chunk) => sum + chunk.length, 0),
      buffers: chunks,
    }),
    datasync() {
      const sync = Promise.withResolvers<void>();
      syncs.push(sync);
      return sync.promise;
    },
  };
  return { syncs, handle: handle as unknown as FileHandle };
}

test("parts of a file are synced as they fill, one at a time, while more bytes arrive", async () => {
  const { syncs, handle } = syncedFile();
  const writer = openAudioWriter(handle, SYNC_BYTES - 1);
  const writeSome = async () => {
    await writer.write(new Uint8Array(WRITE_AHEAD_BYTES));
  };
  await writeSome();
  expect(syncs.length).toBe(1);
  for (let bytes = 0; bytes < SYNC_BYTES; bytes += WRITE_AHEAD_BYTES) await writeSome();
  expect(syncs.length).toBe(1);
  let isFlushed = false;
  const flushed = writer.flush().then(() => {
    isFlushed = true;
  });
  await Bun.sleep(5);
  expect(isFlushed).toBe(false);
  syncs[0]?.resolve();
  await flushed;
  for (let bytes = 0; bytes < SYNC_BYTES; bytes += WRITE_AHEAD_BYTES) await writeSome();
  expect(syncs.length).toBe(2);
});

test("a failed sync is reported", async () => {
  const { syncs, handle } = syncedFile();
  const writer = openAudioWriter(handle, SYNC_BYTES - 1);
  await writer.write(new Uint8Array(WRITE_AHEAD_BYTES));
  syncs[0]?.reject(new Error("the disk is broken"));
  await expect(writer.flush()).rejects.toThrow("broken");
  await expect(writer.write(new Uint8Array(1))).rejects.toThrow("broken");
});
