import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { copyFileSync, mkdirSync, truncateSync } from "node:fs";
import { basename, join } from "node:path";
import { type ErrorRate, sumErrors, wordErrors } from "../pipeline/wer.ts";
import { expectUtterances } from "./expect-utterances.ts";
import {
  type Installation,
  install,
  type RunningServer,
  reached,
  setInConfig,
  until,
  uploaded,
} from "./kit.ts";
import { sampleBytes, utterancesIn } from "./samples.ts";

/**
 * Tests the executable on a GPU. `SHRUTI_TEST_BACKEND` names a library that `scripts/build-backend.sh` made. It must find a
 * device here. Without a graphics card, Mesa's software device can be used:
 * `VK_ICD_FILENAMES=/usr/share/vulkan/icd.d/lvp_icd.x86_64.json GGML_VK_VISIBLE_DEVICES=0`.
 */

const LIBRARY = process.env.SHRUTI_TEST_BACKEND;
const DEVICE = /^libggml-(\w+)\.so$/.exec(basename(LIBRARY ?? ""))?.[1] ?? "";
/** Variables that drivers and ggml read to find devices. */
const DRIVER_SETTINGS = /^(VK|GGML|CUDA|NVIDIA|MESA|LP)_|^LD_LIBRARY_PATH$/;
/** A software device takes seconds for each chunk, and longer for the first. */
const PATIENCE_MS = 300_000;
const RECORDINGS = [
  "01-en",
  "02-hi",
  "03-mixed",
  "04-en",
  "05-hi",
  "07-hi",
  "08-en-phone",
  "09-hi-phone",
].concat(["10-en-stereo", "12-en-long", "13-hi-noise", "14-en-hesitation"]);
const RECORDINGS_PATIENCE_MS = 4 * PATIENCE_MS;
/** Measured on a software device: up to 0.04 for a token. */
const MOST_CONFIDENCE_APART = 0.15;
/** The largest share of other words, where the model hesitates between two (same-words.test.ts). Measured on a software device: 1.1 %. */
const MOST_DIFFERENT = 0.025;

type Result = Awaited<ReturnType<ReturnType<RunningServer["api"]>["result"]>>;
type GpuStatus = {
  server?: { models: { state: string; device?: string; pid?: number; restarts: number }[] };
};

let installation: Installation;
const backend = () => join(installation.dataDir, "backends", `libggml-${DEVICE}.so`);

async function started(device: string, precision = "fast"): Promise<RunningServer> {
  setInConfig(installation, "device", device);
  setInConfig(installation, "precision", precision);
  return (await installation.serve()).ready();
}

async function modelStatus() {
  const { server } = await installation.json<GpuStatus>("status");
  return server?.models[0];
}

/** Starts a server on a device, recognizes all recordings at once, and stops it. */
async function recognizeAll(device: string, precision?: "exact"): Promise<Result[]> {
  const server = await started(device, precision);
  const api = server.api();
  const ids = await Promise.all(
    RECORDINGS.map(async (name) => {
      const audio = { upload_id: await uploaded(api, sampleBytes(name)) };
      const language = name.includes("en") ? "en" : "hi";
      return (await api.start({ audio, language })).body.id;
    }),
  );
  const results: Result[] = [];
  for (const id of ids) {
    expect((await reached(api, id, undefined, RECORDINGS_PATIENCE_MS)).state).toBe("completed");
    results.push(await api.result(id));
  }
  if (device !== "cpu") await until("status names the GPU", isOnGpu);
  expect(await server.stop()).toBe(0);
  return results;
}

const textOf = (segments: readonly { text: string }[]) => segments.map(({ text }) => text).join(" ");

function errorsOf(reference: string, text: string): ErrorRate & { rate: number } {
  const errors = wordErrors(reference, text);
  if (errors?.rate === undefined) throw new Error("the texts cannot be compared");
  return { ...errors, rate: errors.rate };
}

/** The server writes the file that `status` reads only now and then. */
const isOnGpu = async () => {
  const model = await modelStatus();
  return model?.state === "ready" && model.device?.toLowerCase().startsWith(DEVICE) === true;
};

