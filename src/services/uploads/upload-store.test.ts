import { expect, test } from "bun:test";
import { existsSync, rmSync } from "node:fs";
import { audioDirectory } from "../../store/audio-files.ts";
import { openUploadBench } from "../../testing/kits/upload-bench.ts";

test("a store makes no folder: commands open the upload service where they may not write", async () => {
  const bench = openUploadBench();
  try {
    const folder = audioDirectory(bench.dataDir);
    rmSync(folder, { recursive: true, force: true });
    bench.uploads.openStore();
    await Bun.sleep(50);
    expect(existsSync(folder)).toBe(false);
  } finally {
    await bench.close();
  }
});
