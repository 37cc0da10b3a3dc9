import { readFileSync } from "node:fs";

/**
 * Reports whether a folder is on a mount with the option noexec. Linux only: elsewhere it returns false.
 *
 * @param dir absolute path without symbolic links
 */
export function isOnNoexecMount(dir: string): boolean {
  const mounts = readMounts();
  return mounts !== undefined && isNoexec(mounts, dir);
}

/**
 * Looks up a folder in a list of mounts.
 *
 * @param mountinfo text of `/proc/self/mountinfo` (proc(5): field 5 mount point, field 6 options)
 * @param dir absolute path without symbolic links
 */
export function isNoexec(mountinfo: string, dir: string): boolean {
  let longest = -1;
  let noexec = false;
  for (const line of mountinfo.split("\n")) {
    const fields = line.split(" ");
    const point = fields[4]?.replace(/\\([0-7]{3})/g, (_, octal) =>
      String.fromCharCode(Number.parseInt(octal, 8)),
    );
    const options = fields[5];
    if (point === undefined || options === undefined) continue;
    const covers = point === "/" || dir === point || dir.startsWith(`${point}/`);
    // Of several mounts on one point the last line is the visible one.
    if (!covers || point.length < longest) continue;
    longest = point.length;
    noexec = options.split(",").includes("noexec");
  }
  return noexec;
}

function readMounts(): string | undefined {
  try {
    return readFileSync("/proc/self/mountinfo", "utf8");
  } catch {
    return undefined;
  }
}
