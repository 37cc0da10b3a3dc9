import { afterEach, describe, expect, spyOn, test } from "bun:test";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, rmSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { open as openFile } from "node:fs/promises";
import { join } from "node:path";
import { AppError, type ErrorCode } from "../../domain/errors.ts";
import { openLog } from "../../lib/log.ts";
import { transaction } from "../../store/database.ts";
import { findUpload, markAudioDeleted } from "../../store/uploads.ts";
import { manualClock } from "../../testing/kits/manual-clock.ts";
import { testConfig } from "../../testing/kits/test-config.ts";
import {
  CALLER,
  openUploadBench,
  SIBLING,
  STRANGER,
  type UploadBench,
  type UploadBenchOptions,
} from "../../testing/kits/upload-bench.ts";

const open: UploadBench[] = [];
function bench(options: UploadBenchOptions = {}): UploadBench {
  const opened = openUploadBench(options);
  open.push(opened);
  return opened;
}
afterEach(async () => {
  for (const opened of open.splice(0)) await opened.close();
});

const BYTES = new TextEncoder().encode("ten bytes!");
const SHA256 = createHash("sha256").update(BYTES).digest("hex");

function body(...chunks: Uint8Array[]): ReadableStream<Uint8Array> {
  return new ReadableStream({
    start(controller) {
      // Copies, because the receiver keeps the bytes that it gets.
      for (const chunk of chunks) controller.enqueue(chunk.slice());
      controller.close();
    },
  });
}

async function codeOf(work: Promise<unknown> | (() => unknown)): Promise<ErrorCode | "none"> {
  try {
    await (typeof work === "function" ? work() : work);
    return "none";
  } catch (error) {
    if (error instanceof AppError) return error.code;
    throw error;
  }
}

async function sent({ uploads }: UploadBench, sha256?: string): Promise<string> {
  const { upload } = await uploads.create(CALLER, {
    bytes: BYTES.length,
    ...(sha256 === undefined ? {} : { sha256 }),
  });
  await uploads.receive(upload.id, { at: "start over", body: body(BYTES) });
  return upload.id;
}

