import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { buildExecutable } from "../../scripts/build.ts";
import { layOutBundle } from "../../scripts/release/bundle.ts";
import { NO_MAINTAINER } from "../../scripts/release/packages/package-facts.ts";
import { writePackages } from "../../scripts/release/packages/packages.ts";
import type { PartList } from "../executable/parts.ts";
import type { Fault } from "../testing/boxes/next-version.ts";
import { openSystemdBox, type SystemdBox } from "../testing/boxes/systemd-box.ts";
import { placeBinary } from "./binary.ts";
import { until } from "./kit.ts";

/**
 * Packages of this version and of the next, whose database has one migration more, under a real systemd: installation, an
 * upgrade that fails, one that is killed, removal, purge, and the same with rpm.
 */

const NEXT_ENTRY = join(import.meta.dir, "../testing/boxes/next-version.ts");
const CONFIG = "/etc/shruti/shruti.toml";
const DATA = "/var/lib/shruti";
const PORT = 18_000 + ((process.pid + 2_500) % 10_000);
const NEEDED = ["dpkg", "rpm", "debconf-set-selections"];
const opened = NEEDED.every((name) => Bun.which(name) !== null) ? await openSystemdBox() : undefined;
const box = opened as SystemdBox;

/** Makes both packages of an executable in a folder that the box sees. */
async function makePackages(
  name: string,
  executable: string,
  parts: PartList,
  version: string,
): Promise<void> {
  const at = join(box.folder, name);
  const bundle = join(at, "release");
  mkdirSync(at);
  const own = { ...parts, build: { ...parts.build, version } };
  await layOutBundle(bundle, executable, own, undefined);
  const options = { formats: ["deb", "rpm"] as const, maintainer: NO_MAINTAINER, compression: 1 };
  await writePackages(bundle, own, options, new Date("2026-11-22T06:00:00Z"), at);
  await box.must(`cd ${at} && mv *.deb shruti.deb && mv *.rpm shruti.rpm`);
  rmSync(bundle, { recursive: true });
}

const DPKG = "DEBIAN_FRONTEND=noninteractive INSTALL_WAIT_SECONDS=60 dpkg --force-confold --force-depends";
const RPM = "INSTALL_WAIT_SECONDS=60 rpm --nodeps --force-debian";
const deb = (version: "this" | "next", variables = "") =>
  box.run(`${variables} ${DPKG} --install ${box.folder}/${version}/shruti.deb`);
const rpm = (version: "this" | "next") => box.run(`${RPM} -U ${box.folder}/${version}/shruti.rpm`);
const setFault = (fault: Fault) => box.must(`echo '${fault}' > /run/shruti-fault`);
const answersReady = async () =>
  (await fetch(`http://127.0.0.1:${PORT}/readyz`).catch(() => undefined))?.status === 200;
const ready = () => until("it is ready", answersReady, 120_000);
/** The first key of the installation, as a client uses it. */
async function createsUpload(): Promise<number> {
  const key = (await box.must("cat /etc/shruti/first-key")).trim();
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
  const body = JSON.stringify({ bytes: 1000 });
  return (await fetch(`http://127.0.0.1:${PORT}/v1/uploads`, { method: "POST", headers, body })).status;
}

async function state() {
  const show = (name: string) => box.must(`systemctl show shruti -p ${name} --value`);
  const check = await box.run(`/usr/bin/shruti migrate --check --json --config ${CONFIG}`);
  return {
    active: (await show("ActiveState")).trim(),
    runs: /path=(\S+)/.exec(await show("ExecStart"))?.[1],
    database: /"state": "(\w+)"/.exec(check.out)?.[1],
    leftovers: (await box.run("ls -A /usr/lib/shruti | grep -E 'upgrade|new$'")).out,
  };
}
const RUNS = { active: "active", runs: "/usr/bin/shruti", database: "current", leftovers: "" };
/** The new files are in place, and the service runs those from before. */
const WENT_BACK = { ...RUNS, runs: "/usr/lib/shruti/bin/shruti.previous", database: "older" };

/** Removes everything of earlier tests, and lays out the config of a machine whose admin has chosen a port. */
const CLEAN = `rm -rf ${DATA} /etc/shruti /etc/systemd/system/shruti.service.d && mkdir /etc/shruti &&
  printf '[storage]\\ndata_dir = "${DATA}"\\n[server]\\nlisten = "127.0.0.1:${PORT}"\\n' > ${CONFIG} && chmod 600 ${CONFIG}`;

