import { existsSync, mkdtempSync, readdirSync, readFileSync, rmdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Outcome, succeeding } from "./install-box.ts";

/**
 * This machine's systemd as the first process of namespaces of its own: the file system is a copy that vanishes with
 * it, and no unit of the machine is started. Network and ports are those of the machine.
 */
export type SystemdBox = {
  /** A folder that is the same inside and outside. */
  folder: string;
  /** Runs a command of the shell inside. */
  run(command: string): Promise<Outcome>;
  /** Runs a command that must succeed, and returns what it printed. */
  must(command: string): Promise<string>;
  remove(): Promise<void>;
};

const SYSTEMD = "/lib/systemd/systemd";
const NEEDED = ["unshare", "nsenter", "mount", "pivot_root", "systemctl", "journalctl", "setpriv", "useradd"];
const BOOT_MS = 60_000;
const END_MS = 20_000;

/** $1: a folder for the layers; $2: the shared folder; $3: the control group. */
const BOOT = `
set -e
for each in $3; do echo $$ > "$each/cgroup.procs"; done
exec unshare --cgroup sh -ec '
  mount --make-rprivate /
  mount -t tmpfs tmpfs "$1"
  mkdir "$1/upper" "$1/work" "$1/root"
  root="$1/root"
  mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$root"
  rm -rf "$root/etc/systemd/system" "$root/etc/shruti" "$root/var/lib/shruti" "$root/usr/local/bin/shruti"
  # Nothing starts but the journal: other units of a machine would change its kernel.
  cd "$root/usr/lib/systemd"
  rm -rf system-generators system/timers.target.wants system/local-fs.target.wants system/basic.target.wants
  find system/sysinit.target.wants ! -name "systemd-journald.service" ! -type d -delete
  mkdir -p "$root/etc/systemd/system" "$root$2"
  mount -t proc proc "$root/proc"
  mount --bind -o ro "$root/proc/sys" "$root/proc/sys"
  mount -t tmpfs -o mode=755 tmpfs "$root/run"
  mount -t tmpfs -o mode=755 tmpfs "$root/dev"
  for name in null zero full random urandom tty; do touch "$root/dev/$name"; mount --bind "/dev/$name" "$root/dev/$name"; done
  mkdir "$root/dev/pts" "$root/dev/shm"
  mount -t devpts devpts "$root/dev/pts" -o newinstance,ptmxmode=0666
  ln -s pts/ptmx "$root/dev/ptmx"
  mount -t tmpfs tmpfs "$root/dev/shm"
  mount --rbind /sys "$root/sys"
  mount --bind "$2" "$root$2"
  cd "$root"
  pivot_root . mnt
  umount --lazy /mnt
  exec env -i container=shruti-test PATH=/usr/sbin:/usr/bin:/sbin:/bin ${SYSTEMD} --log-target=journal \\
    --show-status=0 systemd.unit=basic.target
' sh "$1" "$2"
`;

/** Makes a group of its own in each hierarchy of control groups. @throws Error where that is not allowed */
function makeGroups(name: string): string[] {
  const top = "/sys/fs/cgroup";
  const places = existsSync(join(top, "cgroup.procs"))
    ? [top]
    : readdirSync(top).flatMap((each) =>
        existsSync(join(top, each, "cgroup.procs")) ? [join(top, each)] : [],
      );
  const { exitCode, stderr } = Bun.spawnSync(["mkdir", "--", ...places.map((place) => join(place, name))]);
  if (exitCode !== 0 || places.length === 0) throw new Error(`no control groups: ${stderr.toString()}`);
  const groups = places.map((place) => join(place, name));
  for (const group of groups.filter((each) => each.includes("/cpuset/"))) {
    // A group of processors is empty until it gets some.
    const script = `cat ${group}/../cpuset.cpus > ${group}/cpuset.cpus; cat ${group}/../cpuset.mems > ${group}/cpuset.mems`;
    Bun.spawnSync(["sh", "-c", script]);
  }
  return groups;
}

/** Removes groups whose processes have ended, with the groups below them. */
function removeGroup(group: string): void {
  if (!existsSync(group)) return;
  for (const entry of readdirSync(group, { withFileTypes: true })) {
    if (entry.isDirectory()) removeGroup(join(group, entry.name));
  }
  try {
    rmdirSync(group);
  } catch {
    // A process in it is still ending. An empty group costs nothing.
  }
}

/** Starts systemd. @returns undefined where this machine or its user does not allow it */
export async function openSystemdBox(): Promise<SystemdBox | undefined> {
  if (process.getuid?.() !== 0 || !existsSync(SYSTEMD)) return undefined;
  if (NEEDED.some((name) => Bun.which(name) === null)) return undefined;
  const folder = mkdtempSync(join(tmpdir(), "shruti-systemd-"));
  const layers = mkdtempSync(join(tmpdir(), "shruti-layers-"));
  const name = `shruti-test-${process.pid}`;
  let groups: string[] = [];
  try {
    groups = makeGroups(name);
  } catch {
    return undefined;
  }
  const namespaces = ["--pid", "--fork", "--kill-child", "--mount", "--ipc", "--uts"];
  // Everything in it ends with this process, however that ends.
  const unshare = ["setpriv", "--pdeathsig", "KILL", "unshare", ...namespaces];
  const holder = Bun.spawn([...unshare, "sh", "-c", BOOT, "sh", layers, folder, groups.join(" ")], {
    stdin: "ignore",
    stdout: Bun.file(join(folder, "boot.log")),
    stderr: Bun.file(join(folder, "boot.err")),
  });
  const init = () =>
    Number(readFileSync(`/proc/${holder.pid}/task/${holder.pid}/children`, "utf8").trim() || 0);

  async function run(command: string): Promise<Outcome> {
    const out = join(folder, crypto.randomUUID());
    const into = ["nsenter", "-t", String(init()), "-m", "-p", "-i", "-u", "-C", "-r", "-w"];
    const child = Bun.spawn([...into, "sh", "-c", `( ${command} ) > ${out} 2> ${out}.err`], {
      ...{ stdin: "ignore", stdout: "ignore", stderr: "ignore" },
      env: { PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", LC_ALL: "C" },
    });
    const code = await child.exited;
    const text = async (path: string) => ((await Bun.file(path).exists()) ? Bun.file(path).text() : "");
    return { code, out: await text(out), err: await text(`${out}.err`) };
  }

  async function remove(): Promise<void> {
    holder.kill("SIGKILL");
    await holder.exited;
    // The processes inside end one after the other; a group goes when it is empty.
    const deadline = Date.now() + END_MS;
    for (let left = groups; left.length > 0 && Date.now() < deadline; left = left.filter(existsSync)) {
      for (const group of left) removeGroup(group);
      await Bun.sleep(50);
    }
    for (const path of [folder, layers]) rmSync(path, { recursive: true, force: true });
  }

  const deadline = Date.now() + BOOT_MS;
  for (;;) {
    const { out } =
      holder.exitCode === null && init() > 0 ? await run("systemctl is-system-running") : { out: "" };
    if (/running|degraded/.test(out)) break;
    if (holder.exitCode !== null || Date.now() > deadline) {
      await remove();
      return undefined;
    }
    await Bun.sleep(100);
  }
  return {
    folder,
    run,
    must: succeeding(run),
    remove,
  };
}
