import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdirSync } from "node:fs";
import { join, resolve } from "node:path";
import { openSystemdBox, type SystemdBox } from "../testing/boxes/systemd-box.ts";
import { placeBinary } from "./binary.ts";
import { until } from "./kit.ts";

/**
 * install.sh and its unit under a real systemd: readiness, reload, stop, limits, and which ends are followed by another
 * start. It needs root, systemd and control groups that may be written.
 */

const SCRIPT = resolve(import.meta.dir, "../../install.sh");
const CONFIG = "/etc/shruti/shruti.toml";
const PORT = 18_000 + ((process.pid + 5_000) % 10_000);
const URL = `http://127.0.0.1:${PORT}`;

const opened = await openSystemdBox();
const box = opened as SystemdBox;

/** Returns properties of the unit. */
async function show(...names: string[]): Promise<Record<string, string>> {
  const out = await box.must(`systemctl show shruti ${names.map((name) => `-p ${name}`).join(" ")}`);
  return Object.fromEntries(
    out
      .trim()
      .split("\n")
      .map((line) => [line.slice(0, line.indexOf("=")), line.slice(line.indexOf("=") + 1)]),
  );
}
const journal = (more = "") => box.must(`journalctl -u shruti -o cat --no-pager ${more}`);
const count = (text: string, part: string) => text.split(part).length - 1;
const set = (setting: string, value: string) =>
  box.must(
    `sed -i -E 's|^#? ?(${setting}) = .*|\\1 = ${value}|' ${CONFIG} && grep '^${setting} = ' ${CONFIG}`,
  );

