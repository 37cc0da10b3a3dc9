import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Config } from "../config/schema.ts";
import { SAMPLE_RATE_HZ } from "../domain/chunk.ts";
import type { InstalledModel } from "../domain/model.ts";
import { errorMessage } from "../lib/error-message.ts";
import type { Log } from "../lib/log.ts";

const SAMPLES = 3 * SAMPLE_RATE_HZ;

/**
 * Loads a model in a process of its own and recognizes three seconds of a tone in each of its languages. So an admin,
 * not the first customer, finds a model that the engine cannot use.
 *
 * @param model its files may have temporary names
 * @throws Error with the reason
 */
export async function tryOutModel(
  config: Config,
  dataDir: string,
  log: Log,
  model: InstalledModel,
): Promise<void> {
  const [{ openEngine }, { familyOf }] = await Promise.all([
    import("../engine/open-engine.ts"),
    import("../pipeline/families/families.ts"),
  ]);
  const directory = mkdtempSync(join(tmpdir(), "shruti-trial-"));
  const { engine } = await openEngine(config, dataDir, log);
  const { signal } = new AbortController();
  try {
    const pcmPath = join(directory, "tone.pcm");
    await Bun.write(
      pcmPath,
      Int16Array.from({ length: SAMPLES }, (_, n) => 8_000 * Math.sin(n / 10)),
    );
    const slice = { sourceStartSample: 0, samples: SAMPLES, targetStartSample: 0 };
    const audio = { pcmPath, slices: [slice], totalSamples: SAMPLES };
    const family = familyOf(model.family);
    for (const { code } of model.languages) {
      const settings = family.settingsFor({ language: code, mode: "native" }, model);
      const job = { model, windowMs: family.windowMs, audio, settings, sharers: 1, isAlone: true };
      await engine.recognize(job, signal);
    }
  } catch (error) {
    throw new Error(`The engine cannot use this model: ${errorMessage(error)}.`, { cause: error });
  } finally {
    await engine.close();
    rmSync(directory, { recursive: true, force: true });
  }
}