describe("complete", () => {
  test("fails before all bytes have arrived, changes nothing, and sending continues", async () => {
    const { uploads } = bench();
    const { upload } = await uploads.create(CALLER, { bytes: BYTES.length });
    expect(await codeOf(uploads.complete(CALLER, upload.id))).toBe("upload_incomplete");
    await uploads.receive(upload.id, { at: "start over", body: body(BYTES.subarray(0, 4)) });
    expect(await codeOf(uploads.complete(CALLER, upload.id))).toBe("upload_incomplete");
    expect(uploads.get(CALLER, upload.id).state).toBe("allocated");
    await uploads.receive(upload.id, { at: 4, body: body(BYTES.subarray(4)) });
    const { upload: done, isFinished } = await uploads.complete(CALLER, upload.id);
    expect(isFinished).toBe(true);
    expect(done).toMatchObject({ state: "complete", durationMs: 1000, channels: 1, sampleRateHz: 8000 });
  });

  test("called twice at once verifies once, and both calls get the outcome; a later call gets it as well", async () => {
    let runs = 0;
    const opened = bench({
      verifyAudio: async () => {
        runs += 1;
        await Bun.sleep(20);
        return { durationMs: 5, channels: 2, sampleRateHz: 8000, truncated: true, reading: {} };
      },
    });
    const id = await sent(opened);
    const both = await Promise.all([
      opened.uploads.complete(CALLER, id),
      opened.uploads.complete(CALLER, id),
    ]);
    expect(both.map(({ isFinished }) => isFinished)).toEqual([true, true]);
    expect((await opened.uploads.complete(CALLER, id)).upload).toMatchObject({
      channels: 2,
      truncated: true,
    });
    expect(runs).toBe(1);
  });

  test("with another SHA-256 is rejected with upload_rejected, now and on repetition, and the bytes are deleted", async () => {
    const opened = bench();
    const id = await sent(opened, "0".repeat(64));
    expect(await codeOf(opened.uploads.complete(CALLER, id))).toBe("upload_rejected");
    expect(await codeOf(opened.uploads.complete(CALLER, id))).toBe("upload_rejected");
    const row = opened.uploads.get(CALLER, id);
    expect(row).toMatchObject({ state: "rejected", errorCode: "upload_rejected" });
    expect(row.deletedAt).not.toBeNull();
    expect(existsSync(opened.uploads.audioPath(id))).toBe(false);
  });

  test("with the right SHA-256 succeeds, also when another process received the beginning", async () => {
    const opened = bench();
    const id = await sent(opened, SHA256);
    expect((await opened.uploads.complete(CALLER, id)).isFinished).toBe(true);

    const { upload } = await opened.uploads.create(CALLER, { bytes: BYTES.length, sha256: SHA256 });
    mkdirSync(join(opened.dataDir, "uploads"), { recursive: true });
    // This is the state after a restart: another process received the first half.
    writeFileSync(opened.uploads.audioPath(upload.id), BYTES.subarray(0, 4));
    await opened.uploads.receive(upload.id, { at: 4, body: body(BYTES.subarray(4)) });
    expect((await opened.uploads.complete(CALLER, upload.id)).isFinished).toBe(true);
  });

  test("reports another SHA-256 rather than a failure of the decoder, whichever comes first", async () => {
    for (const failsAt of ["once", "when it is stopped"]) {
      const opened = bench({
        verifyAudio: async (_path, signal) => {
          if (failsAt !== "once") await new Promise((resolve) => signal.addEventListener("abort", resolve));
          throw new AppError("audio_decode_failed");
        },
      });
      const id = await sent(opened, "0".repeat(64));
      expect(await codeOf(opened.uploads.complete(CALLER, id))).toBe("upload_rejected");
      expect(opened.uploads.get(CALLER, id).errorMessage).toContain("SHA-256");
    }
  });

  test("reports a failure of the decoder when the SHA-256 is right", async () => {
    const opened = bench({ verifyAudio: () => Promise.reject(new AppError("audio_decode_failed")) });
    const id = await sent(opened, SHA256);
    expect(await codeOf(opened.uploads.complete(CALLER, id))).toBe("audio_decode_failed");
  });

  test("that is interrupted by a stop is continued by the next start", async () => {
    const decoding = Promise.withResolvers<void>();
    const opened = bench({
      verifyAudio: (_path, signal) => {
        decoding.resolve();
        return new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
      },
    });
    const id = await sent(opened, SHA256);
    const asked = opened.uploads.complete(CALLER, id);
    await decoding.promise;
    await opened.uploads.close();
    expect(await asked).toMatchObject({ isFinished: false, upload: { state: "verifying" } });

    const again = bench({ dataDir: opened.dataDir });
    again.uploads.resumeVerification();
    while (again.uploads.get(CALLER, id).state === "verifying") await Bun.sleep(1);
    expect(again.uploads.get(CALLER, id).state).toBe("complete");
  });

  test("rejects undecodable audio with audio_decode_failed, and audio that is too long or has no samples as well", async () => {
    for (const [thrown, code] of [
      [new AppError("audio_decode_failed"), "audio_decode_failed"],
      [new AppError("audio_too_long", { message: "too long" }), "upload_rejected"],
      [undefined, "audio_decode_failed"],
    ] as const) {
      const opened = bench({
        verifyAudio: async () => {
          if (thrown) throw thrown;
          return { durationMs: 0, channels: 1, sampleRateHz: 8000, truncated: false, reading: {} };
        },
      });
      const id = await sent(opened);
      expect(await codeOf(opened.uploads.complete(CALLER, id))).toBe(code);
      expect(await codeOf(opened.uploads.complete(CALLER, id))).toBe(code);
    }
  });

  test("verifies a large file in the background", async () => {
    const gate = Promise.withResolvers<void>();
    const opened = bench({
      config: testConfig({ storage: { reserve_bytes: 0 }, limits: { verify_in_request_bytes: 5 } }),
      verifyAudio: async () => {
        await gate.promise;
        return { durationMs: 5, channels: 1, sampleRateHz: 8000, truncated: false, reading: {} };
      },
    });
    const id = await sent(opened);
    expect(await opened.uploads.complete(CALLER, id)).toMatchObject({
      isFinished: false,
      upload: { state: "verifying" },
    });
    expect(await codeOf(opened.uploads.receive(id, { at: "start over", body: body(BYTES) }))).toBe(
      "conflict",
    );
    expect(await codeOf(opened.uploads.discardBytes(id))).toBe("conflict");
    gate.resolve();
    while (opened.uploads.get(CALLER, id).state === "verifying") await Bun.sleep(1);
    expect((await opened.uploads.complete(CALLER, id)).isFinished).toBe(true);
  });

  test("keeps the state verifying after a failure of the machine and tries again, also after a restart", async () => {
    const clock = manualClock();
    let failures = 0;
    const opened = bench({
      clock,
      verifyAudio: async () => {
        failures += 1;
        throw new Error("no process could be started");
      },
    });
    const id = await sent(opened);
    expect(await opened.uploads.complete(CALLER, id)).toMatchObject({ isFinished: false });
    opened.uploads.resumeVerification();
    expect(failures).toBe(1);
    clock.advance(60_000);
    opened.uploads.resumeVerification();
    while (failures < 2) await Bun.sleep(1);
    await Bun.sleep(1);
    // Where the clock is put back, it does not wait for as long.
    clock.leap(-40 * 86_400_000);
    opened.uploads.resumeVerification();
    while (failures < 3) await Bun.sleep(1);
    await opened.uploads.close();

    const again = bench({ dataDir: opened.dataDir });
    again.uploads.resumeVerification();
    while (again.uploads.get(CALLER, id).state === "verifying") await Bun.sleep(1);
    expect(again.uploads.get(CALLER, id).state).toBe("complete");
  });

  test("rejects the upload after six failures of the machine", async () => {
    const clock = manualClock();
    let runs = 0;
    const opened = bench({
      clock,
      verifyAudio: () => {
        runs += 1;
        return Promise.reject(new Error("no"));
      },
    });
    const id = await sent(opened);
    await opened.uploads.complete(CALLER, id);
    while (opened.uploads.get(CALLER, id).state === "verifying") {
      clock.advance(3_600_000);
      opened.uploads.resumeVerification();
      await Bun.sleep(1);
    }
    expect(runs).toBe(6);
    expect(opened.uploads.get(CALLER, id)).toMatchObject({ state: "rejected", errorCode: "upload_rejected" });
  });

  test("a store that cannot be read afterwards ends only that run", async () => {
    const before = bench({ verifyAudio: () => Promise.reject(new Error("no")) });
    await before.uploads.complete(CALLER, await sent(before));
    await before.uploads.close();
    const errors: string[] = [];
    const again: UploadBench = bench({
      dataDir: before.dataDir,
      log: openLog("error", "json", (line) => void errors.push(line)),
      async verifyAudio() {
        again.database.close();
        throw new Error("no");
      },
    });
    again.uploads.resumeVerification();
    while (errors.length < 2) await Bun.sleep(1);
    expect(errors[1]).toContain("closed database");
  });

  test("waits as long as the disk is full", async () => {
    const clock = manualClock();
    let runs = 0;
    let failure: Error | undefined = Object.assign(new Error("no space left on device"), { code: "ENOSPC" });
    const opened = bench({
      clock,
      async verifyAudio() {
        runs += 1;
        if (failure) throw failure;
        return { durationMs: 1000, channels: 1, sampleRateHz: 8000, truncated: false, reading: {} };
      },
    });
    const id = await sent(opened);
    await opened.uploads.complete(CALLER, id);
    const failUntil = async (count: number) => {
      while (runs < count && opened.uploads.get(CALLER, id).state === "verifying") {
        clock.advance(60_000);
        opened.uploads.resumeVerification();
        await Bun.sleep(1);
      }
    };
    await failUntil(10);
    expect(opened.uploads.get(CALLER, id).state).toBe("verifying");
    // Other failures have their own count of attempts, once the disk has space.
    failure = new Error("no process could be started");
    await failUntil(15);
    expect(opened.uploads.get(CALLER, id).state).toBe("verifying");
    failure = undefined;
    clock.advance(60_000);
    expect(await opened.uploads.complete(CALLER, id)).toMatchObject({ isFinished: true });
  });
});

