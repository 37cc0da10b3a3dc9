import { readFileSync } from "node:fs";
import { childProcesses } from "./orphans.ts";

/** Returns the most memory that each running child of this process has had, together, in bytes; 0 where none is known. */
export function peakMemoryOfChildren(): number {
  return childProcesses().reduce((sum, pid) => sum + peakMemoryOf(pid), 0);
}

function peakMemoryOf(pid: number): number {
  try {
    const kilobytes = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1];
    return Number(kilobytes ?? 0) * 1024;
  } catch {
    // The process has ended meanwhile, or this system has no /proc.
    return 0;
  }
}
