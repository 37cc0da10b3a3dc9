import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Puts an empty disk of its own on a folder; false where this user may not. */
export function mountSmallDisk(folder: string, megabytes: number): boolean {
  const options = ["-t", "tmpfs", "-o", `size=${megabytes}m`, "tmpfs", folder];
  return Bun.which("mount") !== null && Bun.spawnSync(["mount", ...options]).exitCode === 0;
}

/** Also while something is open on it. */
export function unmountDisk(folder: string): void {
  Bun.spawnSync(["umount", "--lazy", folder]);
}

/** Whether this user may mount a disk: root mostly, and not in every container. */
export function mayMountDisks(): boolean {
  const folder = mkdtempSync(join(tmpdir(), "shruti-mount-"));
  const isMounted = mountSmallDisk(folder, 1);
  if (isMounted) unmountDisk(folder);
  rmSync(folder, { recursive: true });
  return isMounted;
}