describe.skipIf(opened === undefined)("under systemd (needs root and systemd)", () => {
  beforeAll(async () => {
    const folder = join(box.folder, "this");
    mkdirSync(folder);
    await placeBinary(join(folder, "shruti"));
    await box.must(`cp ${SCRIPT} ${folder}/`);
    const { code, out, err } = await box.run(`sh ${folder}/install.sh --listen 127.0.0.1:${PORT} --wait 240`);
    expect({ code, out, err }).toMatchObject({ code: 0, out: expect.stringContaining("ready; see") });
  }, 300_000);
  afterAll(() => box.remove(), 60_000);

  test("a start is over when the server listens, as the service's user and within the limits", async () => {
    await box.must("systemctl restart shruti");
    // No wait: systemctl has returned, so requests are answered.
    expect((await fetch(`${URL}/healthz`)).status).toBe(200);
    const state = await show("ActiveState", "SubState", "StatusText", "MainPID", "User", "TasksMax");
    expect(state).toMatchObject({
      ...{ ActiveState: "active", SubState: "running", User: "shruti", TasksMax: "8192" },
      StatusText: expect.stringContaining(`127.0.0.1:${PORT}`),
    });
    const { MemoryMax } = await show("MemoryMax");
    expect(Number(MemoryMax)).toBeGreaterThan(100_000_000);
    const group = await box.must("systemctl show shruti -p ControlGroup --value");
    const limits = await box.must(
      `cat /sys/fs/cgroup/memory${group.trim()}/memory.limit_in_bytes /sys/fs/cgroup${group.trim()}/memory.max 2>/dev/null || true`,
    );
    expect(Math.abs(Number(limits.trim()) - Number(MemoryMax))).toBeLessThan(8192);
    expect((await box.run("systemctl is-enabled shruti")).out).toBe("enabled\n");
    // --listen is the address of the server alone: a fleet has one of its own.
    const settings = JSON.parse(
      await box.must(`/usr/local/bin/shruti config show --json --config ${CONFIG}`),
    );
    expect([settings.server.listen, settings.fleet.listen]).toEqual([`127.0.0.1:${PORT}`, "0.0.0.0:8443"]);
    expect((await box.must(`stat -c '%U %a' /proc/${state.MainPID} ${CONFIG}`)).split("\n")).toEqual([
      ...["shruti 555", "root 640", ""],
    ]);
  }, 180_000);

  test("a reload takes over settings in the same process, and a config with a mistake fails it", async () => {
    await until("it is ready", async () => (await fetch(`${URL}/readyz`)).ok);
    const before = await show("MainPID", "NRestarts");
    await set("level", '"debug"');
    const since = await box.must("date +%s.%N");
    await box.must("systemctl reload shruti");
    const text = () => journal(`--since @${since.trim()}`);
    await until("the reload is in the journal", async () =>
      (await text()).includes("the config was reloaded"),
    );
    expect(await text()).toContain('"changed":["log.level"]');
    await until("the service runs again", async () => (await show("SubState")).SubState === "running");
    expect(await show("MainPID", "NRestarts")).toEqual(before);

    await set("level", '"loud"');
    const { code } = await box.run("systemctl reload shruti");
    expect(code).not.toBe(0);
    expect(count(await text(), "the config was reloaded")).toBe(1);
    expect(await show("MainPID", "NRestarts", "ActiveState")).toEqual({ ...before, ActiveState: "active" });
    await set("level", '"info"');
    await box.must("systemctl reload shruti");
    await until("the second reload", async () => count(await text(), "the config was reloaded") === 2);
    expect((await fetch(`${URL}/healthz`)).status).toBe(200);
  }, 180_000);

  test("a reload by the signal alone is shown by systemd from its begin to its end", async () => {
    // systemd logs the messages of its services only at level debug.
    await box.must("systemd-analyze log-level debug");
    const since = await box.must("date +%s.%N");
    await box.must("systemctl kill --kill-whom=main -s HUP shruti");
    const manager = () => box.must(`journalctl --since @${since.trim()} -o cat --no-pager _PID=1`);
    await until("both ends are known", async () => {
      const lines = await manager();
      return /shruti\.service: .*RELOADING=1/.test(lines) && /shruti\.service: .*READY=1/.test(lines);
    });
    await box.must("systemd-analyze log-level info");
    expect(await manager()).toMatch(/RELOADING=1.*MONOTONIC_USEC=\d+/);
    expect(await show("ActiveState", "SubState")).toEqual({ ActiveState: "active", SubState: "running" });
  }, 180_000);

  test("the journal has priorities", async () => {
    await set("level", '"loud"');
    await box.must("systemctl kill --kill-whom=main -s HUP shruti");
    await until("the error is there", async () =>
      (await journal("-p err")).includes("the config was not reloaded"),
    );
    expect(await journal("-p err")).not.toContain('"msg":"listening"');
    await set("level", '"info"');
  }, 180_000);

  test("a server that is killed is started again; stop ends it cleanly", async () => {
    const { MainPID } = await show("MainPID");
    await box.must("systemctl kill --kill-whom=main -s KILL shruti");
    await until("another process runs", async () => {
      const now = await show("MainPID", "SubState");
      return now.SubState === "running" && now.MainPID !== MainPID && now.MainPID !== "0";
    });
    expect(await show("NRestarts")).toEqual({ NRestarts: "1" });
    await until("it listens", async () => (await fetch(`${URL}/readyz`).catch(() => undefined))?.ok ?? false);
    await box.must("systemctl stop shruti");
    expect(await show("ActiveState", "Result", "ExecMainStatus")).toEqual({
      ...{ ActiveState: "inactive", Result: "success", ExecMainStatus: "0" },
    });
    expect((await box.run("pgrep -u shruti")).out).toBe("");
  }, 180_000);

  test.each([
    [
      "2",
      "a config with a mistake",
      `sed -i 's/^level = .*/level = "loud"/' ${CONFIG}`,
      `sed -i 's/^level = .*/level = "info"/' ${CONFIG}`,
    ],
    [
      "4",
      "no database",
      "mv /var/lib/shruti /var/lib/shruti.away",
      "rm -rf /var/lib/shruti; mv /var/lib/shruti.away /var/lib/shruti",
    ],
    [
      "7",
      "a database that its user may not write",
      "chown root /var/lib/shruti/shruti.db && chmod 600 /var/lib/shruti/shruti.db",
      "chown shruti /var/lib/shruti/shruti.db",
    ],
  ])(
    "status %s (%s) is not followed by another start",
    async (status, _what, damage, repair) => {
      await box.run("systemctl stop shruti; systemctl reset-failed shruti");
      await box.must(damage);
      const { code } = await box.run("systemctl start shruti");
      const state = await show("ActiveState", "ExecMainStatus", "NRestarts", "Result");
      await box.must(repair);
      expect({ code, ...state }).toEqual({
        ...{ code: 1, ActiveState: "failed", ExecMainStatus: status, NRestarts: "0", Result: "exit-code" },
      });
      await box.must("systemctl reset-failed shruti && systemctl start shruti");
    },
    60_000,
  );

  test("shells complete its commands and man shows its page, as long as it is installed", async () => {
    const share = "/usr/local/share";
    const complete = `bash -c '. ${share}/bash-completion/completions/shruti; COMP_WORDS=(shruti web); COMP_CWORD=1; _shruti; echo "\${COMPREPLY[*]}"'`;
    expect((await box.must(complete)).trim()).toBe("webhooks");
    for (const [file, part] of [
      ["zsh/site-functions/_shruti", "#compdef shruti"],
      ["fish/vendor_completions.d/shruti.fish", "complete -c shruti"],
      ["man/man1/shruti.1", ".TH SHRUTI 1"],
    ])
      expect(await box.must(`cat ${share}/${file}`)).toContain(part ?? "");
    const { code, out, err } = await box.run(`sh ${box.folder}/this/install.sh --dry-run`);
    expect({ code, out, err }).toMatchObject({
      ...{ code: 0, out: expect.stringContaining(`would write ${share}/man/man1/shruti.1`) },
    });
  }, 180_000);

  test("--uninstall removes the service and keeps the data", async () => {
    await box.must(`sh ${box.folder}/this/install.sh --uninstall`);
    expect((await box.must("find /usr/local/share -name '*shruti*'")).trim()).toBe("");
    expect((await box.run("systemctl cat shruti")).code).not.toBe(0);
    await box.must(`test -e /var/lib/shruti/shruti.db -a -e ${CONFIG}`);
    await expect(fetch(`${URL}/healthz`)).rejects.toThrow();
  }, 180_000);
});
