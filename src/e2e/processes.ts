import { readdirSync, readFileSync } from "node:fs";

/** What Linux tells of its processes in /proc (proc(5)). */

type Stat = { pid: number; parent: number; state: string; cpuMs: number };

/** USER_HZ of every Linux architecture that Bun runs on. */
const MS_PER_TICK = 10;

function readStat(pid: number): Stat | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, "utf8");
    // The second field is the name in parentheses, which may hold anything.
    const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
    const ticks = Number(fields[11]) + Number(fields[12]);
    return { pid, parent: Number(fields[1]), state: fields[0] ?? "", cpuMs: ticks * MS_PER_TICK };
  } catch {
    return undefined;
  }
}

function allProcesses(): Stat[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => readStat(Number(name)) ?? []);
}

/** Living descendants of a process. */
export function descendantsOf(pid: number): number[] {
  const all = allProcesses().filter(({ state }) => state !== "Z");
  const found = [pid];
  for (const parent of found) {
    for (const child of all) if (child.parent === parent) found.push(child.pid);
  }
  return found.slice(1);
}

export function isAlive(pid: number): boolean {
  const stat = readStat(pid);
  return stat !== undefined && stat.state !== "Z";
}

/** Living processes whose program lies in a folder. */
export function processesFrom(folder: string): number[] {
  return allProcesses()
    .map(({ pid }) => pid)
    .filter((pid) => isAlive(pid) && commandOf(pid).startsWith(folder));
}

function commandOf(pid: number): string {
  return argumentsOf(pid)[0] ?? "";
}

/** A process's command line, its program first; empty when it is gone. */
export function argumentsOf(pid: number): string[] {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0");
  } catch {
    return [];
  }
}

/** Files that a process has mapped: its program and all libraries, however they were loaded. */
export function mappedFiles(pid: number): string[] {
  const lines = readFileSync(`/proc/${pid}/maps`, "utf8").split("\n");
  return [...new Set(lines.flatMap((line) => /\s(\/.+)$/.exec(line)?.[1] ?? []))];
}

/** Processor time that processes have used so far. */
export function cpuMsOf(pids: readonly number[]): number {
  return pids.reduce((sum, pid) => sum + (readStat(pid)?.cpuMs ?? 0), 0);
}

/** Memory in use, MiB, and open files of a process. */
export function footprintOf(pid: number): { residentMiB: number; openFiles: number } {
  const kilobytes = /^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1];
  return { residentMiB: Number(kilobytes) / 1024, openFiles: readdirSync(`/proc/${pid}/fd`).length };
}
