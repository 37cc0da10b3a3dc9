import { Database } from "bun:sqlite";
import { expect, test } from "bun:test";
import { mkdtempSync, openSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { isDiskFull, isOutOfFiles, isRefusedWrite } from "./disk-full.ts";

function failureOf(work: () => unknown): unknown {
  try {
    work();
  } catch (error) {
    return error;
  }
  throw new Error("it did not fail");
}

/** Returns the error that SQLite throws when its file cannot grow. */
function fullDatabase(): unknown {
  const database = new Database(":memory:");
  database.run("CREATE TABLE t (v BLOB)");
  database.run("PRAGMA max_page_count = 2");
  return failureOf(() => database.run("INSERT INTO t VALUES (zeroblob(100000))"));
}

test("a full database and a full disk are recognized, also as the cause of another error", () => {
  const full = fullDatabase();
  expect(isDiskFull(full)).toBe(true);
  expect(isDiskFull(new Error("Failed query", { cause: new Error("again", { cause: full }) }))).toBe(true);
  // On Linux every write to this device fails with ENOSPC.
  if (process.platform === "linux") {
    expect(isDiskFull(failureOf(() => writeSync(openSync("/dev/full", "w"), "x")))).toBe(true);
  }
  const decoder = Object.assign(new Error("There is no space on the disk."), { reason: "disk_full" });
  expect(isDiskFull(new Error("interrupted", { cause: decoder }))).toBe(true);
});

/** SQLite reports a file that may not grow (EFBIG) with the same code as a used-up quota (EDQUOT). */
test.skipIf(process.platform !== "linux")(
  "a database whose file may not grow counts as a full disk (needs Linux)",
  () => {
    const folder = mkdtempSync(join(tmpdir(), "shruti-disk-full-"));
    const script = `
    const { isDiskFull } = await import(${JSON.stringify(`${import.meta.dir}/disk-full.ts`)});
    const database = new (await import("bun:sqlite")).Database(${JSON.stringify(join(folder, "test.db"))});
    database.run("PRAGMA journal_mode = WAL");
    database.run("CREATE TABLE t (v BLOB)");
    try {
      for (;;) database.run("INSERT INTO t VALUES (zeroblob(10000))");
    } catch (error) {
      console.log(error.code, isDiskFull(error));
    }`;
    const limits = "trap '' XFSZ; ulimit -f 256";
    const child = Bun.spawnSync(["sh", "-c", `${limits}; exec "$0" -e "$1"`, process.execPath, script]);
    rmSync(folder, { recursive: true });
    expect(child.stdout.toString()).toBe("SQLITE_IOERR_WRITE true\n");
  },
);

test("other failures do not count as a full disk, and an error that is its own cause ends the search", () => {
  const missing = failureOf(() => openSync("/nowhere/at/all", "r"));
  const circular: Error = new Error("round");
  circular.cause = circular;
  const broken = failureOf(() => new Database(":memory:").run("SELECT nothing"));
  for (const error of [missing, circular, broken, undefined, "ENOSPC", { code: "ENOSPC" }]) {
    expect(isDiskFull(error)).toBe(false);
  }
});

test("too many open files and a full disk are two different failures", () => {
  const tooMany = Object.assign(new Error("EMFILE: too many open files"), { code: "EMFILE" });
  expect(isOutOfFiles(new Error("wrapped", { cause: tooMany }))).toBe(true);
  expect(isDiskFull(tooMany)).toBe(false);
  expect(isOutOfFiles(fullDatabase())).toBe(false);
});

test("a write is refused by a full disk, a file that may not grow or a broken disk; only the first counts as full", () => {
  const coded = (code: string) => Object.assign(new Error(code), { code });
  const cases = ["ENOSPC", "EDQUOT", "EFBIG", "EIO", "SQLITE_FULL", "ENOENT"].map((code) => {
    const error = coded(code);
    return { code, isRefused: isRefusedWrite(error), isFull: isDiskFull(error) };
  });
  expect(cases).toEqual([
    { code: "ENOSPC", isRefused: true, isFull: true },
    { code: "EDQUOT", isRefused: true, isFull: true },
    { code: "EFBIG", isRefused: true, isFull: false },
    { code: "EIO", isRefused: true, isFull: false },
    { code: "SQLITE_FULL", isRefused: false, isFull: true },
    { code: "ENOENT", isRefused: false, isFull: false },
  ]);
});
