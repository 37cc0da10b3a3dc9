import { Database } from "bun:sqlite";
import { afterAll, beforeAll, expect, test } from "bun:test";
import { copyFileSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { openApplianceKey } from "../services/signed/appliance-key.ts";
import type { Evidence } from "../services/signed/evidence.ts";
import { canonicalJson, type SignedDocument, signDocument } from "../services/signed/signed-documents.ts";
import type { ApiClient } from "../testing/answers/api-client.ts";
import { type Installation, install, type RunningServer, reached, until, uploaded } from "./kit.ts";
import { sampleBytes, samplePath } from "./samples.ts";

/** Evidence of transcriptions, made and verified by the compiled executable. */

let installation: Installation;
let server: RunningServer;
let api: ApiClient;
const at = (name: string) => join(installation.folder, name);
beforeAll(async () => {
  const environment = {
    ...{ SHRUTI_CAPABILITIES_WORD_TIMESTAMPS: "true", SHRUTI_CAPABILITIES_WRITTEN_FORM: "true" },
  };
  installation = await install({ environment });
  server = await (await installation.serve()).ready();
  api = server.api();
}, 120_000);
afterAll(async () => {
  await server?.stop();
  await installation?.remove();
});

const DEMO = join(import.meta.dir, "../../models/demo.bin");
type Signed = SignedDocument<Evidence>;
const sha256 = (bytes: Uint8Array | string) => new Bun.CryptoHasher("sha256").update(bytes).digest("hex");

async function transcribed(sample: string, more: Record<string, unknown> = {}): Promise<string> {
  const upload_id = await uploaded(api, sampleBytes(sample));
  const { id } = (await api.start({ audio: { upload_id }, language: "en", ...more })).body;
  await reached(api, id, ["completed"]);
  return id;
}

/** Makes evidence in a file of the installation's folder. */
async function evidenceOf(id: string): Promise<{ file: string; signed: Signed }> {
  const file = at(`${id}.json`);
  expect(await installation.output("transcriptions", "evidence", id, "--output", file)).toBe("");
  return { file, signed: JSON.parse(readFileSync(file, "utf8")) };
}

/** Writes evidence with another content, signed with the appliance's key, as another version could have made it. */
function signedAgain(name: string, { document }: Signed, change: (document: Evidence) => void): string {
  const copy = structuredClone(document);
  change(copy);
  writeFileSync(at(name), JSON.stringify(signDocument(copy, openApplianceKey(installation.dataDir))));
  return at(name);
}

const verify = (...args: string[]) => installation.command("evidence", "verify", ...args);

test("evidence has the hashes of recording, model and result, and the words are the same again", async () => {
  const id = await transcribed("01-en");
  const { file, signed } = await evidenceOf(id);
  const { document } = signed;
  const result = await api.result(id);
  expect(document.audio).toMatchObject({ sha256: sha256(sampleBytes("01-en")), channels: 1 });
  expect(document.model).toMatchObject({ id: "demo", version: result.version });
  expect(document.model.sha256).toBe(sha256(readFileSync(DEMO)));
  expect(document.result).toMatchObject({
    ...{ sha256: sha256(canonicalJson(result)), text_sha256: sha256(result.text) },
  });
  const built = await installation.json<{ version: string; commit: string | null }>("version");
  expect(document.executable.version).toBe(built.version);
  expect(document.executable.commit?.slice(0, 40)).toBe(built.commit?.slice(0, 40));
  expect(document.engine).toMatchObject({ device: "cpu", precision: "fast", doubtful_text: "omit" });
  expect(document.engine.cpu_variant).toMatch(/^[a-z0-9.]+$/);
  const text = readFileSync(file, "utf8");
  const words = result.text.split(/\s+/).filter((word) => word.length > 4);
  expect(words.length).toBeGreaterThan(0);
  for (const word of words) expect(text).not.toContain(word);
  expect(text).not.toContain(installation.key);
  writeFileSync(at("key.pem"), await installation.output("receipts", "key"));
  const verified = await verify(file, "--key", at("key.pem"), "--audio", samplePath("01-en"), "--json");
  expect(verified).toMatchObject({ code: 0, err: expect.not.stringContaining("proves nothing") });
  expect(JSON.parse(verified.out)).toMatchObject({
    ...{ ok: true, trusted: true },
    repeated: { same_words: true, same_result: true, cpu_variant: document.engine.cpu_variant },
  });
  const again = await installation.command("transcriptions", "evidence", id, "--output", file);
  expect(again).toMatchObject({ code: 5, err: expect.stringContaining("exists already") });
}, 60_000);

test("a device that an earlier version stored as a worker had named it leaves the evidence readable", async () => {
  const id = await transcribed("01-en");
  const sqlite = new Database(join(installation.dataDir, "shruti.db"));
  const stored = `cpu\u001b[2J, ${"x".repeat(2_000)} of 2 workers`;
  sqlite.run("UPDATE transcriptions SET work = json_set(work, '$.means.device', ?) WHERE id = ?", [
    stored,
    id,
  ]);
  sqlite.close();
  const { file, signed } = await evidenceOf(id);
  expect(signed.document.engine.device).toStartWith("cpu?[2J, x");
  writeFileSync(at("key-of-device.pem"), await installation.output("receipts", "key"));
  expect(await verify(file, "--key", at("key-of-device.pem"))).toMatchObject({ code: 0 });
}, 60_000);

test.each([
  { name: "channels apart, without times", more: { channel_mode: "separate", timestamps: "none" } },
  { name: "speakers", more: { diarization: { min_speakers: 1, max_speakers: 2 } } },
])(
  "a request with $name is repeated as it was",
  async ({ more }) => {
    const { file } = await evidenceOf(await transcribed("10-en-stereo", more));
    const { code, out } = await verify(file, "--audio", samplePath("10-en-stereo"));
    expect(out).toMatch(/\nWords +the same\nWhole result +the same\n/);
    expect(code).toBe(0);
  },
  60_000,
);

test.each([
  ["figures", { numerals: "written" }, "numerals written"],
  ["Latin letters", { script: "latin" }, "script latin"],
  ["word times", { timestamps: "word" }, "native"],
])(
  "a request for %s is repeated as it was",
  async (_name, more, shown) => {
    const { file } = await evidenceOf(await transcribed("02-hi", { language: "hi", ...more }));
    const { code, out } = await verify(file, "--audio", samplePath("02-hi"));
    expect(out).toMatch(/\nWords +the same\nWhole result +the same\n/);
    expect(out).toMatch(new RegExp(`\nRequest .*${shown}`));
    expect(code).toBe(0);
  },
  60_000,
);

test("other recordings, changed documents and foreign keys are found", async () => {
  const { file, signed } = await evidenceOf(await transcribed("01-en"));
  expect(await verify(file, "--audio", samplePath("04-en"))).toMatchObject({
    ...{ code: 1, out: "", err: expect.stringContaining("is not the recording of the evidence") },
  });
  expect((await verify(file, "--audio", at("none.wav"))).code).toBe(4);
  const changed = readFileSync(file, "utf8").replace(signed.document.audio.sha256, "0".repeat(64));
  writeFileSync(at("changed.json"), changed);
  expect(await verify(at("changed.json"))).toMatchObject({
    ...{ code: 1, err: expect.stringContaining("changed since it was signed") },
  });
  const own = await verify(file);
  expect(own).toMatchObject({ code: 0, err: expect.stringContaining("proves nothing about who signed") });
  expect(own.out).toContain("unchanged since it was signed");
  await installation.output("bundle", "keygen", at("other.pem"));
  expect(await verify(file, "--key", at("other.pem.pub"))).toMatchObject({
    ...{ code: 1, err: expect.stringContaining("not signed with the key") },
  });
  await installation.output("transcriptions", "delete", signed.document.transcription.id);
  const receipt = await installation.output("receipts", "show", signed.document.transcription.id);
  writeFileSync(at("receipt.json"), receipt);
  expect(await verify(at("receipt.json"))).toMatchObject({
    ...{ code: 1, err: expect.stringContaining("not evidence") },
  });
}, 60_000);

test("other words are status 1; another model, version or precision is refused before any work", async () => {
  const { signed } = await evidenceOf(await transcribed("01-en"));
  const audio = ["--audio", samplePath("01-en")];
  const other = signedAgain("words.json", signed, ({ result }) => {
    result.text_sha256 = sha256("other words");
  });
  const differs = await verify(other, ...audio);
  expect(differs).toMatchObject({ code: 1, err: expect.stringContaining("words are not the same") });
  expect(differs.out).toMatch(/\nWords +not the same\n/);
  const refused: [reason: string, change: (document: Evidence) => void][] = [
    ["the model large is not installed here", ({ model }) => void Object.assign(model, { id: "large" })],
    ["the version of demo is 0", ({ model }) => void Object.assign(model, { version: "0" })],
    ["the SHA-256 of demo is 0", ({ model }) => void Object.assign(model, { sha256: "0".repeat(64) })],
    ["[decoding] of demo", ({ engine }) => void Object.assign(engine, { decoding: { unknownBelow: 0.99 } })],
    [
      "it was made by shruti 99.0.0",
      ({ executable }) => void Object.assign(executable, { version: "99.0.0" }),
    ],
    ["engine.precision is exact", ({ engine }) => void Object.assign(engine, { precision: "exact" })],
    ["engine.doubtful_text is keep", ({ engine }) => void Object.assign(engine, { doubtful_text: "keep" })],
  ];
  for (const [reason, change] of refused) {
    const outcome = await verify(signedAgain("refused.json", signed, change), ...audio);
    expect(outcome).toMatchObject({ code: 5, out: "", err: expect.stringContaining(reason) });
  }
}, 60_000);

test("what has no result, or not what evidence needs, has no evidence", async () => {
  const refused = (id: string) => installation.command("transcriptions", "evidence", id);
  expect((await refused("tr_01KAJ5M0X2V7Q4N8R6T3Y9ZB1C")).code).toBe(4);
  const upload_id = await uploaded(api, sampleBytes("01-en"));
  writeFileSync(join(installation.dataDir, "uploads", upload_id), "damaged on the disk");
  const failed = (await api.start({ audio: { upload_id }, language: "en" })).body.id;
  await reached(api, failed, ["failed"]);
  expect(await refused(failed)).toMatchObject({ code: 5, err: expect.stringContaining("it is failed") });
  const id = await transcribed("01-en");
  const database = new Database(join(installation.dataDir, "shruti.db"));
  const count = database.query("UPDATE transcriptions SET work = NULL WHERE id = ?").run(id).changes;
  database.close();
  expect(count).toBe(1);
  expect(await refused(id)).toMatchObject({ code: 5, err: expect.stringContaining("was not stored") });
  await installation.output("transcriptions", "delete", id);
  expect(await refused(id)).toMatchObject({ code: 5, err: expect.stringContaining("is deleted") });
}, 60_000);

test("weights that are not those of the manifest recognize nothing, and ready, doctor and the log say so", async () => {
  await server.stop();
  const copy = at("court.bin");
  copyFileSync(DEMO, copy);
  const manifest = ["--id", "court", "--languages", "en", "--licence", "test"];
  await installation.output("models", "add", copy, ...manifest, "--no-trial", "--default");
  const path = join(installation.dataDir, "models/court.bin");
  const right = readFileSync(path);
  writeFileSync(path, Buffer.from(right).fill("damage", 500_000, 500_006));
  server = await installation.serve();
  api = server.api();
  const reason = "court.bin is not the file of its manifest";
  await until("the server says why it is not ready", async () => {
    const { reasons = [] } = (await (await fetch(`${server.baseUrl}/readyz`)).json()) as {
      reasons?: string[];
    };
    return reasons.some((each) => each.includes(reason));
  });
  const doctor = await installation.command("doctor");
  expect(doctor).toMatchObject({ code: 1, out: expect.stringContaining(reason) });
  const upload_id = await uploaded(api, sampleBytes("01-en"));
  const { id } = (await api.start({ audio: { upload_id }, language: "en" })).body;
  const failed = await reached(api, id, ["failed"]);
  expect(failed.error?.code).toBe("capacity_unavailable");
  writeFileSync(path, right);
  await until("the server is ready", async () => (await fetch(`${server.baseUrl}/readyz`)).ok);
  const again = await evidenceOf(await transcribed("01-en"));
  expect(again.signed.document.model).toMatchObject({ id: "court", sha256: sha256(right), hashed: "loaded" });
}, 120_000);
