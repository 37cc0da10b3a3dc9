import { afterAll, beforeAll, expect, test } from "bun:test";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { ModelList } from "../http/wire/schemas.ts";
import { CARRIED_NETS } from "../services/models/carried-nets.ts";
import type { ApiClient } from "../testing/answers/api-client.ts";
import { type Installation, install, type RunningServer, reached, uploaded } from "./kit.ts";
import { descendantsOf, mappedFiles } from "./processes.ts";
import { joined, silence, wavOf } from "./sounds.ts";
import { another, person } from "./two-people.ts";

/** The nets inside the executable distinguish speakers: two people, as they are, damaged, and when they are not wanted. */

const NETS = {
  segmentation: CARRIED_NETS.segmentation.sha256,
  speaker: CARRIED_NETS.speaker.sha256,
};
/** Seconds in which President Kennedy says a whole clause. */
const CLAUSE = [3, 11] as const;

let installation: Installation;
let server: RunningServer;
let api: ApiClient;
beforeAll(async () => {
  installation = await install();
  server = await (await installation.serve()).ready();
  api = server.api();
}, 120_000);
afterAll(async () => {
  await server?.stop();
  await installation?.remove();
});

/** Two people in turn, a second of silence between them. */
async function conversation(): Promise<Uint8Array<ArrayBuffer>> {
  const one = await person(...CLAUSE);
  const other = another(one);
  return wavOf(joined(...[one, other, one, other].flatMap((sound) => [sound, silence(1)])));
}

async function talk() {
  const audio = { upload_id: await uploaded(api, await conversation()) };
  const { id } = (await api.start({ audio, model: "whisper-base", language: "en", diarization: true })).body;
  expect((await reached(api, id, undefined, 240_000)).state).toBe("completed");
  return { id, result: await api.result(id) };
}

const method = async () =>
  (await api.call<ModelList>("GET", "/v1/models")).body.data.map(({ diarization }) => diarization.method);
const pathOf = (kind: keyof typeof NETS) =>
  join(installation.dataDir, "embedded-models", `${NETS[kind].slice(0, 12)}.bin`);
const verified = () => installation.command("models", "verify");

test("two people are two speakers out of the box, and the evidence names the nets", async () => {
  expect(new Set(await method())).toEqual(new Set(["neural"]));
  // Nothing has loaded them yet.
  const mapped = descendantsOf(server.pid).flatMap(mappedFiles);
  expect(mapped.filter((path) => path.endsWith("libonnxruntime.so"))).toEqual([]);
  const { id, result } = await talk();
  const speakers = result.segments.map(({ speaker }) => speaker);
  expect(speakers[0]).toBe("speaker_1");
  expect(new Set(speakers)).toEqual(new Set(["speaker_1", "speaker_2"]));
  // What is understood of so fast a voice differs between processors.
  expect(result.warnings).not.toContain("speaker_count_uncertain");
  const evidence = JSON.parse(await installation.output("transcriptions", "evidence", id));
  expect(evidence.document.engine.speaker_weights).toEqual(NETS);
  expect((await verified()).out).toContain("speaker of the executable: unchanged");
}, 300_000);

test("behind a damaged net the built-in method distinguishes speakers, with a warning, and the damage is found", async () => {
  const whole = readFileSync(pathOf("speaker"));
  writeFileSync(pathOf("speaker"), Buffer.from(whole).fill(7, 1_000_000, 1_001_000));
  const { result } = await talk();
  expect(result.segments.every(({ speaker }) => speaker !== undefined)).toBe(true);
  expect(result.warnings).toContain("speaker_count_uncertain");
  expect(server.log()).toContain("these nets cannot distinguish speakers");
  const { code, out } = await verified();
  expect([code, out]).toEqual([
    1,
    expect.stringMatching(/speaker of the executable: the SHA-256 is .*remove/),
  ]);
  const doctor = await installation.command("doctor");
  expect(doctor.out).toMatch(/BAD .*speaker of the executable/);
  rmSync(pathOf("speaker"));
  expect((await verified()).code).toBe(0);
  expect(readFileSync(pathOf("speaker")).equals(whole)).toBe(true);
}, 300_000);

test("the config chooses the built-in method, and the nets are then not written", async () => {
  const other = await install({ environment: { SHRUTI_ENGINE_DIARIZATION: "acoustic" } });
  try {
    const models = await other.json<{ diarization: { method: string } }[]>("models", "list");
    expect(models.map(({ diarization }) => diarization.method)).toContain("acoustic");
    expect((await other.command("models", "list")).err).toContain("by the acoustic method");
    expect((await other.command("models", "verify")).out).not.toContain("of the executable");
  } finally {
    await other.remove();
  }
}, 120_000);
