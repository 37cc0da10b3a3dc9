import { afterAll, expect, test } from "bun:test";
import { chmodSync, chownSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const NOBODY = 65_534;
const folder = mkdtempSync(join(tmpdir(), "shruti-parts-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Root may use every file, so another process looks, as another user. The module is loaded before that. */
function asNobody(name: "unusableParts" | "unwritableFolders"): string[] {
  const script = `
    const parts = await import(${JSON.stringify(join(import.meta.dir, "data-parts.ts"))});
    process.setuid(${NOBODY});
    console.log(JSON.stringify(parts.${name}(${JSON.stringify(folder)})));`;
  return JSON.parse(Bun.spawnSync([process.execPath, "-e", script]).stdout.toString());
}

test.skipIf(process.geteuid?.() !== 0)(
  "parts of another owner are found, with what does not work because of them (needs root)",
  () => {
    chmodSync(folder, 0o755);
    chownSync(folder, NOBODY, NOBODY);
    expect(asNobody("unusableParts")).toEqual([]);
    for (const name of ["uploads", "work", "models", "native"])
      mkdirSync(join(folder, name), { mode: 0o755 });
    mkdirSync(join(folder, "backends"), { mode: 0o700 });
    writeFileSync(join(folder, "deletions.jsonl"), "", { mode: 0o600 });
    expect(asNobody("unusableParts").map((line) => line.slice(folder.length + 1).split(";")[0])).toEqual([
      "uploads cannot be written (EACCES): no recording can be received",
      "work cannot be written (EACCES): no recording can be prepared",
      "native cannot be written (EACCES): the engine cannot start",
      "deletions.jsonl cannot be written (EACCES)",
      // Models may belong to root, and others may read them.
      "backends cannot be read (EACCES)",
    ]);
    expect(asNobody("unwritableFolders")).toEqual([
      "the folder uploads of the data directory cannot be written (EACCES)",
      "the folder work of the data directory cannot be written (EACCES)",
    ]);
  },
);
