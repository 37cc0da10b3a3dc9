import { Database } from "bun:sqlite";
import { expect, test } from "bun:test";
import { mkdtempSync, openSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { isOutOfFiles, isOutOfRoom, isRefusedWrite } from "./out-of-room.ts";

function failureOf(work: () => unknown): unknown {
  try {
    work();
  } catch (error) {
    return error;
  }
  throw new Error("it did not fail");
}

/** What SQLite says when its file can grow no more. */
function fullDatabase(): unknown {
  const database = new Database(":memory:");
  database.run("CREATE TABLE t (v BLOB)");
  database.run("PRAGMA max_page_count = 2");
  return failureOf(() => database.run("INSERT INTO t VALUES (zeroblob(100000))"));
}

test("a full database, a full disk and whatever wraps them are out of room", () => {
  const full = fullDatabase();
  expect(isOutOfRoom(full)).toBe(true);
  expect(isOutOfRoom(new Error("Failed query", { cause: new Error("again", { cause: full }) }))).toBe(true);
  // Linux: every write to it finds the disk full.
  if (process.platform === "linux") {
    expect(isOutOfRoom(failureOf(() => writeSync(openSync("/dev/full", "w"), "x")))).toBe(true);
  }
  const decoder = Object.assign(new Error("There is no room."), { reason: "no_room" });
  expect(isOutOfRoom(new Error("interrupted", { cause: decoder }))).toBe(true);
});

/** SQLite takes a file that may not grow (EFBIG) as it takes a quota that is used up (EDQUOT). */
test.skipIf(process.platform !== "linux")("a database that may not grow is out of room", () => {
  const folder = mkdtempSync(join(tmpdir(), "shruti-room-"));
  const script = `
    const { isOutOfRoom } = await import(${JSON.stringify(`${import.meta.dir}/out-of-room.ts`)});
    const database = new (await import("bun:sqlite")).Database(${JSON.stringify(join(folder, "test.db"))});
    database.run("PRAGMA journal_mode = WAL");
    database.run("CREATE TABLE t (v BLOB)");
    try {
      for (;;) database.run("INSERT INTO t VALUES (zeroblob(10000))");
    } catch (error) {
      console.log(error.code, isOutOfRoom(error));
    }`;
  const limits = "trap '' XFSZ; ulimit -f 256";
  const child = Bun.spawnSync(["sh", "-c", `${limits}; exec "$0" -e "$1"`, process.execPath, script]);
  rmSync(folder, { recursive: true });
  expect(child.stdout.toString()).toBe("SQLITE_IOERR_WRITE true\n");
});

test("other failures are not, and a cause that is its own cause is looked at once", () => {
  const missing = failureOf(() => openSync("/nowhere/at/all", "r"));
  const circular: Error = new Error("round");
  circular.cause = circular;
  const broken = failureOf(() => new Database(":memory:").run("SELECT nothing"));
  for (const error of [missing, circular, broken, undefined, "ENOSPC", { code: "ENOSPC" }]) {
    expect(isOutOfRoom(error)).toBe(false);
  }
});

test("too many open files are no full disk, and a full disk is not too many open files", () => {
  const tooMany = Object.assign(new Error("EMFILE: too many open files"), { code: "EMFILE" });
  expect(isOutOfFiles(new Error("wrapped", { cause: tooMany }))).toBe(true);
  expect(isOutOfRoom(tooMany)).toBe(false);
  expect(isOutOfFiles(fullDatabase())).toBe(false);
});

test("a refused write is a full disk, a file that may not grow or a broken disk; other work waits for the first alone", () => {
  const coded = (code: string) => Object.assign(new Error(code), { code });
  const cases = ["ENOSPC", "EDQUOT", "EFBIG", "EIO", "SQLITE_FULL", "ENOENT"].map((code) => {
    const error = coded(code);
    return { code, isRefused: isRefusedWrite(error), isRoom: isOutOfRoom(error) };
  });
  expect(cases).toEqual([
    { code: "ENOSPC", isRefused: true, isRoom: true },
    { code: "EDQUOT", isRefused: true, isRoom: true },
    { code: "EFBIG", isRefused: true, isRoom: false },
    { code: "EIO", isRefused: true, isRoom: false },
    { code: "SQLITE_FULL", isRefused: false, isRoom: true },
    { code: "ENOENT", isRefused: false, isRoom: false },
  ]);
});