describe("receiving", () => {
  test("never stores more bytes than declared, in one chunk or many", async () => {
    const opened = bench();
    const { upload } = await opened.uploads.create(CALLER, { bytes: 4 });
    const path = opened.uploads.audioPath(upload.id);
    const refused = opened.uploads.receive(upload.id, { at: "start over", body: body(BYTES) });
    expect(await codeOf(refused)).toBe("audio_too_large");
    expect(statSync(path).size).toBe(0);
    await opened.uploads.receive(upload.id, { at: "start over", body: body(BYTES.subarray(0, 2)) });
    const chunks = [BYTES.subarray(2, 3), BYTES.subarray(3, 4), BYTES.subarray(4, 5)];
    expect(await codeOf(opened.uploads.receive(upload.id, { at: 2, body: body(...chunks) }))).toBe(
      "audio_too_large",
    );
    expect(statSync(path).size).toBe(2);
    const declared = { at: 2, body: body(), declaredBytes: 3 };
    expect(await codeOf(opened.uploads.receive(upload.id, declared))).toBe("audio_too_large");
  });

  test("a newer request ends the older one, whose bytes are kept", async () => {
    const opened = bench();
    const { upload } = await opened.uploads.create(CALLER, { bytes: BYTES.length });
    const stalled = new ReadableStream<Uint8Array>({
      start: (controller) => controller.enqueue(BYTES.slice(0, 6)),
    });
    const first = codeOf(opened.uploads.receive(upload.id, { at: "start over", body: stalled }));
    while ((await opened.uploads.storedBytes(upload.id)) !== 6) await Bun.sleep(1);
    expect(await codeOf(opened.uploads.complete(CALLER, upload.id))).toBe("upload_incomplete");
    await opened.uploads.settleWriter(upload.id);
    expect(await first).toBe("conflict");
    const { isWhole } = await opened.uploads.receive(upload.id, { at: 6, body: body(BYTES.subarray(6)) });
    expect(isWhole).toBe(true);
    expect(await Bun.file(opened.uploads.audioPath(upload.id)).text()).toBe("ten bytes!");
  });

  test("a complete file and its name are on the disk before the response is sent", async () => {
    const opened = bench();
    const { upload } = await opened.uploads.create(CALLER, { bytes: BYTES.length });
    const probe = await openFile(opened.dataDir, "r");
    const sync = spyOn(Object.getPrototypeOf(probe) as typeof probe, "sync");
    await probe.close();
    try {
      await opened.uploads.receive(upload.id, { at: "start over", body: body(BYTES.subarray(0, 4)) });
      expect(sync).toHaveBeenCalledTimes(0);
      await opened.uploads.receive(upload.id, { at: 4, body: body(BYTES.subarray(4)) });
      expect(sync).toHaveBeenCalledTimes(2);
      await opened.uploads.complete(CALLER, upload.id);
      expect(sync).toHaveBeenCalledTimes(4);
    } finally {
      sync.mockRestore();
    }
  });

  test("closing the service ends a running request, whose bytes are kept", async () => {
    const opened = bench();
    const { upload } = await opened.uploads.create(CALLER, { bytes: BYTES.length });
    const stalled = new ReadableStream<Uint8Array>({
      start: (controller) => controller.enqueue(BYTES.slice(0, 6)),
    });
    const sending = codeOf(opened.uploads.receive(upload.id, { at: "start over", body: stalled }));
    while ((await opened.uploads.storedBytes(upload.id)) !== 6) await Bun.sleep(1);
    await opened.uploads.close();
    expect(await sending).toBe("conflict");
    expect(await opened.uploads.storedBytes(upload.id)).toBe(6);
  });

  test("a position other than the end of the file is a conflict", async () => {
    const opened = bench();
    const { upload } = await opened.uploads.create(CALLER, { bytes: BYTES.length });
    for (const at of [1, 5, 10]) {
      expect(await codeOf(opened.uploads.receive(upload.id, { at, body: body() }))).toBe("conflict");
    }
  });

  test("a nearly full disk refuses new uploads, and ends running ones while the others continue", async () => {
    let free = 1000;
    const opened = bench({
      config: testConfig({ storage: { reserve_bytes: 500 } }),
      freeBytes: () => Promise.resolve(free),
    });
    const { upload } = await opened.uploads.create(CALLER, { bytes: BYTES.length });
    expect(await codeOf(opened.uploads.create(CALLER, { bytes: 600 }))).toBe("capacity_unavailable");
    const whole = await sent(opened);
    free = 400;
    expect(await codeOf(opened.uploads.create(CALLER, { bytes: 1 }))).toBe("capacity_unavailable");
    await opened.uploads.receive(upload.id, { at: "start over", body: body(BYTES.subarray(0, 5)) });
    free = 200;
    const refused = opened.uploads.receive(upload.id, { at: 5, body: body(BYTES.subarray(5)) });
    expect(await codeOf(refused)).toBe("capacity_unavailable");
    expect(await opened.uploads.storedBytes(upload.id)).toBe(5);
    expect((await opened.uploads.complete(CALLER, whole)).isFinished).toBe(true);
  });
});

