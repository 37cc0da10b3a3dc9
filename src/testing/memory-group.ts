import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** A control group of this machine whose processes have a limit of memory. */
export type MemoryGroup = {
  /** Returns the command that runs another one in the group. */
  around(command: readonly string[]): string[];
  /** Returns how many processes the system has ended because the group had no memory. */
  kills(): number;
  /** All processes of the group must have ended. */
  remove(): void;
};

const FOLDERS = [
  { root: "/sys/fs/cgroup/memory", limit: "memory.limit_in_bytes", kills: "memory.oom_control" },
  { root: "/sys/fs/cgroup", limit: "memory.max", kills: "memory.events" },
];

/** @returns undefined where such groups cannot be made */
export function openMemoryGroup(bytes: number): MemoryGroup | undefined {
  for (const { root, limit, kills } of FOLDERS) {
    const folder = join(root, `shruti-test-${process.pid}-${bytes}`);
    try {
      mkdirSync(folder);
    } catch {
      continue;
    }
    if (existsSync(join(folder, limit))) {
      writeFileSync(join(folder, limit), String(bytes));
      return {
        around: (command) => ["sh", "-c", `echo $$ > ${folder}/cgroup.procs && exec "$@"`, "sh", ...command],
        kills: () => Number(/^oom_kill (\d+)$/m.exec(readFileSync(join(folder, kills), "utf8"))?.[1]),
        remove: () => rmdirSync(folder),
      };
    }
    rmdirSync(folder);
  }
  return undefined;
}
