import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** A control group of this machine whose processes have a limit of memory. */
export type MemoryGroup = {
  /** Returns the command that runs another one in the group. */
  around(command: readonly string[]): string[];
  /** Returns how many processes the system has ended because the group had no memory. */
  kills(): number;
  /** Waits until the processes of the group have ended. */
  remove(): Promise<void>;
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
        remove: () => removeEmptied(folder),
      };
    }
    rmdirSync(folder);
  }
  return undefined;
}

/** A process whose parent has ended is in the group for a moment longer. */
const TRIES = 500;

async function removeEmptied(folder: string): Promise<void> {
  for (let tries = 1; ; tries++) {
    try {
      return rmdirSync(folder);
    } catch (error) {
      if (tries === TRIES) throw error;
      await Bun.sleep(20);
    }
  }
}
