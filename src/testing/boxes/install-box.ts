import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/**
 * A root file system of its own for `install.sh`: a mount namespace in which /etc, /usr/local, /var/lib and /run are
 * copies that vanish with it. `systemctl` starts the executable of the unit there (fake-systemctl.sh).
 */
export type InstallBox = {
  /** A folder that is the same inside and outside. */
  folder: string;
  /** Runs a command of the shell inside. */
  run(command: string): Promise<Outcome>;
  /** Runs a command that must succeed, and returns what it printed. */
  must(command: string): Promise<string>;
  remove(): Promise<void>;
};

export type Outcome = { code: number; out: string; err: string };

/** Makes a function that runs a command that must succeed, and returns what it printed. */
export function succeeding(run: InstallBox["run"]): InstallBox["must"] {
  return async (command) => {
    const { code, out, err } = await run(command);
    if (code !== 0) throw new Error(`${command}: status ${code}: ${out}${err}`);
    return out;
  };
}

const MOUNTS = `
set -e
mount --make-rprivate /
layers="$1"
mount -t tmpfs tmpfs "$layers"
for at in etc usr/local var/lib; do
  mkdir -p "$layers/$at/upper" "$layers/$at/work"
  mount -t overlay overlay -o "lowerdir=/$at,upperdir=$layers/$at/upper,workdir=$layers/$at/work" "/$at"
done
mount -t tmpfs tmpfs /run
mkdir -p /run/systemd/system /usr/local/sbin
rm -rf /etc/shruti /var/lib/shruti /usr/local/bin/shruti /etc/systemd/system/shruti.service
cp "$2" /usr/local/sbin/systemctl
printf '#!/bin/sh\\ntail -n 20 /run/shruti-service.log\\n' >/usr/local/sbin/journalctl
chmod 755 /usr/local/sbin/*
echo ready
# Ends with the test, however that ends: its end of the pipe is closed then.
exec cat
`;

/** Reports whether this user may make such a file system: usually root on a machine, not in every container. */
export function mayOpenInstallBox(): boolean {
  if (process.getuid?.() !== 0) return false;
  const needed = ["unshare", "nsenter", "mount", "setpriv", "useradd", "setsid", "awk", "find"];
  if (needed.some((name) => Bun.which(name) === null)) return false;
  const layers = mkdtempSync(join(tmpdir(), "shruti-box-"));
  const script = `mount -t tmpfs tmpfs ${layers} && mkdir ${layers}/u ${layers}/w && mount -t overlay overlay -o lowerdir=/etc,upperdir=${layers}/u,workdir=${layers}/w /etc`;
  const { exitCode } = Bun.spawnSync(["unshare", "--mount", "sh", "-c", script]);
  rmSync(layers, { recursive: true });
  return exitCode === 0;
}

export async function openInstallBox(): Promise<InstallBox> {
  const folder = mkdtempSync(join(tmpdir(), "shruti-box-"));
  const layers = mkdtempSync(join(tmpdir(), "shruti-layers-"));
  const systemctl = join(import.meta.dir, "fake-systemctl.sh");
  const holder = Bun.spawn(["unshare", "--mount", "sh", "-c", MOUNTS, "sh", layers, systemctl], {
    stdin: "pipe",
    stdout: "pipe",
    stderr: "pipe",
  });
  const { value } = await holder.stdout.getReader().read();
  if (new TextDecoder().decode(value) !== "ready\n") throw new Error(`no box: ${await holder.stderr.text()}`);

  async function run(command: string): Promise<Outcome> {
    // Files, not pipes: the service that a command starts would keep a pipe open.
    const out = join(folder, crypto.randomUUID());
    const into = `exec nsenter --target ${holder.pid} --mount --wd=/ sh -c "$1" > ${out} 2> ${out}.err`;
    const child = Bun.spawn(["sh", "-c", into, "sh", command], {
      stdin: "ignore",
      stdout: "ignore",
      stderr: "ignore",
      env: { PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" },
    });
    const code = await child.exited;
    return { code, out: await Bun.file(out).text(), err: await Bun.file(`${out}.err`).text() };
  }

  return {
    folder,
    run,
    must: succeeding(run),
    async remove() {
      await run("systemctl stop");
      holder.kill("SIGKILL");
      await holder.exited;
      rmSync(folder, { recursive: true, force: true });
      rmSync(layers, { recursive: true, force: true });
    },
  };
}