describe.skipIf(opened === undefined)("packages (needs root, systemd, dpkg and rpm)", () => {
  beforeAll(async () => {
    const executable = join(box.folder, "program");
    await placeBinary(executable);
    const facts = JSON.parse(await box.must(`${executable} version --json`)) as PartList["build"];
    const parts: PartList = { build: { ...facts, glibc: null }, licence: null, parts: [], texts: {} };
    await makePackages("this", executable, parts, "1.0.0");
    await buildExecutable(NEXT_ENTRY, executable);
    await makePackages("next", executable, parts, "2.0.0");
    rmSync(executable);
    // Such a file keeps packages from starting services in images that are being made.
    await box.must("rm -f /usr/sbin/policy-rc.d");
  }, 300_000);
  afterAll(() => box.remove(), 60_000);

  test("an installation starts the service, keeps a config that was there, and writes the key into a file of root", async () => {
    await box.must(CLEAN);
    const { code, out, err } = await deb("this");
    expect({ code, err: code === 0 ? "" : err }).toEqual({ code: 0, err: "" });
    expect(out).toContain("service     ready");
    expect(out).toContain("key           /etc/shruti/first-key");
    expect(await createsUpload()).toBe(201);
    expect(out).not.toContain((await box.must("cat /etc/shruti/first-key")).trim());
    expect(await box.must(`stat -c '%U %G %a' ${CONFIG} /etc/shruti/first-key ${DATA}`)).toBe(
      "root shruti 640\nroot root 600\nshruti shruti 700\n",
    );
    expect(await state()).toEqual(RUNS);
    expect((await box.must("systemctl is-enabled shruti")).trim()).toBe("enabled");
  }, 180_000);

  test("install.sh and a package refuse to be installed over each other", async () => {
    const { code, err } = await box.run(`sh ${join(import.meta.dir, "../../install.sh")} /usr/bin/shruti`);
    expect({ code, err }).toMatchObject({
      code: 3,
      err: expect.stringContaining("the package shruti is installed"),
    });
    // As install.sh leaves it: a unit of its own, and nothing of the package.
    const checks = `set -e; mkdir ${box.folder}/control; dpkg-deb -e ${box.folder}/this/shruti.deb ${box.folder}/control
      mv /usr/lib/shruti /usr/lib/shruti.away
      echo 'ExecStart=/usr/local/bin/shruti serve' > /etc/systemd/system/shruti.service`;
    await box.must(checks);
    const refused = await box.run(`sh ${box.folder}/control/preinst install`);
    await box.must("mv /usr/lib/shruti.away /usr/lib/shruti; rm /etc/systemd/system/shruti.service");
    expect(refused).toMatchObject({ code: 1, err: expect.stringContaining("install.sh --uninstall") });
  }, 60_000);

  const FAULTS: Fault[] = ["bad migration", "never ready"];
  test.each(FAULTS)(
    "an upgrade with the fault: %s, goes back, and can be tried again",
    async (fault) => {
      await ready();
      await setFault(fault);
      // As version 0.1.0 kept it.
      await box.must("cd /usr/lib/shruti && mv bin/shruti.previous . && rmdir bin");
      const failed = await deb("next", "export INSTALL_WAIT_SECONDS=6;");
      expect(failed.code).not.toBe(0);
      expect(failed.err).toContain("dpkg --configure shruti");
      expect(failed.err).toContain("the version from before runs again");
      expect(await state()).toEqual(WENT_BACK);
      await ready();
      expect(await createsUpload()).toBe(201);
      await setFault("none");
      // The version from before takes its place again, so that the next fault has the same start.
      const back = await deb("this");
      expect({ back: back.code, err: back.err }).toMatchObject({ back: 0 });
      expect(await state()).toEqual(RUNS);
    },
    240_000,
  );

  test("an upgrade that is killed after the database was upgraded is completed", async () => {
    await ready();
    await setFault("killed after migrate");
    expect((await deb("next")).code).not.toBe(0);
    await setFault("none");
    const completed = await box.run(`${DPKG} --configure --pending`);
    expect(completed).toMatchObject({
      code: 0,
      out: expect.stringContaining("an earlier run was interrupted"),
    });
    expect(await state()).toEqual(RUNS);
    expect(await createsUpload()).toBe(201);
  }, 240_000);

  test("an older version, which cannot read the database, leaves the service as it is", async () => {
    const { code, err } = await deb("this");
    expect(code).not.toBe(0);
    expect(err).toContain("was written by a newer version");
    expect(await createsUpload()).toBe(201);
    expect((await state()).runs).toBe(WENT_BACK.runs);
    expect(await deb("next")).toMatchObject({ code: 0 });
    expect(await state()).toEqual(RUNS);
  }, 240_000);

  test("a service that was stopped stays stopped; a removal keeps config and data, and the next installation has them", async () => {
    await box.must("systemctl disable --now --quiet shruti");
    expect(await deb("next")).toMatchObject({ code: 0, out: expect.stringContaining("not started") });
    expect((await state()).active).toBe("inactive");
    await box.must("systemctl enable --now --quiet shruti");
    await box.must(`${DPKG} --remove shruti`);
    expect((await box.run("systemctl is-active shruti; pgrep -x shruti; ls /usr/lib/shruti")).out).toBe(
      "inactive\n",
    );
    await box.must(`test -s ${CONFIG} -a -s ${DATA}/shruti.db -a -s /etc/shruti/first-key`);
    expect(await deb("next")).toMatchObject({ code: 0, out: expect.stringContaining("service     ready") });
    expect(await createsUpload()).toBe(201);
  }, 240_000);

  test("a purge keeps the data without an answer, and deletes it after one", async () => {
    const kept = await box.run(`${DPKG} --purge shruti`);
    expect(kept).toMatchObject({ code: 0, err: expect.stringContaining(`${DATA} was kept`) });
    await box.must(`test -s ${DATA}/shruti.db`);
    expect((await box.run("ls /etc/shruti")).code).toBe(2);
    // The next installation continues with them. The port of the package's own config may be another program's.
    await box.must(
      `mkdir /etc/shruti; printf '[storage]\\ndata_dir = "${DATA}"\\n[server]\\nlisten = "127.0.0.1:${PORT}"\\n' > ${CONFIG}`,
    );
    expect(await deb("next")).toMatchObject({ code: 0 });
    await ready();
    await box.must("echo 'shruti shruti/purge_data boolean true' | debconf-set-selections");
    await box.must(`${DPKG} --purge shruti`);
    expect((await box.run(`ls -d ${DATA} /etc/shruti`)).out).toBe("");
    expect((await box.run("debconf-show shruti")).out).toBe("");
  }, 240_000);

  test("an rpm is started by the admin, goes back like a package for Debian, and its removal keeps data and config", async () => {
    await box.must(
      `${CLEAN}; mkdir -p /etc/systemd/system-preset; echo 'disable *' > /etc/systemd/system-preset/99-off.preset`,
    );
    expect(await rpm("this")).toMatchObject({ code: 0, out: expect.stringContaining("not started") });
    expect((await box.run("systemctl is-enabled shruti")).out).toBe("disabled\n");
    await box.must("systemctl enable --now --quiet shruti");
    await ready();
    await setFault("bad migration");
    expect((await rpm("next")).err).toContain("install.sh --packaged");
    expect(await state()).toEqual(WENT_BACK);
    await setFault("none");
    await box.must("INSTALL_WAIT_SECONDS=60 sh /usr/lib/shruti/install.sh --packaged");
    expect(await state()).toEqual(RUNS);
    expect(await createsUpload()).toBe(201);
    // rpm 4.20 and newer can run scripts without a network and with folders hidden. A second run changes nothing.
    const apart = `unshare --mount --net sh -c 'mount -t tmpfs none ${DATA} && exec sh /usr/lib/shruti/install.sh --packaged'`;
    const again = await box.run(`INSTALL_WAIT_SECONDS=60 ${apart}`);
    expect(again).toMatchObject({ code: 0, out: expect.stringContaining("service     ready") });
    expect(await createsUpload()).toBe(201);
    expect((await box.run("rpm -V --nodeps shruti")).out).toMatch(/^\S+ +c \/etc\/shruti\/shruti\.toml\n$/);
    await box.must("rpm -e shruti");
    expect((await box.run("systemctl is-active shruti; pgrep -x shruti; ls /usr/lib/shruti")).out).toBe(
      "inactive\n",
    );
    await box.must(`test -s ${DATA}/shruti.db -a -s ${CONFIG}.rpmsave`);
  }, 300_000);
});
