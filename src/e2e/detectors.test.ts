import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { ModelList, TranscriptionResult } from "../http/wire/schemas.ts";
import type { ApiClient } from "../testing/answers/api-client.ts";
import { waveModel } from "../testing/makers/onnx-makers.ts";
import { type Installation, install, type RunningServer, reached, until, uploaded } from "./kit.ts";
import { descendantsOf, mappedFiles } from "./processes.ts";
import { concatenated, sampleBytes } from "./samples.ts";

/** Tests the processes that find speech and distinguish speakers, on the executable. */

let installation: Installation;
let server: RunningServer;
let api: ApiClient;

beforeAll(async () => {
  installation = await install({ environment: { SHRUTI_ENGINE_SPEECH_WORKERS: "2" } });
  server = await (await installation.serve()).ready();
  api = server.api();
}, 120_000);

afterAll(async () => {
  if (server) expect(await server.stop()).toBe(0);
  await installation?.remove();
}, 60_000);

/** Lists the processes of the server that have loaded a library. */
function processesWith(library: string): number[] {
  return descendantsOf(server.pid).filter((pid) => {
    try {
      return mappedFiles(pid).some((path) => path.endsWith(library));
    } catch {
      // It has just ended.
      return false;
    }
  });
}

const start = async (audio: string, more: object = {}) =>
  (await api.start({ audio: { upload_id: audio }, language: "en", ...more })).body.id;

test("two recordings are searched for speech in two processes, and both are searched again when these end", async () => {
  const [first = 0, ...others] = processesWith("silero.so");
  expect(others).toEqual([]);
  // One recording is decoded after the other, and may be searched before the next one is decoded. So the search is stopped.
  process.kill(first, "SIGSTOP");
  const audio = await uploaded(api, concatenated(["12-en-long"], 24));
  const ids = await Promise.all([start(audio), start(audio)]);
  await until("two processes search", () => processesWith("silero.so").length === 2);
  for (const pid of processesWith("silero.so")) process.kill(pid, "SIGKILL");
  for (const id of ids) {
    expect((await reached(api, id, ["transcribing", "completed", "failed"])).state).not.toBe("failed");
    await api.cancel(id);
  }
}, 120_000);

const SEGMENTATION = join(import.meta.dir, "../../models/speakers/pyannote-segmentation-3.0.onnx");

describe("installed speaker weights", () => {
  test("distinguish speakers with the ONNX runtime alone", async () => {
    const voices = join(installation.folder, "voices.onnx");
    writeFileSync(voices, waveModel("wespeaker"));
    await installation.output("models", "add", "--kind", "segmentation", SEGMENTATION);
    await installation.output("models", "add", "--kind", "speaker", voices);
    await until("the server knows them", async () => {
      const { body } = await api.call<ModelList>("GET", "/v1/models");
      return body.data[0]?.diarization.method === "neural";
    });
    const audio = await uploaded(api, sampleBytes("12-en-long"));
    const id = await start(audio, { diarization: { speakers: 2 } });
    let libraries: string[] = [];
    await until("a process has loaded the runtime", () => {
      const [pid] = processesWith("libonnxruntime.so");
      libraries = pid === undefined ? libraries : mappedFiles(pid);
      return libraries.length > 0;
    });
    expect(libraries.filter((path) => /sherpa/.test(path))).toEqual([]);
    expect((await reached(api, id)).state).toBe("completed");
    const result: TranscriptionResult = await api.result(id);
    expect(result.segments?.length).toBeGreaterThan(0);
    expect(new Set(result.segments?.map(({ speaker }) => speaker))).toEqual(
      new Set(["speaker_1", "speaker_2"]),
    );
  }, 120_000);
});
