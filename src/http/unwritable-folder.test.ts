import { afterEach, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { apiClient } from "../testing/answers/api-client.ts";
import { mayMountDisks, mountSmallDisk, unmountDisk } from "../testing/boxes/small-disk.ts";
import { openTestApp, type TestApp } from "../testing/kits/open-test-app.ts";
import { scriptedAudio } from "../testing/kits/scripted-engine.ts";

/** Folders of the data directory that the server may not write: here a file system that is read-only, also for root. */

const mounted: string[] = [];
let testApp: TestApp | undefined;
afterEach(async () => {
  await testApp?.close();
  testApp = undefined;
  for (const folder of mounted.splice(0)) unmountDisk(folder);
});

const setWritable = (folder: string, isWritable: boolean) =>
  Bun.spawnSync(["mount", "-o", `remount,${isWritable ? "rw" : "ro"}`, folder]).exitCode;

test.skipIf(!mayMountDisks())(
  "an upload into a folder that cannot be written gets 503, and readiness names the folder (needs root on Linux)",
  async () => {
    const directory = mkdtempSync(join(tmpdir(), "shruti-unwritable-"));
    testApp = await openTestApp({ directory, listens: true });
    for (const name of ["uploads", "incoming"]) {
      mkdirSync(join(directory, name), { recursive: true });
      expect(mountSmallDisk(join(directory, name), 8)).toBe(true);
      mounted.push(join(directory, name));
    }
    const { baseUrl } = testApp;
    const client = apiClient(testApp.as(testApp.key));
    const audio = scriptedAudio({ seconds: 1, text: "नमस्ते" });
    for (const folder of mounted) expect(setWritable(folder, false)).toBe(0);
    const created = await client.createUpload(audio.byteLength);
    const { method, url, headers } = created.upload;
    const form = new FormData();
    form.set("language", "hi");
    form.set("file", new File([audio], "a.wav"));
    const answers = [
      await client.send(new URL(url).pathname, { method, headers, body: audio }),
      await client.send("/v1/audio/transcriptions", { method: "POST", body: form }),
    ];
    for (const answer of answers) {
      expect([answer.status, answer.headers.get("retry-after")]).toEqual([503, "60"]);
      expect(await answer.json()).toMatchObject({
        error: { code: "capacity_unavailable", message: "The server cannot write its files now." },
      });
    }
    const probe = await fetch(`${baseUrl()}/readyz`);
    expect([probe.status, await probe.json()]).toMatchObject([
      503,
      {
        reasons: [
          "the folder uploads of the data directory cannot be written (EROFS)",
          "the folder incoming of the data directory cannot be written (EROFS)",
        ],
      },
    ]);
    for (const folder of mounted) expect(setWritable(folder, true)).toBe(0);
    expect((await client.send(new URL(url).pathname, { method, headers, body: audio })).status).toBe(200);
    expect((await fetch(`${baseUrl()}/readyz`)).status).toBe(200);
    await testApp.close();
    testApp = undefined;
    for (const folder of mounted.splice(0)) unmountDisk(folder);
    rmSync(directory, { recursive: true, force: true });
  },
  30_000,
);

test.skipIf(!mayMountDisks())(
  "tus in a folder that cannot be written: a creation and a termination get 503, and the bytes stay (needs root on Linux)",
  async () => {
    const directory = mkdtempSync(join(tmpdir(), "shruti-unwritable-"));
    testApp = await openTestApp({ directory });
    const folder = join(directory, "uploads");
    mkdirSync(folder, { recursive: true });
    expect(mountSmallDisk(folder, 8)).toBe(true);
    mounted.push(folder);
    const client = apiClient(testApp.as(testApp.key));
    const create = async () => {
      const { id, resumable_upload } = await client.createUpload(10);
      const headers = {
        ...(resumable_upload?.headers as { authorization: string }),
        "tus-resumable": "1.0.0",
      };
      const creation = { "upload-length": "10", "upload-metadata": `upload_id ${btoa(id)}` };
      return { path: `/storage/tus/${id}`, headers, creation: { ...headers, ...creation } };
    };
    const [kept, refused] = [await create(), await create()];
    const begin = ({ creation }: typeof kept) =>
      client.send("/storage/tus", {
        method: "POST",
        headers: { ...creation, "content-type": "application/offset+octet-stream" },
        body: "12345",
      });
    expect((await begin(kept)).status).toBe(201);
    expect(setWritable(folder, false)).toBe(0);
    const answers = [
      await begin(refused),
      await client.send(kept.path, { method: "DELETE", headers: kept.headers }),
    ];
    for (const answer of answers) {
      expect([answer.status, answer.headers.get("retry-after")]).toEqual([503, "60"]);
      expect(await answer.json()).toMatchObject({ error: { code: "capacity_unavailable" } });
    }
    expect(setWritable(folder, true)).toBe(0);
    const head = await client.send(kept.path, { method: "HEAD", headers: kept.headers });
    expect(head.headers.get("upload-offset")).toBe("5");
    await testApp.close();
    testApp = undefined;
    for (const each of mounted.splice(0)) unmountDisk(each);
    rmSync(directory, { recursive: true, force: true });
  },
  30_000,
);
