import { afterAll, beforeAll } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pcmOf } from "../e2e/samples.ts";
import { FAMILIES } from "../families/families.ts";
import { extractNativeFiles, type NativeFiles } from "../native/native-files.ts";
import { describeExecutor, type ExecutorHarness } from "../testing/kits/executor-contract.ts";
import { NO_NATIVE_FILES } from "../testing/kits/native-files.ts";
import { HUNG_AFTER_MS, jobsOf, openLocal, spawnDisturbed, spawnReal } from "../testing/kits/pool-harness.ts";
import { createScriptedEngine, scriptedAudio } from "../testing/kits/scripted-engine.ts";
import { SCRIPTED_FAMILY, scriptedFamily, scriptedFiles } from "../testing/scripted-family/family.ts";
import { EngineError, type EngineModel } from "./protocol.ts";

const folder = mkdtempSync(join(tmpdir(), "shruti-executor-"));
const SECONDS = 5;
let nativeFiles: NativeFiles;

beforeAll(async () => {
  nativeFiles = await extractNativeFiles(folder);
  writeFileSync(join(folder, "speech.pcm"), new Uint8Array(pcmOf("04-en").buffer));
  for (const name of ["scripted", "broken"]) {
    mkdirSync(join(folder, name));
    writeFileSync(join(folder, name, "model.txt"), "turn on the light");
  }
  writeFileSync(join(folder, "scripted/tokens.txt"), "turn\non\nthe\nlight");
  writeFileSync(join(folder, "broken/weights.bin"), "no weights");
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

async function openScriptedEngine(): Promise<ExecutorHarness> {
  const engine = createScriptedEngine({ hungAfterMs: HUNG_AFTER_MS });
  engine.setCapacity((bytes) => ({ chunks: bytes > 1e9 ? 1 : 2, power: 2, isElastic: true }));
  const path = join(folder, "recording");
  const directory = `${join(folder, "recording")}.audio`;
  writeFileSync(path, scriptedAudio({ seconds: SECONDS, text: "turn on the light" }));
  const signal = new AbortController().signal;
  const decoded = await engine.decode({ path, directory, channels: "mix", maxDurationMs: 60_000 }, signal);
  const [pcmPath = ""] = decoded.files;
  const model: EngineModel = { id: "m", version: "1", family: "whisper", files: {} };
  const { job } = jobsOf(folder, scriptedFamily, model);
  const slices = [{ sourceStartSample: 0, samples: statSync(pcmPath).size / 2, targetStartSample: 0 }];
  const KINDS = { crash: "crashed", fail: "failed", unusable: "unusable_model" } as const;
  return {
    executor: engine,
    job: { ...job, audio: { ...job.audio, pcmPath, slices } },
    disturb(how) {
      if (how === undefined || how === "twice") return engine.interfere({});
      engine.interfere({
        chunk: async () => {
          if (how === "hang") return new Promise<undefined>(() => {});
          throw new EngineError(KINDS[how], "as scripted");
        },
      });
    },
    close: engine.close,
  };
}

describeExecutor({
  name: "the local pool, whisper in its processes",
  open: async () => {
    const good = { weights: join(import.meta.dir, "../../models/demo.bin") };
    const bad = { weights: join(folder, "broken/weights.bin") };
    return openLocal(folder, "whisper", FAMILIES.of("whisper"), { good, bad }, spawnReal, nativeFiles);
  },
  // A real process cannot be made to reply twice.
  without: ["twice"],
});

describeExecutor({
  name: "the local pool, a scripted recognizer in its processes",
  open: async () => {
    const good = scriptedFiles(join(folder, "scripted"));
    const bad = scriptedFiles(join(folder, "broken"));
    return openLocal(folder, SCRIPTED_FAMILY, scriptedFamily, { good, bad }, spawnDisturbed, NO_NATIVE_FILES);
  },
});

describeExecutor({
  name: "the scripted engine",
  open: openScriptedEngine,
  // It exchanges no messages, and recognizes recordings by their files.
  without: ["twice", "bytes"],
});
