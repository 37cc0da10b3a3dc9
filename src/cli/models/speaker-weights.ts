import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Config } from "../../config/schema.ts";
import type { SpeakerWeights } from "../../domain/model.ts";
import type { Log } from "../../lib/log.ts";

const SAMPLES = 3 * 16_000;

/**
 * Tries speaker weights on three seconds of a tone, in a process of its own. So an admin, not the first customer, finds
 * weights that the engine cannot use.
 *
 * @throws Error with the reason
 */
export async function tryOutSpeakerWeights(
  config: Config,
  dataDir: string,
  log: Log,
  weights: SpeakerWeights,
): Promise<void> {
  const { openEngine } = await import("../../engine/open-engine.ts");
  const directory = mkdtempSync(join(tmpdir(), "shruti-weights-"));
  const { engine } = await openEngine(config, dataDir, log);
  try {
    const pcmPath = join(directory, "tone.pcm");
    const tone = Int16Array.from({ length: SAMPLES }, (_, n) => Math.round(8_000 * Math.sin(n / 10)));
    await Bun.write(pcmPath, tone);
    const tracks = [{ pcmPath, regions: [{ startSample: 0, endSample: SAMPLES }] }];
    await engine.diarize({ tracks, weights }, new AbortController().signal);
  } catch (error) {
    throw new Error(`The engine cannot use these weights: ${(error as Error).message}.`, { cause: error });
  } finally {
    await engine.close();
    rmSync(directory, { recursive: true, force: true });
  }
}
