import { expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { silentLog } from "../lib/log.ts";
import { testConfig } from "../testing/kits/test-config.ts";
import { makeWav } from "../testing/makers/audio-makers.ts";
import { openEngine } from "./open-engine.ts";

test("an open engine follows limits.max_duration_seconds of a reloaded config", async () => {
  const folder = mkdtempSync(join(tmpdir(), "shruti-open-engine-"));
  const path = join(folder, "three-seconds.wav");
  writeFileSync(path, makeWav({ seconds: 3 }));
  const limits = { ...testConfig().limits, max_duration_seconds: 1 };
  const { engine } = await openEngine(
    { ...testConfig({ engine: { device: "cpu" } }), limits },
    folder,
    silentLog,
  );
  try {
    const verify = () => engine.verify({ path }, AbortSignal.timeout(60_000));
    await expect(verify()).rejects.toMatchObject({ code: "audio_too_long" });
    limits.max_duration_seconds = 10;
    expect((await verify()).durationMs).toBe(3000);
  } finally {
    await engine.close();
    rmSync(folder, { recursive: true, force: true });
  }
}, 60_000);
