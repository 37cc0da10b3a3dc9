/** Reports whether there is a process of this number, of any user. */
export function isRunning(pid: number): boolean {
  return signalled(pid) !== "gone";
}

/** Reports whether there is a process of this number that this user may end: one of its own, or any for root. */
export function isOwnRunning(pid: number): boolean {
  return signalled(pid) === "ours";
}

function signalled(pid: number): "ours" | "another user's" | "gone" {
  if (!Number.isSafeInteger(pid) || pid <= 0) return "gone";
  try {
    // Signal 0 only checks that the process exists.
    process.kill(pid, 0);
    return "ours";
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM" ? "another user's" : "gone";
  }
}
