import { readFileSync } from "node:fs";
import { availableParallelism, freemem } from "node:os";
import { dirname, join } from "node:path";

/** The part of the machine that this program may use. */
export type Machine = { cores: number; availableMemoryBytes: number };

/** Reads a small file; returns undefined when there is none. */
type Read = (path: string) => string | undefined;

/**
 * Measures cores and free memory within the limits of the operating system and of the control groups of a container or
 * service (Linux, cgroup v2 and v1; elsewhere only the system's own numbers).
 */
export function measureMachine(read: Read = readIfThere): Machine {
  const limits = groupFolders(read).map((folder) => limitsOf(folder, read));
  const cores = Math.min(availableParallelism(), ...limits.map((limit) => limit.cores));
  return {
    cores: Math.max(1, Math.floor(cores)),
    availableMemoryBytes: Math.max(0, Math.min(freemem(), ...limits.map((limit) => limit.memoryBytes))),
  };
}

/** Returns the bytes of memory that can be allocated now without swapping. */
export function availableMemoryBytes(): number {
  return measureMachine().availableMemoryBytes;
}

const GROUPS = "/sys/fs/cgroup";

/** Returns the folders with the limits for this process: of its control group and of every group around it. */
function groupFolders(read: Read): string[] {
  const folders = new Set<string>([GROUPS, join(GROUPS, "memory"), join(GROUPS, "cpu")]);
  for (const line of (read("/proc/self/cgroup") ?? "").split("\n")) {
    const [, controllers, path] = /^\d+:([^:]*):(\/.*)$/.exec(line) ?? [];
    if (path === undefined || controllers === undefined) continue;
    if (controllers !== "" && !/\b(memory|cpu)\b/.test(controllers)) continue;
    const root = controllers === "" ? GROUPS : join(GROUPS, controllers);
    for (let at = path; at !== "/"; at = dirname(at)) folders.add(join(root, at));
  }
  return [...folders];
}

function limitsOf(folder: string, read: Read): { cores: number; memoryBytes: number } {
  const number = (name: string) => {
    const value = Number.parseInt(read(join(folder, name)) ?? "", 10);
    return Number.isNaN(value) ? undefined : value;
  };
  const [quota, period] = (read(join(folder, "cpu.max")) ?? "").split(" ").map(Number);
  const oldQuota = number("cpu.cfs_quota_us");
  const most = number("memory.max") ?? number("memory.limit_in_bytes");
  const used = number("memory.current") ?? number("memory.usage_in_bytes") ?? 0;
  return {
    cores: share(quota, period) ?? share(oldQuota, number("cpu.cfs_period_us")) ?? Number.POSITIVE_INFINITY,
    // The system frees cached file pages on demand, so they count as available.
    memoryBytes: most === undefined ? Number.POSITIVE_INFINITY : most - used + cachedBytes(folder, read),
  };
}

function share(quota: number | undefined, period: number | undefined): number | undefined {
  if (!quota || !period || !(quota > 0) || !(period > 0)) return undefined;
  return quota / period;
}

function cachedBytes(folder: string, read: Read): number {
  const found = /^(?:total_)?inactive_file (\d+)$/m.exec(read(join(folder, "memory.stat")) ?? "");
  return Number(found?.[1] ?? 0);
}

function readIfThere(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return undefined;
  }
}
