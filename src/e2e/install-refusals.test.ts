import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { seal } from "../../scripts/release/seal.ts";
import { type InstallBox, mayOpenInstallBox, openInstallBox } from "../testing/boxes/install-box.ts";
import { placeBinary } from "./binary.ts";

/** install.sh on machines that do not fit: it gives the reason, ends with its status, and has changed nothing. */

const SCRIPT = resolve(import.meta.dir, "../../install.sh");
const isPossible = mayOpenInstallBox();
const listener = isPossible
  ? Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data() {} } })
  : undefined;
const FREE_PORT = 28_000 + (process.pid % 10_000);
let box: InstallBox;

beforeAll(async () => {
  if (!isPossible) return;
  box = await openInstallBox();
  await placeBinary(join(box.folder, "shruti"));
}, 120_000);
afterAll(async () => {
  listener?.stop(true);
  await box?.remove();
}, 60_000);

/** Everything that an installation writes: names, sizes, times. Reading /var/lib/shruti changes nothing of it. */
const LISTING =
  "find /etc/shruti /etc/passwd /etc/systemd/system /usr/local/bin /var/lib/shruti -printf '%p %s %T@ %i\\n' 2>/dev/null | sort";

/** Writes a file that only looks like an executable: an ELF header, a text, and a right checksum of itself. */
async function elf(name: string, machine: number, text = ""): Promise<string> {
  const path = join(box.folder, name);
  const header = Buffer.alloc(64);
  header.write("\x7fELF\x02\x01\x01", "latin1");
  header.writeUInt16LE(machine, 18);
  writeFileSync(path, Buffer.concat([header, Buffer.from(text), Buffer.alloc(1000)]), { mode: 0o755 });
  await seal(path);
  return path;
}

/** Writes a script in the place of an executable. */
function script(name: string, text: string): string {
  const path = join(box.folder, name);
  writeFileSync(path, `#!/bin/sh\n${text}\n`, { mode: 0o755 });
  return path;
}

type Refusal = {
  name: string;
  /** Runs inside before and after install.sh. */
  before?: string | (() => string);
  after?: string;
  executable?: () => string | Promise<string>;
  options?: string | (() => string);
  code?: number;
  reason: string | RegExp;
};

const X86_64 = 0x3e;
const ARM64 = 0xb7;
const HOST = process.arch === "arm64" ? ARM64 : X86_64;
const DATA = "/var/lib/shruti";
const INIT = () => `${box.folder}/shruti init --data ${DATA} --config /etc/shruti/shruti.toml`;
const AWAY = `rm -rf /etc/shruti ${DATA}`;

