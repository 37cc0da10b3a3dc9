import { describe, expect, test } from "bun:test";
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { apiClient } from "../testing/answers/api-client.ts";
import { openTestApp, type TestApp } from "../testing/kits/open-test-app.ts";
import { scriptedAudio } from "../testing/kits/scripted-engine.ts";

/** Lists of old items, and deletions. */

async function withApp(work: (testApp: TestApp) => Promise<void>): Promise<void> {
  const testApp = await openTestApp();
  try {
    await work(testApp);
  } finally {
    await testApp.close();
  }
}

describe("lists", () => {
  test("give every old item once, newest first, while new items arrive", () =>
    withApp(async (testApp) => {
      const client = apiClient(testApp.as(testApp.key));
      const { id: uploadId } = await client.upload(scriptedAudio({ seconds: 1, text: "नमस्ते" }));
      const start = async () =>
        (await client.start({ audio: { upload_id: uploadId }, language: "hi" })).body.id;
      const known: string[] = [];
      for (let n = 0; n < 12; n++) known.push(await start());
      await fc.assert(
        fc.asyncProperty(
          fc.integer({ min: 1, max: 5 }),
          fc.array(fc.nat({ max: 2 }), { maxLength: 20 }),
          async (limit, arrivals) => {
            const old = [...known];
            const seen: string[] = [];
            let after = "";
            for (let page = 0; ; page++) {
              const { data, next } = await client.list(`?limit=${limit}${after}`);
              expect(data.length).toBeLessThanOrEqual(limit);
              seen.push(...data.map(({ id }) => id));
              if (next === null) break;
              expect(next).toBe(data.at(-1)?.id ?? "");
              after = `&after=${next}`;
              for (let n = 0; n < (arrivals[page] ?? 0); n++) known.push(await start());
            }
            expect(seen.filter((id) => old.includes(id))).toEqual(old.toReversed());
            expect(seen).toEqual([...new Set(seen)].sort().reverse());
          },
        ),
        { numRuns: 8 },
      );
    }));

  test("filter by states, and have 20 items by default", () =>
    withApp(async (testApp) => {
      const client = apiClient(testApp.as(testApp.key));
      const { id: uploadId } = await client.upload(scriptedAudio({ seconds: 1, text: "नमस्ते" }));
      for (let n = 0; n < 23; n++) await client.start({ audio: { upload_id: uploadId }, language: "hi" });
      const page = await client.list();
      expect([page.data.length, page.next]).toEqual([20, page.data[19]?.id ?? ""]);
      expect((await client.list("?limit=100")).next).toBeNull();
      expect((await client.list("?limit=23")).next).toBeNull();
      for (const { id } of (await client.list("?limit=100")).data) await client.finished(id);
      const held = testApp.engine.hold();
      const { body } = await client.start({ audio: { upload_id: uploadId }, language: "hi" });
      await client.cancel(body.id);
      held();
      expect((await client.list("?state=cancelled")).data.map(({ id }) => id)).toEqual([body.id]);
      expect((await client.list("?limit=100&state=completed,cancelled")).data.length).toBe(24);
      expect(await client.list("?state=failed,partial")).toEqual({ object: "list", data: [], next: null });
    }));

  test("of usage have pages, one project, and the organization's credit", () =>
    withApp(async (testApp) => {
      const client = apiClient(testApp.as(testApp.key));
      for (let n = 0; n < 3; n++) {
        await client.transcribe(scriptedAudio({ seconds: 2, text: "नमस्ते" }), { language: "hi" });
      }
      const first = await client.usage("?limit=2");
      const second = await client.usage(`?limit=2&after=${first.next}`);
      expect([first.data.length, second.data.length, second.next]).toEqual([2, 1, null]);
      expect(first.data[0]).toMatchObject({
        object: "usage_event",
        state: "completed",
        audio_seconds: 2,
        billed_seconds: 2,
        channels: 1,
        amount_paise: 2,
      });
      const other = testApp.accounts.createProject({ organizationId: testApp.organization.id, name: "b" });
      const theirs = await apiClient(testApp.as(testApp.makeKey(other.id))).usage();
      expect([theirs.data, theirs.credit]).toEqual([[], first.credit]);
      expect(first.credit.balance_paise).toBe(1_000_000 - 6);
    }));
});

describe("DELETE", () => {
  test("leaves no byte of audio or transcript in the data directory", () =>
    withApp(async (testApp) => {
      const client = apiClient(testApp.as(testApp.key));
      const words = "विशिष्टशब्द अद्वितीयवाक्य";
      const { id: uploadId } = await client.upload(scriptedAudio({ seconds: 2, text: words }));
      const { body } = await client.start({ audio: { upload_id: uploadId }, language: "hi" });
      await client.finished(body.id);
      expect((await client.result(body.id)).text).toBe(words);
      const needles = [Buffer.from("विशिष्टशब्द"), Buffer.from("SCRIPTED-AUDIO")];
      expect(filesWith(testApp.directory, needles).length).toBeGreaterThan(0);
      const deleted = await client.remove(body.id);
      expect(deleted).toMatchObject({ state: "completed", content_deleted_at: expect.any(String) });
      expect(deleted.result_url).toBeUndefined();
      expect(filesWith(testApp.directory, needles)).toEqual([]);
      expect(await client.remove(body.id)).toEqual(deleted);
      expect((await client.call("GET", `/v1/uploads/${uploadId}`)).body).toMatchObject({ deleted: true });
      expect((await client.usage()).data.length).toBe(1);
    }));
});

/** Lists the files below a directory that contain any of the byte sequences. */
function filesWith(directory: string, needles: readonly Buffer[]): string[] {
  return readdirSync(directory, { recursive: true, encoding: "utf8" })
    .map((name) => join(directory, name))
    .filter((path) => statSync(path).isFile())
    .filter((path) => {
      const bytes = readFileSync(path);
      return needles.some((needle) => bytes.includes(needle));
    });
}
