import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { STARTED_BY } from "../audio/decoder-environment.ts";

/**
 * Kills decoders that a killed program left behind: processes that run the decoder, that such a program has started
 * (`decoderEnvironment`), and whose parent is neither that process nor one of this executable. The config may name a
 * program that others run, too, such as a shell, so a process without that mark is never one of ours. Without `/proc` it
 * finds none; such decoders end with their file.
 *
 * @param decoder absolute path of the executable
 * @returns the number of killed processes
 */
export function endOrphans(decoder: string): number {
  let ended = 0;
  for (const pid of processes()) {
    if (executableOf(pid) !== decoder) continue;
    const startedBy = starterOf(pid);
    const parent = parentOf(pid);
    if (startedBy === undefined || startedBy === parent) continue;
    if (executableOf(parent) === executableOf(process.pid)) continue;
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

/** Returns the process that has started a decoder; undefined for what is none, and for processes of other users. */
function starterOf(pid: number): number | undefined {
  try {
    const variables = readFileSync(`/proc/${pid}/environ`, "utf8").split("\0");
    const found = variables.find((variable) => variable.startsWith(`${STARTED_BY}=`));
    return found === undefined ? undefined : Number(found.slice(STARTED_BY.length + 1));
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