describe("ownership and tokens", () => {
  test("only the project that owns an upload sees it", async () => {
    const opened = bench();
    const id = await sent(opened);
    expect(await codeOf(() => opened.uploads.get(SIBLING, id))).toBe("forbidden");
    expect(await codeOf(() => opened.uploads.get(STRANGER, id))).toBe("not_found");
    expect(await codeOf(opened.uploads.complete(SIBLING, id))).toBe("forbidden");
  });

  test("the token is stored as a hash, and no other token opens the upload", async () => {
    const opened = bench();
    const { upload, token } = await opened.uploads.create(CALLER, { bytes: 1 });
    const other = await opened.uploads.create(CALLER, { bytes: 1 });
    expect(JSON.stringify(findUpload(opened.database.store, upload.id))).not.toContain(token.slice(8));
    expect(opened.uploads.authorize(upload.id, token).id).toBe(upload.id);
    for (const wrong of [undefined, "", other.token, `${token}x`]) {
      expect(await codeOf(() => opened.uploads.authorize(upload.id, wrong))).toBe("unauthorized");
    }
    expect(await codeOf(() => opened.uploads.authorize("up_unknown", token))).toBe("unauthorized");
    opened.database.sqlite.run("UPDATE organizations SET disabled_at = 1");
    expect(await codeOf(() => opened.uploads.authorize(upload.id, token))).toBe("organization_disabled");
  });

  test("a transcription starts from a complete upload with its audio only", async () => {
    const opened = bench();
    const { store } = opened.database;
    const require = (caller: typeof CALLER, id: string) =>
      codeOf(() => opened.uploads.requireComplete(store, caller, id));
    const id = await sent(opened);
    expect(await require(CALLER, id)).toBe("upload_incomplete");
    await opened.uploads.complete(CALLER, id);
    expect(await require(CALLER, id)).toBe("none");
    expect(await require(SIBLING, id)).toBe("forbidden");
    expect(await require(STRANGER, id)).toBe("not_found");
    expect(await require(CALLER, "up_../../etc/passwd")).toBe("not_found");
    transaction(store, (tx) => markAudioDeleted(tx, id, 1));
    await opened.uploads.removeAudioFile(id);
    expect(await require(CALLER, id)).toBe("content_deleted");
    expect(existsSync(opened.uploads.audioPath(id))).toBe(false);
    expect((await opened.uploads.complete(CALLER, id)).isFinished).toBe(true);
  });
});

