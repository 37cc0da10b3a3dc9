import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { WORKER_COMMAND } from "../../engine/protocol.ts";
import { MIGRATIONS } from "../../store/migrations/index.ts";

/**
 * The program as a later version of it could be: with one migration more, and with a fault that a test chooses. It is
 * the entry of an executable that `e2e/upgrade.test.ts` builds.
 */

/** A test writes the fault into this file. */
const FAULT_FILE = "/run/shruti-fault";
/** The faults that a later version may have. */
export type Fault =
  | "none"
  | "bad migration"
  | "crash"
  | "never ready"
  | "killed after migrate"
  | "silent status"
  | "slow migration";
/** Is made when a fault that keeps a command from its end has begun. */
const HANGS_FILE = "/run/shruti-hangs";

const fault = existsSync(FAULT_FILE) ? (readFileSync(FAULT_FILE, "utf8").trim() as Fault) : "none";
const command = process.argv[2];

(MIGRATIONS as { name: string; sql: string }[]).push({
  name: "9000_next",
  sql: `CREATE TABLE next_things (id INTEGER PRIMARY KEY); ${fault === "bad migration" ? "SELECT * FROM nothing;" : ""}`,
});

if (fault === "crash" && command === "serve") process.exit(1);
// A model that is loaded without end.
if (fault === "never ready" && command === WORKER_COMMAND)
  await new Promise(() => setInterval(() => {}, 1_000));

// Once it has its place: the same command is asked before that.
if (fault === "silent status" && command === "status" && process.execPath === "/usr/local/bin/shruti") {
  writeFileSync(HANGS_FILE, "");
  await new Promise(() => setInterval(() => {}, 1_000));
}
if (fault === "slow migration" && command === "migrate" && process.argv.length === 5) {
  writeFileSync(HANGS_FILE, "");
  await Bun.sleep(4_000);
}

// The program gives up root's rights, so another process kills the script that has started it.
const isKilled = fault === "killed after migrate" && command === "migrate" && process.argv.length === 5;
if (isKilled) {
  const wait = `until grep -q '"sha256":"' /var/lib/shruti/shruti.db.upgraded; do sleep 0.01; done`;
  Bun.spawn(["sh", "-c", `${wait} 2>/dev/null; kill -9 ${process.ppid}`], {
    stdio: ["ignore", "ignore", "ignore"],
  });
}
await import("../../main.ts");
if (isKilled) await Bun.sleep(3_000);
