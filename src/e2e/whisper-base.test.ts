import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { carriedWhisperBase } from "../../scripts/models/carried.ts";
import { type Installation, install, type RunningServer } from "./kit.ts";

/** A fresh installation understands people who speak English. Left out where the build could not get the weights. */

/** President Kennedy, 1961; public domain. */
const PERSON = join(import.meta.dir, "../../models/trial/jfk.wav");
const SAID =
  "and so my fellow americans ask not what your country can do for you ask what you can do for your country";

const base = carriedWhisperBase();
if (!base) console.log("left out: the build could not get the weights of Whisper base");

const plain = (text: string) =>
  text
    .toLowerCase()
    .replace(/[^a-z ]/g, "")
    .trim();

describe.skipIf(!base)(
  "a fresh installation with Whisper base inside (needs the weights of Whisper base)",
  () => {
    let installation: Installation;
    let server: RunningServer;
    beforeAll(async () => {
      installation = await install({ default: "carried" });
      server = await (await installation.serve()).ready();
    }, 60_000);
    afterAll(async () => {
      await server?.stop();
      await installation?.remove();
    });

    const carried = () => join(installation.dataDir, "embedded-models", `${base?.sha256.slice(0, 12)}.bin`);

    test("is ready without having loaded it, and lists it as the default", async () => {
      const models = await server
        .api()
        .call<{ data: { id: string; default: boolean }[] }>("GET", "/v1/models");
      expect(models.body.data.map(({ id, default: isDefault }) => [id, isDefault])).toEqual([
        ["whisper-base", true],
        ["demo", false],
      ]);
      const log = server.log();
      expect(log).toContain('"model":"whisper-base","workers":');
      expect(log).toContain('"model":"demo","msg":"ready"');
      expect(log.match(/"msg":"model loaded"/g)).toHaveLength(1);
    });

    test("understands a person, and names what knows another language", async () => {
      const api = server.api();
      const bytes = new Uint8Array(readFileSync(PERSON));
      const result = await api.transcribe(bytes, { language: "en" });
      expect(plain(result.text)).toBe(SAID);
      expect(result).toMatchObject({ model: "whisper-base", status: "completed" });
      await expect(api.transcribe(bytes, { language: "ta" })).rejects.toThrow(
        /unsupported_language.*IndicConformer/,
      );
    }, 60_000);

    test("writes damaged or missing weights again at the next start, and removes those of other versions", async () => {
      expect(await server.stop()).toBe(0);
      const whole = readFileSync(carried());
      writeFileSync(carried(), whole.subarray(0, 1000));
      writeFileSync(join(installation.dataDir, "embedded-models/0123456789ab.bin"), "older");
      server = await (await installation.serve()).ready();
      expect(readFileSync(carried()).equals(whole)).toBe(true);
      expect(readdirSync(join(installation.dataDir, "embedded-models"))).toHaveLength(4);
    }, 60_000);
  },
);
