import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { PartList } from "../../../src/executable/parts.ts";
import { buildFacts } from "../../../src/testing/kits/release-facts.ts";
import { layOutBundle } from "../bundle.ts";
import { NO_MAINTAINER } from "./package-facts.ts";
import { writePackages } from "./packages.ts";

/** Packages of a release whose executable is a small script; src/e2e/packages.test.ts installs real ones. */

const folder = mkdtempSync(join(tmpdir(), "shruti-packages-"));
afterAll(() => rmSync(folder, { recursive: true }));

const PARTS: PartList = {
  build: buildFacts({ version: "1.2.0-rc.1" }),
  licence: null,
  parts: [],
  texts: {},
};
const TIME = new Date("2026-11-22T06:00:00Z");
const DEB = "shruti_1.2.0~rc.1-1_amd64.deb";
const RPM = "shruti-1.2.0~rc.1-1.x86_64.rpm";

/** Makes both packages in a folder of their own, from a release of its own. */
async function make(name: string, platform: string): Promise<string> {
  const at = join(folder, name);
  const program = join(folder, `${name}-program`);
  writeFileSync(program, "#!/bin/sh\necho shruti\n");
  mkdirSync(at);
  const parts = { ...PARTS, build: { ...PARTS.build, platform } };
  await layOutBundle(join(at, "release"), program, parts, undefined);
  const options = { formats: ["deb", "rpm"] as const, maintainer: NO_MAINTAINER };
  await writePackages(join(at, "release"), parts, options, TIME, at);
  return at;
}

function run(...command: string[]): { code: number; out: string } {
  const { exitCode, stdout, stderr } = Bun.spawnSync(command, { env: { ...process.env, LC_ALL: "C" } });
  return { code: exitCode, out: stdout.toString() + stderr.toString() };
}

function succeed(...command: string[]): string {
  const { code, out } = run(...command);
  expect({ command, code, out: code === 0 ? "" : out }).toEqual({ command, code: 0, out: "" });
  return out;
}

let made = "";
beforeAll(async () => {
  made = await make("one", "linux-x64");
}, 60_000);

test("the same release gives the same bytes, whatever the place, the umask and the time", async () => {
  const before = process.umask(0o077);
  try {
    const again = await make("two", "linux-x64");
    for (const name of [DEB, RPM])
      expect(readFileSync(join(again, name)).equals(readFileSync(join(made, name)))).toBe(true);
  } finally {
    process.umask(before);
  }
});

test("a folder that was packed leaves nothing but packages", () => {
  expect(readdirSync(made).sort()).toEqual([RPM, "release", DEB].sort());
});

describe.skipIf(Bun.which("dpkg-deb") === null)("a package for Debian (needs dpkg-deb)", () => {
  test("says what it is, and which file is the admin's", () => {
    const field = (name: string) => succeed("dpkg-deb", "-f", join(made, DEB), name).trim();
    expect(field("Version")).toBe("1.2.0~rc.1-1");
    expect(field("Architecture")).toBe("amd64");
    expect(field("Depends")).toContain("libc6 (>= 2.28)");
    expect(Number(field("Installed-Size"))).toBeGreaterThan(500);
    succeed("dpkg-deb", "-e", join(made, DEB), join(folder, "control"));
    expect(readFileSync(join(folder, "control/conffiles"), "utf8")).toBe("/etc/shruti/shruti.toml\n");
    for (const script of ["preinst", "postinst", "prerm", "postrm"])
      succeed("sh", "-n", join(folder, "control", script));
    // A release candidate is older than its release.
    succeed("dpkg", "--compare-versions", "1.2.0~rc.1-1", "lt", "1.2.0-1");
  });

  test("unpacks to files with the right owner, rights and checksums", () => {
    const listed = succeed("dpkg-deb", "-c", join(made, DEB)).trim().split("\n");
    expect(listed.filter((line) => !line.includes(" root/root "))).toEqual([]);
    const rightsOf = (path: string) => listed.find((line) => line.endsWith(` .${path}`))?.slice(0, 10);
    expect(rightsOf("/usr/bin/shruti")).toBe("-rwxr-xr-x");
    expect(rightsOf("/etc/shruti/shruti.toml")).toBe("-rw-r-----");
    expect(rightsOf("/usr/lib/systemd/system/shruti.service")).toBe("-rw-r--r--");
    expect(rightsOf("/usr/share/doc/shruti/docs/manual/install.md")).toBe("-rw-r--r--");
    const unpacked = join(folder, "unpacked");
    succeed("dpkg-deb", "-x", join(made, DEB), unpacked);
    const sums = succeed(
      "sh",
      "-c",
      `cd ${unpacked} && md5sum -c --quiet ${folder}/control/md5sums && echo same`,
    );
    expect(sums).toBe("same\n");
    const unit = readFileSync(join(unpacked, "usr/lib/systemd/system/shruti.service"), "utf8");
    expect(unit).toContain("\nExecStart=/usr/bin/shruti serve --config /etc/shruti/shruti.toml\n");
    expect(readFileSync(join(unpacked, "usr/share/bash-completion/completions/shruti"), "utf8")).toContain(
      "shruti",
    );
  });
});

