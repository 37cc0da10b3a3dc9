import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { copyFileSync, mkdirSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { buildExecutable } from "../../scripts/build.ts";
import { MIGRATIONS } from "../store/migrations/index.ts";
import { type InstallBox, mayOpenInstallBox, openInstallBox } from "../testing/boxes/install-box.ts";
import type { Fault } from "../testing/boxes/next-version.ts";
import { placeBinary } from "./binary.ts";
import { until } from "./kit.ts";

/**
 * Runs install.sh as root on a file system of its own, with an executable of this version and one of the next, whose
 * database has one migration more: installation, upgrade, the way back, and runs that were killed.
 */

const SCRIPT = resolve(import.meta.dir, "../../install.sh");
const NEXT_ENTRY = join(import.meta.dir, "../testing/boxes/next-version.ts");
const SHRUTI = "/usr/local/bin/shruti";
const CONFIG = "--config /etc/shruti/shruti.toml";
const PORT = 18_000 + (process.pid % 10_000);
const isPossible = mayOpenInstallBox();

let box: InstallBox;
let key = "";
let organization = "";

beforeAll(async () => {
  if (!isPossible) return;
  box = await openInstallBox();
  for (const version of ["this", "next"]) mkdirSync(join(box.folder, version));
  await placeBinary(join(box.folder, "this/shruti"));
  await buildExecutable(NEXT_ENTRY, join(box.folder, "next/shruti"));
  for (const version of ["this", "next"]) copyFileSync(SCRIPT, join(box.folder, version, "install.sh"));
  await box.must(`tail -c 112 ${box.folder}/next/shruti >${box.folder}/next/seal`);
}, 300_000);
afterAll(() => box?.remove(), 60_000);

const install = (version: "this" | "next", ...options: string[]) =>
  box.run(`sh ${box.folder}/${version}/install.sh ${options.join(" ")}`);
const setFault = (fault: Fault) => box.must(`echo '${fault}' > /run/shruti-fault`);
/** Tries to create an upload, which is a piece of work that a server accepts. */
async function createUpload(): Promise<{ status: number; id?: string }> {
  try {
    const answer = await fetch(`http://127.0.0.1:${PORT}/v1/uploads`, {
      method: "POST",
      body: JSON.stringify({ bytes: 1000 }),
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    });
    const { id } = (await answer.json()) as { id?: string };
    return { status: answer.status, ...(answer.status === 201 && id !== undefined ? { id } : {}) };
  } catch {
    return { status: 0 };
  }
}

/** Reads the database inside the box: requests for all of them would exceed the rate limit. */
async function uploadsInDatabase(): Promise<string[]> {
  const query = `import { Database } from "bun:sqlite";
    const sqlite = new Database("/var/lib/shruti/shruti.db", { readonly: true });
    console.log(sqlite.query("SELECT group_concat(id) AS ids FROM uploads").get().ids);`;
  writeFileSync(join(box.folder, "uploads.mjs"), query);
  return (await box.must(`${process.execPath} ${box.folder}/uploads.mjs`)).trim().split(",");
}

type State = { version: string; isNext: boolean; isReady: boolean; leftovers: string; paise: number };

async function state(): Promise<State> {
  const [check, ready, same, files, credit] = await Promise.all([
    // The next version knows both.
    box.run(`${box.folder}/next/shruti migrate --check --json ${CONFIG}`),
    isReady(),
    box.run(`cmp -s ${SHRUTI} ${box.folder}/next/shruti`),
    box.run(`ls -A /usr/local/bin /etc/systemd/system | grep -E 'new$|upgrade$' || true`),
    box.run(`${SHRUTI} credit show --org ${organization} --json ${CONFIG}`),
  ]);
  return {
    version: (JSON.parse(check.out) as { found: string }).found,
    isNext: same.code === 0,
    isReady: ready,
    leftovers: files.out,
    paise: (JSON.parse(credit.out) as { balance_paise: number }).balance_paise,
  };
}

const THIS_VERSION = MIGRATIONS.at(-1)?.name ?? "";
const OLD = { version: THIS_VERSION, isNext: false, isReady: true, leftovers: "", paise: 1000 };
const NEW = { ...OLD, version: "9000_next", isNext: true };

/** Asks the command whether the server is ready. */
const isReady = async () => (await box.run(`${box.folder}/next/shruti status --ready ${CONFIG}`)).code === 0;
/** Asks the server itself. A wait that started a command each time would take the processors from what it waits for. */
const answersReady = async () =>
  (await fetch(`http://127.0.0.1:${PORT}/readyz`).catch(() => undefined))?.status === 200;

/** Goes back to the old executable and a copy of its database, whatever a test has left. */
async function reset(): Promise<void> {
  await setFault("none");
  await box.must(`rm -f /run/shruti-kill /usr/local/bin/.shruti.upgrade; systemctl stop
    cd /var/lib/shruti && rm -f shruti.db* && cp -p ${box.folder}/saved.db shruti.db
    rm -f ${SHRUTI} ${SHRUTI}.* && cp ${box.folder}/this/shruti ${SHRUTI} && systemctl start`);
  await until("it is ready", answersReady, 120_000);
}

describe.skipIf(!isPossible)("install.sh (needs root)", () => {
  test("a dry run prints the steps and changes nothing; then it installs", async () => {
    const listen = ["--listen", `127.0.0.1:${PORT}`];
    const dry = await install("this", "--dry-run", ...listen);
    expect(dry).toMatchObject({ code: 0, out: expect.stringContaining("would run   useradd") });
    expect((await box.run("ls /etc/shruti /usr/local/bin/shruti /var/lib/shruti; id shruti")).out).toBe("");
    const installed = await install("this", ...listen);
    expect(installed.out).toContain("service     ready");
    key = /^key +(\S+)$/m.exec(installed.out)?.[1] ?? "";
    organization = /^organization +(\S+)$/m.exec(installed.out)?.[1] ?? "";
    await box.must(`${SHRUTI} credit grant --org ${organization} --paise 1000 ${CONFIG}`);
    const again = await install("this");
    expect(again).toMatchObject({ code: 0, out: expect.stringMatching(/kept: the same(.|\n)*ready/) });
    expect(await createUpload()).toMatchObject({ status: 201 });
    await box.must(`systemctl stop; cp -p /var/lib/shruti/shruti.db ${box.folder}/saved.db; systemctl start`);
    await until("it is ready", answersReady);
    expect(await state()).toEqual(OLD);
  }, 120_000);

  const FAULTS: [fault: Fault, reason: string][] = [
    ["bad migration", "nothing was changed"],
    ["crash", "not ready within"],
    ["never ready", "the engine is starting"],
  ];
  test.each(FAULTS)(
    "an upgrade with the fault: %s, is undone, database included",
    async (fault, reason) => {
      await reset();
      await setFault(fault);
      const statuses = new Set<number>();
      const accepted: string[] = [];
      let isOver = false;
      const asking = (async () => {
        while (!isOver) {
          const { status, id } = await createUpload();
          statuses.add(status);
          if (id !== undefined) accepted.push(id);
          await Bun.sleep(50);
        }
      })();
      const { code, err } = await box.run(`sh ${box.folder}/next/install.sh --wait 6`);
      isOver = true;
      await asking;
      expect({ code, err }).toEqual({ code: 5, err: expect.stringContaining(reason) });
      expect(err).toContain("the version from before runs again");
      expect(await state()).toEqual(OLD);
      if (fault === "never ready") expect(statuses).toContain(503);
      // What was accepted before or afterwards is there, and meanwhile nothing was accepted.
      expect(accepted.length).toBeGreaterThan(0);
      const stored = new Set(await uploadsInDatabase());
      expect(accepted.filter((id) => !stored.has(id))).toEqual([]);
    },
    120_000,
  );

  test("a program that does not answer does not hold the script up", async () => {
    await reset();
    await setFault("silent status");
    // The script gives each program 60 s.
    await box.must(`printf '#!/bin/sh\nshift; exec /usr/bin/timeout 10 "$@"\n' > /usr/local/sbin/timeout
      chmod 755 /usr/local/sbin/timeout`);
    const { code, err } = await install("next", "--wait", "1");
    await box.must("rm /usr/local/sbin/timeout");
    expect({ code, err }).toEqual({ code: 6, err: expect.stringContaining("not ready within 1 s") });
    expect(err).toContain("the upgraded database is in use and stays");
    // Only the script cannot see it.
    await until("its server is ready", answersReady, 120_000);
    expect(await state()).toMatchObject({ version: "9000_next", isNext: true, isReady: true });
  }, 300_000);

  test("what was written after the upgrade keeps the new database; the next upgrade completes it", async () => {
    await reset();
    await setFault("never ready");
    const upgrade = install("next", "--wait", "8");
    await until("it is upgraded", async () => (await createUpload()).status === 503, 90_000);
    await box.must(`${SHRUTI} credit grant --org ${organization} --paise 500 ${CONFIG}`);
    const { code, err } = await upgrade;
    expect({ code, err }).toEqual({ code: 6, err: expect.stringContaining("written to since its upgrade") });
    expect(await state()).toMatchObject({ version: "9000_next", isNext: true, isReady: false, paise: 1500 });
    await setFault("none");
    expect(await install("next")).toMatchObject({ code: 0, out: expect.stringContaining("ready") });
    expect(await state()).toEqual({ ...NEW, paise: 1500 });
    expect(await createUpload()).toMatchObject({ status: 201 });
  }, 120_000);

  /** Compares the seals, which have the hash of the rest. The executables have the same beginning, a hundred megabytes long. */
  const IS_SWAPPED = () => `tail -c 112 ${SHRUTI} | cmp -s - ${box.folder}/next/seal`;
  const HANGS = () => "test -e /run/shruti-hangs && echo none > /run/shruti-fault";
  const SIGNALS: [what: string, fault: Fault, begun: () => string, signals: string, said: string][] = [
    ["SIGTERM", "never ready", IS_SWAPPED, "kill -TERM $script", "runs again"],
    [
      "a second and a third signal",
      ...(["never ready", IS_SWAPPED] as const),
      "kill -TERM $script; until grep -q 'going back' $log; do sleep 0.05; done; kill -HUP $script; kill -TERM $script",
      "the version from before",
    ],
    ["SIGTERM while a program does not answer", "silent status", HANGS, "kill -TERM $script", "runs again"],
    [
      "SIGTERM while the database is upgraded",
      ...(["slow migration", HANGS, "kill -TERM $script", "runs again"] as const),
    ],
  ];
  test.each(SIGNALS)(
    "%s in the middle of an upgrade undoes it",
    async (_, fault, begun, signals, said) => {
      await reset();
      await setFault(fault);
      const { code, out } = await box.run(`rm -f /run/shruti-hangs; log=/run/shruti-install.log
      sh ${box.folder}/next/install.sh --wait 240 >$log 2>&1 & script=$!
      until ${begun()}; do kill -0 $script || break; sleep 0.1; done
      ${signals}; code=0; wait $script || code=$?; cat $log; exit $code`);
      expect({ code, out }).toEqual({ code: 5, out: expect.stringContaining(said) });
      // The script has not waited before it acted.
      expect(out).not.toContain("not ready within");
      await until("the version from before is ready", answersReady);
      expect(await state()).toEqual(OLD);
    },
    300_000,
  );

  test("an upgrade whose terminal is gone is undone by the signal that says so", async () => {
    await reset();
    await setFault("never ready");
    const { out } =
      await box.run(`mkfifo ${box.folder}/terminal; cat <${box.folder}/terminal >/dev/null & terminal=$!
      (code=0; sh ${box.folder}/next/install.sh --wait 240 >${box.folder}/terminal 2>&1 & echo $! > /run/shruti-script
        wait $! || code=$?; echo $code > /run/shruti-code) 2>/dev/null & waiting=$!
      until ${IS_SWAPPED()}; do kill -0 $waiting || break; sleep 0.1; done
      kill -9 $terminal; kill -HUP $(cat /run/shruti-script); wait $waiting; cat /run/shruti-code`);
    expect(out).toBe("5\n");
    expect(await state()).toEqual(OLD);
  }, 300_000);

  const KILLS: [step: string, fault: Fault][] = [
    ["stop", "none"],
    ["migrate", "none"],
    ["migrate", "never ready"],
    ["daemon-reload", "never ready"],
    ["restart", "none"],
    ["restart", "never ready"],
  ];
  test.each(KILLS)(
    "a run that is killed after the step %s is completed by the next one, or undone; its fault: %s",
    async (step, fault) => {
      await reset();
      if (step === "migrate") await setFault("killed after migrate");
      else await box.must(`echo ${step} > /run/shruti-kill`);
      expect((await install("next", "--wait", "6")).code).toBe(137);
      expect((await box.run("ls /usr/local/bin/.shruti.upgrade")).code).toBe(0);
      // The migration continues without the script, and holds its lock until it ends.
      await box.must("flock -w 30 /usr/local/bin/.shruti.lock true");
      await setFault(fault);
      const next = await install("next", "--wait", "6");
      expect(next.out).toContain("an earlier run was interrupted");
      expect(next.code).toBe(fault === "none" ? 0 : 5);
      expect(await state()).toEqual(fault === "none" ? NEW : OLD);
    },
    120_000,
  );

  test("a config that is there first stays, and what it lacks is made", async () => {
    const text = `[server]\nlisten = "127.0.0.1:${PORT}"\n[storage]\ndata_dir = "/var/lib/shruti-data"\n`;
    await box.must(`systemctl stop; sh ${SCRIPT} --uninstall; rm -rf /etc/shruti /var/lib/shruti`);
    await box.must(`mkdir -p /etc/shruti; printf '${text.replaceAll("\n", "\\n")}' >/etc/shruti/shruti.toml`);
    await box.must("chmod 600 /etc/shruti/shruti.toml");
    const { code, out, err } = await install("this");
    expect({ code, out, err }).toMatchObject({ code: 0, out: expect.stringMatching(/^key +shr_/m) });
    expect(out).toContain("service     ready");
    expect(await box.must("cat /etc/shruti/shruti.toml")).toBe(text);
    const owners = "stat -c '%U %G %a' /var/lib/shruti-data/shruti.db /etc/shruti/shruti.toml";
    expect(await box.must(owners)).toBe("shruti shruti 600\nroot shruti 640\n");
    const again = await install("this");
    expect(again).toMatchObject({ code: 0, out: expect.not.stringMatching(/^key +/m) });
  }, 120_000);
});