describe("time and sweeps", () => {
  test("an upload that does not arrive in time is rejected, and its bytes are removed", async () => {
    const clock = manualClock();
    const opened = bench({ clock });
    const { upload, token } = await opened.uploads.create(CALLER, { bytes: BYTES.length });
    const kept = await sent(opened);
    await opened.uploads.complete(CALLER, kept);
    await opened.uploads.receive(upload.id, { at: "start over", body: body(BYTES.subarray(0, 5)) });
    clock.advance(86_400_000 - 1);
    expect(opened.uploads.get(CALLER, upload.id).state).toBe("allocated");
    clock.advance(1);
    expect(opened.uploads.authorize(upload.id, token).state).toBe("rejected");
    expect(await codeOf(opened.uploads.complete(CALLER, upload.id))).toBe("upload_rejected");
    const { upload: second } = await opened.uploads.create(CALLER, { bytes: 1 });
    clock.advance(86_400_000);
    expect(await opened.uploads.expire({ nowMs: clock.now(), wrong: [] })).toBe(1);
    expect(opened.uploads.get(CALLER, second.id)).toMatchObject({
      state: "rejected",
      errorCode: "upload_rejected",
    });
    expect(readdirSync(join(opened.dataDir, "uploads"))).toEqual([kept]);
  });

  test("an upload that expires while it is being sent is ended", async () => {
    const clock = manualClock();
    const opened = bench({ clock });
    const { upload } = await opened.uploads.create(CALLER, { bytes: BYTES.length });
    const stalled = new ReadableStream<Uint8Array>({
      start: (controller) => controller.enqueue(BYTES.slice(0, 6)),
    });
    const sending = codeOf(opened.uploads.receive(upload.id, { at: "start over", body: stalled }));
    while ((await opened.uploads.storedBytes(upload.id)) !== 6) await Bun.sleep(1);
    clock.advance(86_400_000);
    expect(await opened.uploads.expire({ nowMs: clock.now(), wrong: [] })).toBe(1);
    expect(await sending).toBe("conflict");
    expect(existsSync(opened.uploads.audioPath(upload.id))).toBe(false);
  });

  test("the sweep removes files without an upload, marks uploads without a file, and changes nothing else", async () => {
    const opened = bench();
    const complete = await sent(opened);
    await opened.uploads.complete(CALLER, complete);
    const lost = await sent(opened);
    await opened.uploads.complete(CALLER, lost);
    rmSync(opened.uploads.audioPath(lost));
    const { upload: running } = await opened.uploads.create(CALLER, { bytes: BYTES.length });
    await opened.uploads.receive(running.id, { at: "start over", body: body(BYTES.subarray(0, 3)) });
    const deleted = await sent(opened);
    await opened.uploads.complete(CALLER, deleted);
    transaction(opened.database.store, (tx) => markAudioDeleted(tx, deleted, 1));
    const folder = join(opened.dataDir, "uploads");
    writeFileSync(join(folder, "stray"), "x");
    writeFileSync(join(folder, "up_01KAJ5KZQ8D3F5G7H9J1K3M5N7"), "x");
    for (const name of readdirSync(folder)) utimesSync(join(folder, name), 1, 1);
    writeFileSync(join(folder, "new"), "x");
    await opened.uploads.close();

    const next = bench({ dataDir: opened.dataDir });
    utimesSync(join(folder, "new"), Date.now() / 1000 + 60, Date.now() / 1000 + 60);
    expect(await next.uploads.sweepOrphans()).toEqual({ filesRemoved: 3, recordsMarked: 1 });
    expect(readdirSync(folder).sort()).toEqual([complete, running.id, "new"].sort());
    expect(next.uploads.get(CALLER, lost)).toMatchObject({ state: "complete" });
    expect(next.uploads.get(CALLER, lost).deletedAt).not.toBeNull();
    expect(await next.uploads.sweepOrphans()).toEqual({ filesRemoved: 0, recordsMarked: 0 });
  });

  test("when the whole directory of recordings is missing, no upload is marked", async () => {
    const opened = bench();
    const id = await sent(opened);
    await opened.uploads.complete(CALLER, id);
    rmSync(join(opened.dataDir, "uploads"), { recursive: true });
    // The first service creates the directory. The second one, as after a restart, finds it empty.
    for (let starts = 0; starts < 2; starts += 1) {
      expect(await opened.uploads.sweepOrphans()).toEqual({ filesRemoved: 0, recordsMarked: 0 });
      expect(opened.uploads.get(CALLER, id).deletedAt).toBeNull();
    }
  });

  test("the file of a synchronous request becomes a complete upload, and this can be undone", async () => {
    const opened = bench();
    const path = join(opened.dataDir, "incoming");
    writeFileSync(path, BYTES);
    mkdirSync(join(opened.dataDir, "uploads"), { recursive: true });
    const verified = { durationMs: 1234.4, channels: 2, sampleRateHz: 16_000, truncated: false, reading: {} };
    const upload = await opened.uploads.adoptFile(CALLER, {
      path,
      bytes: BYTES.length,
      sha256: SHA256,
      verified,
    });
    expect(upload).toMatchObject({ state: "complete", durationMs: 1234, channels: 2 });
    expect(existsSync(path)).toBe(false);
    expect(opened.uploads.requireComplete(opened.database.store, CALLER, upload.id).id).toBe(upload.id);
    await opened.uploads.discardAdopted(upload.id);
    expect(existsSync(opened.uploads.audioPath(upload.id))).toBe(false);
    expect(await codeOf(() => opened.uploads.get(CALLER, upload.id))).toBe("not_found");
  });
});
