import { afterAll, describe, expect, test } from "bun:test";
import { sign as edSign, generateKeyPairSync } from "node:crypto";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { seal } from "../../scripts/release/seal.ts";
import { sha256Hex } from "../lib/sha256.ts";

/**
 * Runs `install.sh` as packagers do, with DESTDIR. Wrong arguments and files that are not what was released are refused,
 * and nothing is written.
 */

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
  expect(unit).toContain("\nRestartPreventExitStatus=2 4 6 7 8\n");
  expect(unit).toContain("\nType=notify\n");
  expect(unit).toMatch(/\nMemoryMax=\d+%\n/);
  expect(unit).toMatch(/\nTasksMax=\d+\n/);
  expect(unit).toContain("\nProtectHome=true\n");
  expect(unit).toContain("\nUser=shruti\n");
  expect(unit).toContain("\nStateDirectoryMode=0700\n");
  const defaultDrainSeconds = 30;
  expect(Number(/^TimeoutStopSec=(\d+)$/m.exec(unit)?.[1])).toBeGreaterThan(defaultDrainSeconds + 5);
});

test.each([
  ["", "", "ProtectHome=true\n"],
  ["/srv/d", "", "ProtectHome=true\nReadWritePaths=-/srv/d\n"],
  ["/var/lib/shruti", "/mnt/b", "ProtectHome=true\nReadWritePaths=-/mnt/b\n"],
  ["", "/home/b", "ProtectHome=tmpfs\nBindPaths=-/home/b\nReadWritePaths=-/home/b\n"],
  [
    "/srv/d",
    "/home/b",
    "ProtectHome=tmpfs\nBindPaths=-/home/b\nReadWritePaths=-/srv/d\nReadWritePaths=-/home/b\n",
  ],
])("the sandbox opens for data in %p and backups in %p", (data, backups, expected) => {
  const script = readFileSync(SCRIPT, "utf8");
  const [shellFunction] = /^print_data_access\(\) \{\n[\s\S]*?^\}/m.exec(script) ?? [];
  const { stdout } = Bun.spawnSync(["sh", "-euc", `${shellFunction}\nprint_data_access`], {
    env: { STATE_DIR: "/var/lib/shruti", DATA: data, BACKUPS: backups },
  });
  expect(stdout.toString().replace(/^#.*\n/m, "")).toBe(expected);
});

test.each([
  ["30 2 * * *", "new", "would run   install -d -o shruti -g shruti -m 0700 new\n"],
  ["", "new", ""],
  ["30 2 * * *", ".", ""],
])(
  "with the schedule %p and the folder of backups %p it makes what is missing",
  (schedule, backups, expected) => {
    const script = readFileSync(SCRIPT, "utf8");
    const functions = ["act", "did", "make_backup_folder"].map(
      (name) => new RegExp(`^${name}\\(\\) \\{\\n[\\s\\S]*?^\\}`, "m").exec(script)?.[0],
    );
    const { stdout } = Bun.spawnSync(["sh", "-euc", `${functions.join("\n")}\nmake_backup_folder`], {
      cwd: folder,
      env: { DRY_RUN: "yes", SCHEDULE: schedule, BACKUPS: backups },
    });
    expect(stdout.toString()).toBe(expected);
  },
);

test.each([
  ["an executable that does not exist", ["nothing/here"], 2, "there is no file nothing/here"],
  ["an unknown option", ["--upgrade"], 2, "there is no option --upgrade"],
  ["two executables", ["a", "b"], 2, "one executable at most"],
  ["an option without its value", ["--prefix"], 2, "--prefix needs a value"],
  ["a relative prefix", ["--prefix", "opt"], 2, "opt is not an absolute path"],
  ["a prefix that a unit cannot name", ["--prefix", "/opt/my programs"], 2, "a unit cannot name"],
  ["a key that is not there", ["--key", "nothing.pem"], 2, "there is no file nothing.pem"],
  ["a wait that is no number", ["--wait", "long"], 2, "is not a number of seconds"],
  ["a wait beyond the way back", ["--wait", "300"], 2, "at most 240 seconds"],
  ["an address without a port", ["--listen", "127.0.0.1"], 2, "is not address:port"],
  ["a port that does not exist", ["--listen", "127.0.0.1:65536"], 2, "65536 is not a port"],
  ["an empty prefix", ["--prefix", ""], 2, "--prefix needs a value"],
  ["an empty key, which would verify nothing", ["--key", ""], 2, "--key needs a value"],
  ["an empty address", ["--listen", ""], 2, "--listen needs a value"],
  ["the files of a package with an executable", ["--packaged", "shruti"], 2, "--packaged goes with"],
  ["the files of a package in a stage", ["--packaged"], 2, "--packaged goes with"],
  ["an uninstallation of a file", ["--uninstall", "shruti"], 2, "--uninstall takes no executable"],
])("%s is refused", (_what, args, code, message) => {
  // The script would find this executable if it ignored the wrong name.
  mkdirSync(join(folder, "dist"), { recursive: true });
  executable("shruti", "shruti 0");
  expect(run("refused", ...args)).toMatchObject({ code, err: expect.stringContaining(message) });
  expect(() => statSync(join(folder, "refused"))).toThrow();
});

test("completions and manual page are those of the executable, and an upgrade replaces them", () => {
  const versioned = (version: string) => {
    const path = join(folder, `help-${version}`);
    writeFileSync(
      path,
      `#!/bin/sh\ncase "$1" in version) echo ${version} ;; *) echo "$* of ${version}" ;; esac\n`,
      {
        mode: 0o755,
      },
    );
    return path;
  };
  const FILES = [
    ["bash-completion/completions/shruti", "completion bash"],
    ["zsh/site-functions/_shruti", "completion zsh"],
    ["fish/vendor_completions.d/shruti.fish", "completion fish"],
    ["man/man1/shruti.1", "man"],
  ] as const;
  for (const version of ["1", "2"]) {
    const { code, out } = run("help", "--prefix", "/opt/s", versioned(version));
    expect(code).toBe(0);
    for (const [name, command] of FILES) {
      const path = join(folder, "help/opt/s/share", name);
      expect(readFileSync(path, "utf8")).toBe(`${command} of ${version}\n`);
      expect(statSync(path).mode & 0o777).toBe(0o644);
      expect(out).toContain(`/opt/s/share/${name}`);
    }
  }
  // One that cannot print them is installed without them.
  const silent = join(folder, "silent");
  writeFileSync(silent, '#!/bin/sh\n[ "$1" = version ] && echo 1\n', { mode: 0o755 });
  expect(run("silent-help", silent)).toMatchObject({
    code: 0,
    err: expect.stringContaining("was not written"),
  });
  expect(existsSync(join(folder, "silent-help/usr/local/share/man/man1/shruti.1"))).toBe(false);
});

test("--prefix chooses the place of the executable, --no-systemd leaves the unit out", () => {
  const { code } = run("prefix", "--prefix", "/opt/shruti/", executable("one", "shruti 1"));
  expect(code).toBe(0);
  expect(statSync(join(folder, "prefix/opt/shruti/bin/shruti")).mode & 0o777).toBe(0o755);
  const unit = readFileSync(join(folder, "prefix/etc/systemd/system/shruti.service"), "utf8");
  expect(unit).toContain("\nExecStart=/opt/shruti/bin/shruti serve --config /etc/shruti/shruti.toml\n");
  expect(run("bare", "--no-systemd", executable("one", "shruti 1")).code).toBe(0);
  expect(existsSync(join(folder, "bare/usr/local/bin/shruti"))).toBe(true);
  expect(existsSync(join(folder, "bare/etc"))).toBe(false);
});

describe("an executable that is not what was released is refused", () => {
  /** A file that begins like a program, and carries a right checksum of itself. */
  async function sealed(name: string): Promise<string> {
    const path = join(folder, name);
    writeFileSync(path, Buffer.concat([Buffer.from("\x7fELF\x02\x01\x01"), Buffer.alloc(5000, "part")]));
    await seal(path);
    return path;
  }
  const refusal = (args: string[], stage: string) => {
    const { code, err } = run(stage, ...args);
    expect(() => statSync(join(folder, stage))).toThrow();
    return { code, err };
  };

  test("by its own checksum", async () => {
    const path = await sealed("whole");
    expect(run("sealed", path).code).toBe(0);
    const bytes = readFileSync(path);
    bytes[2000] = (bytes[2000] ?? 0) ^ 1;
    writeFileSync(path, bytes);
    expect(refusal([path], "damaged")).toEqual({ code: 4, err: expect.stringContaining("is damaged") });
    truncateSync(path, 4000);
    expect(refusal([path], "cut")).toEqual({
      code: 4,
      err: expect.stringContaining("is cut off or damaged"),
    });
    truncateSync(path, 10);
    expect(refusal([path], "short")).toEqual({ code: 4, err: expect.stringContaining("too short") });
  });

  test("by SHA256SUMS and its signature", () => {
    const release = join(folder, "release");
    mkdirSync(release);
    const [program, sums] = [join(release, "shruti"), join(release, "SHA256SUMS")];
    writeFileSync(program, "#!/bin/sh\necho shruti 3\n", { mode: 0o755 });
    const line = `${sha256Hex(readFileSync(program))}  shruti\n`;
    const keys = ["signer", "stranger"].map((name) => {
      const { publicKey, privateKey } = generateKeyPairSync("ed25519");
      const path = join(folder, `${name}.pem`);
      writeFileSync(path, publicKey.export({ type: "spki", format: "pem" }));
      return { path, privateKey };
    });
    const [signer, stranger] = keys as [(typeof keys)[0], (typeof keys)[0]];
    const withKey = ["--key", signer.path, program];
    expect(refusal(withKey, "bare-key").err).toContain("there is no");
    writeFileSync(sums, line);
    expect(run("sums", program)).toMatchObject({
      code: 0,
      out: expect.stringContaining("not verified: no --key"),
    });
    expect(refusal(withKey, "unsigned").err).toContain("has no signature");
    const sign = (by: typeof signer) =>
      writeFileSync(`${sums}.sig`, edSign(null, readFileSync(sums), by.privateKey));
    sign(signer);
    expect(run("signed", ...withKey)).toMatchObject({
      code: 0,
      out: expect.stringContaining("is signed with"),
    });
    sign(stranger);
    expect(refusal(withKey, "forged")).toEqual({
      code: 4,
      err: expect.stringContaining("does not fit the key"),
    });
    writeFileSync(sums, `${"0".repeat(64)}  shruti\n`);
    sign(signer);
    expect(refusal(withKey, "other")).toEqual({
      code: 4,
      err: expect.stringContaining("its SHA-256 differs"),
    });
    writeFileSync(sums, line.replace("shruti", "shrutz"));
    expect(refusal([program], "unlisted")).toEqual({
      code: 4,
      err: expect.stringContaining("does not list shruti"),
    });
  });
});

test("help shows the usage", () => {
  const { code, out } = run("help", "--help");
  expect(code).toBe(0);
  expect(out).toContain("./install.sh [OPTION]… [EXECUTABLE]");
  expect(out).toContain("OpenRC and other");
  expect(out).not.toContain("set -eu");
  expect(out).toContain("./install.sh --uninstall");
});
