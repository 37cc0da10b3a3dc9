import { afterAll, expect, test } from "bun:test";
import { mkdirSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { ApiError } from "../testing/answers/api-client.ts";
import { fillDisk, mayMountDisks, mountSmallDisk, unmountDisk } from "../testing/boxes/small-disk.ts";
import { placeWithSmallDisk } from "./held-server.ts";
import { type Installation, install, reached, until, uploaded } from "./kit.ts";
import { concatenated, sampleBytes, wavFile } from "./samples.ts";

/** A data directory on a small disk that is full, has space again, and is full while the program starts. */

let installation: Installation | undefined;
let disk: string | undefined;
afterAll(async () => {
  if (disk !== undefined) unmountDisk(disk);
  await installation?.remove();
});

const codeOf = (work: Promise<unknown>) =>
  work.then(
    () => "accepted",
    (error: unknown) => (error instanceof ApiError ? `${error.status} ${error.code}` : String(error)),
  );

test.skipIf(!mayMountDisks())(
  "a full disk is reported; accepted work and the server survive it (needs root on Linux)",
  async () => {
    installation = await install({
      place: placeWithSmallDisk(200),
    });
    disk = installation.dataDir;
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
        fillDisk(filler);
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

const MB = 1024 * 1024;
/** Enlarges a disk of `mountSmallDisk`. */
const enlarge = (path: string, megabytes: number) =>
  Bun.spawnSync(["mount", "-o", `remount,size=${megabytes}m`, path]).exitCode;

test.skipIf(!mayMountDisks())(
  "a backup whose disk gets full fails with the reason, and the backups from before are as they were (needs root on Linux)",
  async () => {
    const own = await install();
    const target = join(own.folder, "backups");
    mkdirSync(target);
    try {
      expect(mountSmallDisk(target, 6)).toBe(true);
      const server = await (await own.serve()).ready();
      const upload = () =>
        uploaded(server.api(), wavFile([new Uint8Array(3 * MB)], { rateHz: 16_000, channels: 1 }));
      await upload();
      const store = join(target, "store");
      await own.output("backup", "--to", store);
      const before = readdirSync(store, { recursive: true }).sort();
      for (let n = 0; n < 2; n++) {
        // Different bytes: the store holds equal recordings once.
        const bytes = new Uint8Array(3 * MB).fill(n + 1);
        await uploaded(server.api(), wavFile([bytes], { rateHz: 16_000, channels: 1 }));
      }
      for (let n = 0; n < 2; n++) {
        const failed = await own.command("backup", "--to", store);
        expect({ ...failed }).toMatchObject({
          code: 1,
          err: expect.stringMatching(/disk is full|no space/i),
        });
        const archive = await own.command("backup", join(target, "all.tar"), "--all");
        expect({ ...archive }).toMatchObject({
          code: 1,
          err: expect.stringMatching(/disk is full|no space/i),
        });
        expect(readdirSync(target)).toEqual(["store"]);
        expect(readdirSync(store, { recursive: true }).sort()).toEqual(before);
        expect((await own.command("backup", "verify", store)).code).toBe(0);
      }
      expect(enlarge(target, 60)).toBe(0);
      await own.output("backup", "--to", store);
      await own.output("backup", join(target, "all.tar"), "--all");
      for (const path of [store, join(target, "all.tar")])
        expect((await own.command("backup", "verify", path)).code).toBe(0);
      expect(await server.stop()).toBe(0);
    } finally {
      unmountDisk(target);
      await own.remove();
    }
  },
  120_000,
);

test.skipIf(!mayMountDisks())(
  "a resumable upload waits for space: the refusal says so, and the client continues from where it was (needs root on Linux)",
  async () => {
    const own = await install({
      place: placeWithSmallDisk(200),
    });
    const small = own.dataDir;
    try {
      const server = await (await own.serve()).ready();
      const recording = concatenated(["04-en"], 40);
      const api = server.api();
      const created = await api.createUpload(recording.length);
      const { endpoint, headers, metadata } = created.resumable_upload ?? {
        ...{ endpoint: "", headers: {}, metadata: {} },
      };
      const encoded = Object.entries(metadata).map(([name, value]) => `${name} ${btoa(String(value))}`);
      const tus = { ...headers, "tus-resumable": "1.0.0" };
      const made = await fetch(endpoint, {
        method: "POST",
        headers: { ...tus, "upload-length": String(recording.length), "upload-metadata": encoded.join(",") },
      });
      expect(made.status).toBe(201);
      const address = new URL(made.headers.get("location") ?? "", endpoint).href;
      const offset = async () =>
        Number((await fetch(address, { method: "HEAD", headers: tus })).headers.get("upload-offset"));
      const send = async (from: number, to: number) => {
        const body = recording.subarray(from, to);
        const type = "application/offset+octet-stream";
        return await fetch(address, {
          ...{ method: "PATCH", body },
          headers: { ...tus, "upload-offset": String(from), "content-type": type },
        });
      };
      expect((await send(0, 1_000_000)).status).toBe(204);
      fillDisk(join(small, "filler"));
      const refused = await send(1_000_000, recording.length);
      expect([refused.status, refused.headers.get("retry-after")]).toEqual([
        503,
        expect.stringMatching(/^\d+$/),
      ]);
      expect(await refused.json()).toMatchObject({ error: { code: "capacity_unavailable" } });
      rmSync(join(small, "filler"));
      // Whatever was stored before the disk was full is right.
      const stored = await offset();
      expect(stored).toBeGreaterThanOrEqual(1_000_000);
      expect((await send(stored, recording.length)).status).toBe(204);
      await api.call("POST", `/v1/uploads/${created.id}/complete`);
      await until("it is verified", async () => {
        const { body } = await api.call<{ state: string }>("GET", `/v1/uploads/${created.id}`);
        return body.state === "complete";
      });
      const sent = new Bun.CryptoHasher("sha256").update(recording).digest("hex");
      const kept = new Bun.CryptoHasher("sha256")
        .update(readFileSync(join(small, "uploads", created.id)))
        .digest("hex");
      expect(kept).toBe(sent);
      expect(await server.stop()).toBe(0);
    } finally {
      unmountDisk(small);
      await own.remove();
    }
  },
  120_000,
);
