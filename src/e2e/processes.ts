import { readdirSync, readFileSync } from "node:fs";

/** Reads information about processes from /proc (proc(5)). */

type Stat = { pid: number; parent: number; state: string; cpuMs: number };

/** USER_HZ, the same on every Linux architecture that Bun supports. */
const MS_PER_TICK = 10;

function readStat(pid: number): Stat | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, "utf8");
    // The second field is the name in parentheses, which may contain any character.
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

/** Lists the living descendants of a process. */
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

/** Lists the living processes whose programs are in a folder. */
export function processesFrom(folder: string): number[] {
  return allProcesses()
    .map(({ pid }) => pid)
    .filter((pid) => isAlive(pid) && commandOf(pid).startsWith(folder));
}

function commandOf(pid: number): string {
  return argumentsOf(pid)[0] ?? "";
}

/** Returns the command line of a process, with its program first. Empty when the process has ended. */
export function argumentsOf(pid: number): string[] {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0");
  } catch {
    return [];
  }
}

/** Lists the files that a process has mapped: its program and all loaded libraries. */
export function mappedFiles(pid: number): string[] {
  const lines = readFileSync(`/proc/${pid}/maps`, "utf8").split("\n");
  return [...new Set(lines.flatMap((line) => /\s(\/.+)$/.exec(line)?.[1] ?? []))];
}

/** Returns the processor time that processes have used so far. */
export function cpuMsOf(pids: readonly number[]): number {
  return pids.reduce((sum, pid) => sum + (readStat(pid)?.cpuMs ?? 0), 0);
}

/** Returns the memory in use, MiB, and the number of open files of a process. */
export function footprintOf(pid: number): { residentMiB: number; openFiles: number } {
  const kilobytes = /^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1];
  return { residentMiB: Number(kilobytes) / 1024, openFiles: readdirSync(`/proc/${pid}/fd`).length };
}
