import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Mounts a new, empty disk on a folder. Returns false where this user may not. */
export function mountSmallDisk(folder: string, megabytes: number): boolean {
  const options = ["-t", "tmpfs", "-o", `size=${megabytes}m`, "tmpfs", folder];
  return Bun.which("mount") !== null && Bun.spawnSync(["mount", ...options]).exitCode === 0;
}

/** Unmounts the disk, even while files on it are open. */
export function unmountDisk(folder: string): void {
  Bun.spawnSync(["umount", "--lazy", folder]);
}

/** Reports whether this user may mount a disk: usually root, and not in every container. */
export function mayMountDisks(): boolean {
  const folder = mkdtempSync(join(tmpdir(), "shruti-mount-"));
  const isMounted = mountSmallDisk(folder, 1);
  if (isMounted) unmountDisk(folder);
  rmSync(folder, { recursive: true });
  return isMounted;
}
