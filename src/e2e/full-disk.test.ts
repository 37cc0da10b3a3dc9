import { afterAll, expect, test } from "bun:test";
import { closeSync, mkdirSync, openSync, rmSync, writeSync } from "node:fs";
import { dirname, join } from "node:path";
import { ApiError } from "../testing/api-client.ts";
import { mayMountDisks, mountSmallDisk, unmountDisk } from "../testing/small-disk.ts";
import { placeBinary } from "./binary.ts";
import { type Installation, install, reached, until, uploaded } from "./kit.ts";
import { sampleBytes } from "./samples.ts";

/** A data directory on a small disk of its own that is full, empty again, and full while the program starts. */

let installation: Installation | undefined;
let disk: string | undefined;
afterAll(async () => {
  if (disk !== undefined) unmountDisk(disk);
  await installation?.remove();
});

/** Writes until nothing goes in any more, to the last byte. */
function fill(path: string): void {
  const file = openSync(path, "w");
  const zeros = Buffer.alloc(1024 * 1024);
  let bytes = zeros.length;
  while (bytes > 0) {
    try {
      if (writeSync(file, zeros, 0, bytes) < bytes) bytes = Math.floor(bytes / 2);
    } catch {
      bytes = Math.floor(bytes / 2);
    }
  }
  closeSync(file);
}

const codeOf = (work: Promise<unknown>) =>
  work.then(
    () => "accepted",
    (error: unknown) => (error instanceof ApiError ? `${error.status} ${error.code}` : String(error)),
  );

test.skipIf(!mayMountDisks())(
  "a full disk is told, ends no accepted work and nobody's server",
  async () => {
    installation = await install({
      async place(path) {
        disk = join(dirname(dirname(path)), "data");
        mkdirSync(disk);
        expect(mountSmallDisk(disk, 200)).toBe(true);
        await placeBinary(path);
      },
    });
    const filler = join(installation.dataDir, "filler");
    let server = await (await installation.serve()).ready();
    let api = server.api();
    const upload = await uploaded(api, sampleBytes("12-en-long"));
    const start = () => api.start({ audio: { upload_id: upload }, language: "en" });
    const ids = [];
    for (let count = 0; count < 4; count++) ids.push((await start()).body.id);
    await reached(api, ids[0] ?? "", ["transcribing"]);
    fill(filler);
    expect(await codeOf(start())).toBe("503 capacity_unavailable");
    expect(await codeOf(api.transcribe(sampleBytes("01-en"), { language: "en" }))).toBe(
      "503 capacity_unavailable",
    );
    expect(await codeOf(api.createUpload(1_000))).toBe("503 capacity_unavailable");
    const probe = await fetch(`${server.baseUrl}/readyz`);
    expect(await probe.json()).toEqual({ status: "not_ready", reasons: ["the disk is nearly full"] });
    const backup = await installation.command("backup", join(installation.dataDir, "copy.db"));
    expect(backup).toMatchObject({ code: 1, err: expect.stringMatching(/^error: .*disk is full/) });
    expect((await api.list()).data.map(({ state }) => state)).not.toContain("failed");
    expect(await server.stop()).toBe(0);

    server = await installation.serve();
    const restarted = server;
    await until("it listens", async () => (await fetch(`${restarted.baseUrl}/healthz`)).ok);
    // Stopped while it cannot write: still in order, by its own will.
    expect(await server.stop()).toBe(0);
    server = await installation.serve();
    rmSync(filler);
    await server.ready();
    api = server.api();
    for (const id of ids) expect((await reached(api, id)).state).toBe("completed");
    expect((await api.usage()).credit.reserved_paise).toBe(0);
    expect((await installation.json<{ ok: boolean }>("credit", "audit")).ok).toBe(true);
    expect(await server.stop()).toBe(0);
  },
  300_000,
);
