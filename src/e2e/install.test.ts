import { afterAll, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

/** Runs `install.sh` as packagers do, with DESTDIR. Wrong arguments are refused, and nothing is written. */

const SCRIPT = resolve(import.meta.dir, "../../install.sh");
const folder = mkdtempSync(join(tmpdir(), "shruti-install-"));
afterAll(() => rmSync(folder, { recursive: true }));

function executable(name: string, says: string): string {
  const path = join(folder, name);
  writeFileSync(path, `#!/bin/sh\necho "${says}"\n`, { mode: 0o755 });
  return path;
}

/** Runs the script with the strictest umask that an admin's shell may have. */
function run(stage: string, ...args: string[]) {
  const child = Bun.spawnSync(["sh", "-c", 'umask 077; exec sh "$@"', "sh", SCRIPT, ...args], {
    env: { PATH: process.env.PATH ?? "", DESTDIR: join(folder, stage) },
    cwd: folder,
  });
  return { code: child.exitCode, out: child.stdout.toString(), err: child.stderr.toString() };
}

test("files are installed readable for all users; an upgrade keeps the previous executable", () => {
  expect(run("stage", executable("one", "shruti 1")).code).toBe(0);
  const bin = join(folder, "stage/usr/local/bin/shruti");
  const unit = join(folder, "stage/etc/systemd/system/shruti.service");
  expect(statSync(bin).mode & 0o777).toBe(0o755);
  expect(statSync(unit).mode & 0o777).toBe(0o644);
  expect(statSync(join(folder, "stage/usr/local/bin")).mode & 0o777).toBe(0o755);
  expect(run("stage", executable("one", "shruti 1")).out).toContain("kept: the same");
  expect(run("stage", executable("two", "shruti 2")).out).toContain("shruti 2");
  expect(readFileSync(bin, "utf8")).toContain("shruti 2");
  expect(readFileSync(`${bin}.previous`, "utf8")).toContain("shruti 1");
});

test("the unit survives a worker process that runs out of memory, gives a stop enough time, and does not restart a server that cannot start", () => {
  run("unit", executable("one", "shruti 1"));
  const unit = readFileSync(join(folder, "unit/etc/systemd/system/shruti.service"), "utf8");
  expect(unit).toContain("\nOOMPolicy=continue\n");
  expect(unit).toContain("\nRestartPreventExitStatus=2 4\n");
  expect(unit).toContain("\nUser=shruti\n");
  expect(unit).toContain("\nStateDirectoryMode=0700\n");
  const defaultDrainSeconds = 30;
  expect(Number(/^TimeoutStopSec=(\d+)$/m.exec(unit)?.[1])).toBeGreaterThan(defaultDrainSeconds + 5);
});

test.each([
  ["an executable that does not exist", ["nothing/here"], 1, "there is no file nothing/here"],
  ["an unknown option", ["--upgrade"], 2, "there is no option --upgrade"],
  ["two executables", ["a", "b"], 2, "one executable at most"],
])("%s is refused", (_what, args, code, message) => {
  // The script would find this executable if it ignored the wrong name.
  mkdirSync(join(folder, "dist"), { recursive: true });
  executable("shruti", "shruti 0");
  expect(run("refused", ...args)).toMatchObject({ code, err: expect.stringContaining(message) });
  expect(() => statSync(join(folder, "refused"))).toThrow();
});

test("help shows the usage", () => {
  const { code, out } = run("help", "--help");
  expect(code).toBe(0);
  expect(out).toContain("./install.sh [EXECUTABLE]");
  expect(out).toContain("./install.sh --uninstall");
});
