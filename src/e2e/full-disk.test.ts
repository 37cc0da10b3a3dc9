import { afterAll, expect, test } from "bun:test";
import { closeSync, mkdirSync, openSync, rmSync, writeSync } from "node:fs";
import { dirname, join } from "node:path";
import { ApiError } from "../testing/api-client.ts";
import { mayMountDisks, mountSmallDisk, unmountDisk } from "../testing/small-disk.ts";
import { placeBinary } from "./binary.ts";
import { type Installation, install, reached, until, uploaded } from "./kit.ts";
import { sampleBytes } from "./samples.ts";

/** A data directory on a small disk that is full, has space again, and is full while the program starts. */

let installation: Installation | undefined;
let disk: string | undefined;
afterAll(async () => {
  if (disk !== undefined) unmountDisk(disk);
  await installation?.remove();
});

/** Fills the disk to the last byte. */
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
  "a full disk is reported; accepted work and the server survive it",
  async () => {
    installation = await install({
      async place(path) {
        disk = join(dirname(dirname(path)), "data");
        mkdirSync(disk);
        expect(mountSmallDisk(disk, 200)).toBe(true);
        await placeBinary(path);
      },
    });
    let server = await (await installation.serve()).ready();
    let api = server.api();
    const upload = await uploaded(api, sampleBytes("12-en-long"));
    const start = () => api.start({ audio: { upload_id: upload }, language: "en" });
    const ids: string[] = [];
    for (let count = 0; count < 4; count++) ids.push((await start()).body.id);
    await reached(api, ids[0] ?? "", ["transcribing"]);
    const fillers: string[] = [];
    /** Checks work on the full disk. Uploads that found no space remove the bytes that they had written. */
    const refusal = async (work: () => Promise<unknown>) => {
      let code = "accepted";
      while (code === "accepted") {
        const filler = join(disk ?? "", `filler-${fillers.length}`);
        fillers.push(filler);
        fill(filler);
        code = await codeOf(work());
      }
      return code;
    };
    const command = installation.command;
    const copy = join(installation.dataDir, "copy.db");
    const backUp = async () => {
      const { code, err } = await command("backup", copy);
      rmSync(copy, { force: true });
      if (code !== 0) throw new Error(`${code} ${err}`);
    };
    expect(await refusal(async () => ids.push((await start()).body.id))).toBe("503 capacity_unavailable");
    const said = sampleBytes("01-en");
    expect(await refusal(() => api.transcribe(said, { language: "en" }))).toBe("503 capacity_unavailable");
    expect(await refusal(() => api.createUpload(1_000))).toBe("503 capacity_unavailable");
    const { baseUrl } = server;
    const askReadiness = async () => {
      const probe = await fetch(`${baseUrl}/readyz`);
      if (!probe.ok) throw new Error(await probe.text());
    };
    expect(await refusal(askReadiness)).toBe(
      'Error: {"status":"not_ready","reasons":["the disk is nearly full"]}',
    );
    expect(await refusal(backUp)).toMatch(/^Error: 1 error: .*disk is full/);
    expect((await api.list()).data.map(({ state }) => state)).not.toContain("failed");
    expect(await server.stop()).toBe(0);

    server = await installation.serve();
    const restarted = server;
    await until("it listens", async () => (await fetch(`${restarted.baseUrl}/healthz`)).ok);
    // A stop while the disk is full is still orderly.
    expect(await server.stop()).toBe(0);
    server = await installation.serve();
    for (const filler of fillers) rmSync(filler);
    await server.ready();
    api = server.api();
    for (const id of ids) expect((await reached(api, id)).state).toBe("completed");
    expect((await api.usage()).credit.reserved_paise).toBe(0);
    expect((await installation.json<{ ok: boolean }>("credit", "audit")).ok).toBe(true);
    expect(await server.stop()).toBe(0);
  },
  300_000,
);