test.skipIf(Bun.which("lintian") === null)(
  "lintian has no complaint that is not answered (needs lintian)",
  () => {
    // The executable is a script here, so the answers about programs are not needed.
    const out = succeed("lintian", "--profile", "debian", "--allow-root", join(made, DEB));
    expect(
      out.split("\n").filter((line) => /^[EW]:/.test(line) && !/mismatched-override/.test(line)),
    ).toEqual([]);
  },
  300_000,
);

describe.skipIf(Bun.which("rpm") === null || Bun.which("fakeroot") === null)(
  "an rpm (needs rpm and fakeroot)",
  () => {
    test("has right checksums, and rpm reads what it is", () => {
      const checked = succeed("rpm", "-Kv", join(made, RPM));
      for (const sum of ["Header SHA256 digest: OK", "Payload SHA256 digest: OK"])
        expect(checked).toContain(sum);
      const asked = (...options: string[]) => succeed("rpm", "-qp", ...options, join(made, RPM));
      expect(asked("--queryformat", "%{NAME} %{VERSION} %{RELEASE} %{ARCH} %{PAYLOADCOMPRESSOR}")).toBe(
        "shruti 1.2.0~rc.1 1 x86_64 gzip",
      );
      expect(asked("--configfiles")).toBe("/etc/shruti/shruti.toml\n");
      expect(asked("--queryformat", "[%{FILENAMES} %{FILEFLAGS:fflags}\n]")).toContain(
        "/etc/shruti/shruti.toml cn\n",
      );
      expect(asked("--requires")).toContain("libc.so.6(GLIBC_2.28)(64bit)\n");
      expect(asked("--list").split("\n")).toContain("/usr/share/zsh/site-functions/_shruti");
    });

    test("is refused by rpm when a byte of it has changed", () => {
      const bytes = readFileSync(join(made, RPM));
      const at = bytes.length - 1000;
      bytes[at] = (bytes[at] ?? 0) ^ 1;
      const changed = join(folder, "changed.rpm");
      writeFileSync(changed, bytes);
      expect(run("rpm", "-K", changed)).toMatchObject({ code: 1, out: expect.stringContaining("NOT OK") });
    });

    test("unpacks into another root to the same files as the package for Debian", () => {
      const root = join(folder, "rpm-root");
      mkdirSync(root);
      const options = ["--root", root, "--nodeps", "--noscripts", "--ignorearch", "--nosignature"];
      succeed("fakeroot", "rpm", "-i", "--force-debian", ...options, join(made, RPM));
      succeed("diff", "-r", join(root, "usr/share/doc/shruti/docs"), join(made, "release/docs"));
      expect(readFileSync(join(root, "usr/bin/shruti"), "utf8")).toBe("#!/bin/sh\necho shruti\n");
    });
  },
);

test("the other platform has names of its own", async () => {
  const at = await make("arm", "linux-arm64");
  expect(readdirSync(at)).toContain("shruti_1.2.0~rc.1-1_arm64.deb");
  expect(readdirSync(at)).toContain("shruti-1.2.0~rc.1-1.aarch64.rpm");
  await expect(make("other", "windows")).rejects.toThrow("there is no package for windows");
});