describe.skipIf(LIBRARY === undefined)("on a GPU (needs SHRUTI_TEST_BACKEND)", () => {
  beforeAll(async () => {
    const settings = Object.entries(process.env).filter(([name]) => DRIVER_SETTINGS.test(name));
    installation = await install({
      environment: {
        ...(Object.fromEntries(settings) as Record<string, string>),
      },
    });
    mkdirSync(join(installation.dataDir, "backends"), { recursive: true });
    copyFileSync(LIBRARY ?? "", backend());
  }, 60_000);

  afterAll(() => installation?.remove());

  test(
    "all recordings at once, whose chunks make their decoding steps together: each gets the words of a processor",
    async () => {
      // Where the model hesitates between two words, the processor's fast code and whisper.cpp's may differ, too.
      const onProcessor = [await recognizeAll("cpu"), await recognizeAll("cpu", "exact")];
      const onGpu = await recognizeAll(DEVICE);
      const nearest: ErrorRate[] = [];
      for (const [index, { segments }] of onGpu.entries()) {
        const known = onProcessor.map((results) => results[index]?.segments ?? []);
        const compared = known.map((of) => ({ of, errors: errorsOf(textOf(of), textOf(segments)) }));
        const best = compared.toSorted((one, other) => one.errors.rate - other.errors.rate)[0];
        if (best === undefined) throw new Error("nothing to compare with");
        nearest.push(best.errors);
        if (best.errors.rate > 0) continue;
        expect(segments.map(({ text }) => text)).toEqual(best.of.map(({ text }) => text));
        for (const [n, { confidence }] of segments.entries()) {
          const apart = Math.abs((confidence ?? 0) - (best.of[n]?.confidence ?? 0));
          expect(apart).toBeLessThan(MOST_CONFIDENCE_APART);
        }
      }
      const all = sumErrors(nearest);
      expect(all.total).toBeGreaterThan(100);
      expect(all.rate).toBeLessThan(MOST_DIFFERENT);
    },
    RECORDINGS_PATIENCE_MS,
  );

  test(
    "a worker process that is killed during two chunks is started again on the GPU, and nothing is lost",
    async () => {
      const server = await started("auto");
      const api = server.api();
      // Under `auto`, a GPU is avoided when its worker process ends before any work. This one has worked.
      await api.transcribe(sampleBytes("01-en"), { language: "en" });
      await until("the model is on the GPU", isOnGpu);
      const names = ["05-hi", "07-hi"];
      const ids: string[] = [];
      for (const name of names) {
        const audio = { upload_id: await uploaded(api, sampleBytes(name)) };
        ids.push((await api.start({ audio, language: "hi" })).body.id);
      }
      await until("both are being decoded", async () =>
        (await Promise.all(ids.map((id) => api.get(id)))).every(({ state }) => state === "transcribing"),
      );
      const killed = (await modelStatus())?.pid ?? 0;
      process.kill(killed, "SIGKILL");
      for (const [index, id] of ids.entries()) {
        expect((await reached(api, id, undefined, PATIENCE_MS)).state).toBe("completed");
        expectUtterances(await api.result(id), utterancesIn(names[index] ?? ""));
      }
      await until("the next worker is on the GPU", isOnGpu);
      expect(await modelStatus()).toMatchObject({ restarts: 1 });
      expect((await modelStatus())?.pid).not.toBe(killed);
      expect(await server.stop()).toBe(0);
    },
    PATIENCE_MS,
  );

  test(
    "one of two transcriptions is cancelled during a chunk, and the other completes",
    async () => {
      const server = await started(DEVICE);
      const api = server.api();
      const audio = { upload_id: await uploaded(api, sampleBytes("01-en")) };
      const [first, second] = [
        (await api.start({ audio, language: "en" })).body.id,
        (await api.start({ audio, language: "en" })).body.id,
      ];
      await until("both are decoded", async () =>
        (await Promise.all([api.get(first), api.get(second)])).every(({ state }) => state === "transcribing"),
      );
      await api.cancel(first);
      expect((await reached(api, first)).state).toBe("cancelled");
      expect((await reached(api, second, undefined, PATIENCE_MS)).state).toBe("completed");
      expectUtterances(await api.result(second), utterancesIn("01-en"));
      expect(await server.stop()).toBe(0);
    },
    PATIENCE_MS,
  );

  test(
    "a truncated library: with `auto` the processor does the work, and a device set by name prevents the start",
    async () => {
      truncateSync(backend(), 1_000_000);
      const server = await started("auto");
      expectUtterances(
        await server.api().transcribe(sampleBytes("01-en"), { language: "en" }),
        utterancesIn("01-en"),
      );
      expect(server.log()).toContain("is not whole");
      expect(server.log()).toContain("no GPU can be used, the processor takes its place");
      expect(await server.stop()).toBe(0);
      setInConfig(installation, "device", DEVICE);
      const { code, err } = await installation.command("serve");
      expect(code).toBe(1);
      expect(err).toContain("is not whole");
    },
    PATIENCE_MS,
  );
});