const REFUSALS: Refusal[] = [
  {
    name: "an old glibc",
    before:
      "printf '#!/bin/sh\\necho glibc 2.17\\n' > /usr/local/sbin/getconf; chmod 755 /usr/local/sbin/getconf",
    after: "rm /usr/local/sbin/getconf",
    reason: /this system has glibc 2\.17; the program needs 2\.\d\d or newer/,
  },
  {
    name: "a glibc that is older than one part needs",
    executable: () => elf("newer-glibc", HOST, "GLIBC_2.5\0GLIBC_2.17\0GLIBC_2.99\0GLIBC_2.9\0"),
    reason: "the program needs 2.99 or newer",
  },
  {
    name: "no glibc",
    before: "printf '#!/bin/sh\\nexit 1\\n' > /usr/local/sbin/getconf; chmod 755 /usr/local/sbin/getconf",
    after: "rm /usr/local/sbin/getconf",
    reason: "this system has no glibc (Alpine and others have musl)",
  },
  {
    name: "another kind of processor",
    executable: () => elf("other-kind", HOST === X86_64 ? ARM64 : X86_64),
    reason: "is for processors of the kind",
  },
  {
    name: "an old processor",
    before: "sed 's/ sse4_2//' /proc/cpuinfo > /run/cpuinfo; mount --bind /run/cpuinfo /proc/cpuinfo",
    after: "umount /proc/cpuinfo",
    reason: "this processor lacks sse4_2",
  },
  {
    name: "no /proc",
    before: "mount -t tmpfs tmpfs /proc",
    after: "umount /proc",
    reason: "/proc is not mounted",
  },
  {
    name: "a data directory with noexec",
    before: `mkdir ${DATA}; mount -t tmpfs -o noexec tmpfs ${DATA}`,
    after: `umount ${DATA}; rmdir ${DATA}`,
    reason: `${DATA} is on a mount with the option noexec`,
  },
  {
    name: "a folder of programs that is read-only",
    before: "mount -t tmpfs -o ro tmpfs /usr/local/bin",
    after: "umount /usr/local/bin",
    reason: "/usr/local/bin is on a file system that is read-only",
  },
  {
    name: "a full disk",
    before: `mkdir ${DATA}; mount -t tmpfs -o size=100m tmpfs ${DATA}`,
    after: `umount ${DATA}; rmdir ${DATA}`,
    reason: /has \d+ MiB free; \d+ MiB are needed for the data directory/,
  },
  {
    name: "a folder of the config that the service's user cannot enter",
    before: "useradd --system --user-group shruti; mkdir -m 0700 /etc/shruti",
    after: "rmdir /etc/shruti; userdel shruti",
    reason: "the user shruti cannot enter /etc/shruti, where its config is: chmod 755 /etc/shruti",
  },
  {
    name: "a port in use",
    options: () => `--listen 0.0.0.0:${listener?.port}`,
    reason: /port \d+ of server\.listen \(0\.0\.0\.0:\d+\) is in use by process \d+ \(.+\)/,
  },
  {
    name: "no systemd",
    before: "mount -t tmpfs tmpfs /run/systemd",
    after: "umount /run/systemd",
    reason: "systemd does not run here: use --no-systemd",
  },
  {
    name: "an executable that ends with a signal",
    executable: () => script("illegal", "kill -ILL $$"),
    reason: "this processor lacks instructions that it needs",
  },
  {
    name: "a file that is no program, such as an error page that was downloaded",
    executable: () => script("page", "exit 127"),
    reason: "does not start: it is not a program for Linux",
  },
  {
    name: "an executable that does not load",
    executable: () => script("unloadable", "echo \"libc.so.6: version 'GLIBC_2.33' not found\" >&2; exit 1"),
    reason: "does not start: status 1: libc.so.6: version 'GLIBC_2.33' not found",
  },
  {
    name: "an executable that is not executable",
    executable: () => {
      const path = script("plain", "true");
      Bun.spawnSync(["chmod", "644", path]);
      return path;
    },
    reason: "it is not executable: chmod +x",
  },
  {
    name: "an executable that fails its own check",
    executable: () => script("damaged", "[ $1 = version ] || { echo BAD parts; exit 1; }"),
    code: 4,
    reason: "does not pass its own check",
  },
  {
    name: "a config with a mistake",
    before: () => `${INIT()} && sed -i 's/^#workers = .*/workers = "many"/' /etc/shruti/shruti.toml`,
    after: AWAY,
    reason: /correct \/etc\/shruti\/shruti\.toml first: .*engine\.workers/,
  },
  {
    name: "a database without a config",
    before: () => `${INIT()} && rm /etc/shruti/shruti.toml`,
    after: AWAY,
    reason: "holds a database, but there is no /etc/shruti/shruti.toml",
  },
  {
    name: "a newer database",
    before: () =>
      `${INIT()} && ${process.execPath} -e '
        const { Database } = await import("bun:sqlite");
        const sqlite = new Database("${DATA}/shruti.db");
        sqlite.run("INSERT INTO schema_migrations VALUES (\\"9999_future\\", \\"x\\", 0)");
        sqlite.close(true);'`,
    after: AWAY,
    reason: "the database cannot be used by",
  },
  {
    name: "a service's user who cannot read the TLS key",
    before: () =>
      `${INIT()} && chown -R 65534:65534 ${DATA} && openssl req -x509 -newkey ed25519 -nodes -days 2 -subj /CN=a \\
        -keyout /etc/shruti/key.pem -out /etc/shruti/cert.pem 2>/dev/null && chmod 600 /etc/shruti/key.pem &&
        sed -i 's|^#tls_cert = .*|tls_cert = "/etc/shruti/cert.pem"|; s|^#tls_key = .*|tls_key = "/etc/shruti/key.pem"|' /etc/shruti/shruti.toml`,
    after: AWAY,
    reason: /server\.tls_key: \/etc\/shruti\/key\.pem cannot be read \(EACCES\)/,
  },
  {
    name: "an address although there is a config",
    before: INIT,
    after: AWAY,
    options: `--listen 127.0.0.1:${FREE_PORT}`,
    reason: "--listen is for a first installation",
  },
];

/**
 * Runs install.sh with a command that hangs, and sends the script a signal then. No limit of the script ends the command:
 * its `timeout` waits longer than this does. The script's temporary files have a folder of their own.
 */
const SIGNALLED = (signal: string, options: string, path: string) => `
  rm -rf /run/look; mkdir /run/look /run/look/tmp; export TMPDIR=/run/look/tmp
  printf '#!/bin/sh\\nshift; exec /usr/bin/timeout 600 "$@"\\n' > /usr/local/sbin/timeout
  chmod 755 /usr/local/sbin/timeout
  (until test -e /run/look/pid; do kill -0 $$ || exit; sleep 0.05; done; kill -${signal} $$
    for _ in $(seq 600); do kill -0 $$ || exit; sleep 0.05; done
    touch /run/look/waited; kill -9 $(cat /run/look/pid)) >/dev/null 2>&1 &
  exec sh ${SCRIPT} ${options} ${path}`;
/** The part of a script that hangs where the condition is true. */
const HANGING = "{ echo $$ > /run/look/pid; exec sleep 1000; }";

