import { closeSync, mkdtempSync, openSync, rmSync, writeSync } from "node:fs";
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

/** Fills the disk to the last byte with a file, which the caller removes. */
export function fillDisk(path: string): void {
  const file = openSync(path, "w");
  const zeros = Buffer.alloc(1024 * 1024);
  let bytes = zeros.length;
  while (bytes > 0) {
    try {
      if (writeSync(file, zeros, 0, bytes) < bytes) bytes = Math.floor(bytes / 2);
    } catch {
      bytes = Math.floor(bytes / 2);
    }
  }
  closeSync(file);
}

/** Reports whether this user may mount a disk: usually root, and not in every container. */
export function mayMountDisks(): boolean {
  const folder = mkdtempSync(join(tmpdir(), "shruti-mount-"));
  const isMounted = mountSmallDisk(folder, 1);
  if (isMounted) unmountDisk(folder);
  rmSync(folder, { recursive: true });
  return isMounted;
}
