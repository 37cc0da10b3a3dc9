import { readdirSync, readFileSync, readlinkSync } from "node:fs";

/**
 * Kills decoders that a killed program left behind: processes that run one of `programs` and whose parent is not a
 * process of this executable any more. Without `/proc` it finds none; such decoders end with their file.
 *
 * @param programs absolute paths of executables that only this program starts
 * @returns the number of killed processes
 */
export function endOrphans(programs: readonly string[]): number {
  let ended = 0;
  for (const pid of processes()) {
    const program = executableOf(pid);
    if (program === undefined || !programs.includes(program)) continue;
    if (executableOf(parentOf(pid)) === executableOf(process.pid)) continue;
    try {
      process.kill(pid, "SIGKILL");
      ended++;
    } catch {
      // The process has ended meanwhile, or belongs to another user.
    }
  }
  return ended;
}

/** Kills the children of this process, when it must end without waiting for them. */
export function endChildren(): void {
  for (const pid of childProcesses()) {
    try {
      process.kill(pid, "SIGKILL");
    } catch {
      // The process has ended meanwhile.
    }
  }
}

/** Returns the children of this process; none where the system has no `/proc`. */
export function childProcesses(): number[] {
  return processes().filter((pid) => parentOf(pid) === process.pid);
}

function processes(): number[] {
  try {
    return readdirSync("/proc").map(Number).filter(Number.isInteger);
  } catch {
    return [];
  }
}

/** Returns undefined for a process that has ended or belongs to another user. */
function executableOf(pid: number): string | undefined {
  try {
    return readlinkSync(`/proc/${pid}/exe`).replace(/ \(deleted\)$/, "");
  } catch {
    return undefined;
  }
}

function parentOf(pid: number): number {
  try {
    // The name in parentheses may hold anything; the parent is the second field after it (proc(5)).
    const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ").at(-1)?.split(" ");
    return Number(fields?.[1] ?? 0);
  } catch {
    return 0;
  }
}