/** A command that hangs: a script in the place of the executable or of another program does so where `hangs` is true. */
type Look = {
  name: string;
  signal: string;
  code: number;
  before?: string;
  hangs: string;
  other?: string;
  options?: string;
};
const EMPTY = `mkdir /etc/shruti ${DATA}; touch /etc/shruti/shruti.toml ${DATA}/shruti.db`;
const LOOKS: Look[] = [
  { name: "the version", signal: "TERM", code: 143, hangs: "[ $1 = version ]" },
  { name: "the check of itself", signal: "INT", code: 130, hangs: "[ $1 = doctor ]" },
  { name: "the check of the config", signal: "HUP", code: 129, hangs: "[ $2 = check ]", before: EMPTY },
  { name: "the settings", signal: "TERM", code: 143, hangs: "[ $2 = show ]", before: EMPTY },
  { name: "the database", signal: "INT", code: 130, hangs: "[ $1 = migrate ]", before: EMPTY },
  {
    ...{ name: "the server", signal: "HUP", code: 129, hangs: "[ $1 = status ]", before: EMPTY },
    options: "--no-systemd",
  },
  { name: "the checksum", signal: "TERM", code: 143, hangs: "true", other: "sha256sum" },
  { name: "the needs of its libraries", signal: "INT", code: 130, hangs: "[ $1 = -u ]", other: "sort" },
];

describe.skipIf(!isPossible)("install.sh ends at once and has changed nothing (needs root)", () => {
  for (const { name, signal, code, before, hangs, other, options = "" } of LOOKS) {
    test(`when SIG${signal} comes while it waits for an answer: ${name}`, async () => {
      if (before) await box.must(before);
      const replaced = `/usr/local/sbin/${other}`;
      const hanging = script(
        "hanging",
        `${hangs} && ${HANGING}; ${other ? `exec /usr/bin/${other} "$@"` : "true"}`,
      );
      if (other) await box.must(`cp ${hanging} ${replaced}`);
      const path = other ? join(box.folder, "shruti") : hanging;
      try {
        const listing = await box.must(LISTING);
        const given = before ? options : `--listen 127.0.0.1:${FREE_PORT}`;
        const outcome = await box.run(SIGNALLED(signal, given, path));
        expect((await box.run("ls -A /run/look/tmp /run/look/waited")).out).toBe("/run/look/tmp:\n");
        expect(outcome).toMatchObject({ code, err: "" });
        expect(await box.must(LISTING)).toBe(listing);
        // Of a chain of commands, the others end by themselves.
        if (other) await box.must("kill -9 $(cat /run/look/pid)");
        await box.must(`pid=$(cat /run/look/pid)
          for _ in $(seq 600); do kill -0 $pid 2>/dev/null || exit 0; sleep 0.05; done; exit 1`);
      } finally {
        await box.must(
          `rm -rf /run/look /usr/local/sbin/timeout ${other ? replaced : ""} ${before ? `/etc/shruti ${DATA}` : ""}`,
        );
      }
    }, 120_000);
  }
});

describe.skipIf(!isPossible)("install.sh refuses (needs root)", () => {
  for (const { name, before, after, executable, options, code = 3, reason } of REFUSALS) {
    test(name, async () => {
      if (before) await box.must(typeof before === "string" ? before : before());
      const chosen = typeof options === "function" ? options() : options;
      try {
        const listing = await box.must(LISTING);
        const path = (await executable?.()) ?? join(box.folder, "shruti");
        // A first installation on a port that no other test uses.
        const isFirst = (await box.run("ls /etc/shruti")).code !== 0;
        const given = chosen ?? (isFirst ? `--listen 127.0.0.1:${FREE_PORT}` : "");
        const outcome = await box.run(`sh ${SCRIPT} ${given} ${path}`);
        expect(outcome.err).toMatch(reason);
        expect(outcome.err).toContain("nothing was changed");
        expect(outcome.code).toBe(code);
        expect(await box.must(LISTING)).toBe(listing);
      } finally {
        if (after) await box.must(after);
      }
    }, 60_000);
  }

  test("a user who is not root, and names all reasons at once", async () => {
    const plain = await box.run(
      `chmod 755 ${box.folder}; setpriv --reuid 65534 sh ${SCRIPT} ${box.folder}/shruti`,
    );
    expect(plain).toMatchObject({ code: 1, err: expect.stringContaining("root is needed") });
    await box.must("mount -t tmpfs tmpfs /run/systemd; mount -t tmpfs -o ro tmpfs /usr/local/bin");
    const { code, err } = await box.run(
      `sh ${SCRIPT} --listen 127.0.0.1:${listener?.port} ${box.folder}/shruti`,
    );
    await box.must("umount /run/systemd /usr/local/bin");
    expect(code).toBe(3);
    for (const reason of ["systemd", "read-only", "is in use"]) expect(err).toContain(reason);
  }, 60_000);
});
