import { readdirSync, readFileSync } from "node:fs";

/** A thread of a process. */
export type Thread = {
  id: number;
  niceness: number;
  /** Processor time so far, in ticks of 10 ms. */
  ticks: number;
};

/** Lists the threads of a process from /proc (proc(5)). Empty when the process has ended. */
export function threadsOf(pid: number): Thread[] {
  try {
    return readdirSync(`/proc/${pid}/task`).flatMap((id) => readThread(pid, Number(id)) ?? []);
  } catch {
    return [];
  }
}

function readThread(pid: number, id: number): Thread | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/task/${id}/stat`, "utf8");
    // The second field is the name in parentheses, which may contain any character.
    const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
    return { id, niceness: Number(fields[16]), ticks: Number(fields[11]) + Number(fields[12]) };
  } catch {
    // The thread has just ended.
    return undefined;
  }
}
