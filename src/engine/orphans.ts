import { readdirSync, readFileSync, readlinkSync } from "node:fs";

/**
 * Ends decoders that a killed program left behind: processes running one of `programs` whose parent is not a process
 * of this executable any more. On systems without `/proc` nothing is found, and they end by themselves when their
 * file does.
 *
 * @param programs absolute paths of executables that only this program starts
 * @returns how many were ended
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
      // It ended by itself meanwhile, or belongs to another user.
    }
  }
  return ended;
}

/** Kills the children of this process: for an end that cannot wait for them. */
export function endChildren(): void {
  for (const pid of processes()) {
    if (parentOf(pid) !== process.pid) continue;
    try {
      process.kill(pid, "SIGKILL");
    } catch {
      // It ended by itself meanwhile.
    }
  }
}

function processes(): number[] {
  try {
    return readdirSync("/proc").map(Number).filter(Number.isInteger);
  } catch {
    return [];
  }
}

/** Undefined for a process that is gone or another user's. */
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
