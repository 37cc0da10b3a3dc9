import { constants, fstatSync } from "node:fs";
import { access, type FileHandle, lstat, open, readlink, realpath } from "node:fs/promises";
import { join } from "node:path";
import type { FileIdentity } from "../../store/watched-files.ts";

/** A file of a watched folder is not the one that was seen: it was changed, renamed or removed meanwhile. */
export class SourceChanged extends Error {}

const READ_BYTES = 256 * 1024;
const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK, O_NOCTTY } = constants;

/** A file of a watched folder that is open for reading. */
export type Source = {
  /** Path under which threads and child processes of this process read the open file. */
  path: string;
  /** Returns the bytes from the beginning on. */
  stream(): ReadableStream<Uint8Array>;
  /** @throws SourceChanged when the file is not the one that was seen any more; the error that reading has met */
  requireSame(): void;
  close(): Promise<void>;
};

/** Size and time of change of a file. */
export type FileFacts = { bytes: number; changedUs: number; mode: number };

/** Returns what is known of a regular file without opening it; undefined for anything else. @throws the system's error */
export async function factsOf(path: string): Promise<FileFacts | undefined> {
  const facts = await lstat(path, { bigint: true });
  return facts.isFile() ? asFacts(facts) : undefined;
}

const asFacts = ({ size, mtimeNs, mode }: { size: bigint; mtimeNs: bigint; mode: bigint }): FileFacts => ({
  bytes: Number(size),
  changedUs: Number(mtimeNs / 1000n),
  mode: Number(mode),
});

/** Reports whether this process may read a file. */
export async function isReadableFile(path: string): Promise<boolean> {
  try {
    await access(path, constants.R_OK);
    return true;
  } catch {
    return false;
  }
}

/**
 * Opens a file of a watched folder. No link is followed, also none of a folder between.
 *
 * @throws SourceChanged when it is not the file that was seen; the system's error
 */
export async function openSource(identity: FileIdentity): Promise<Source> {
  const path = join(identity.folder, identity.name);
  let file: FileHandle;
  try {
    file = await open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
  } catch (error) {
    if (["ENOENT", "ENOTDIR", "ELOOP"].includes((error as NodeJS.ErrnoException).code ?? ""))
      throw new SourceChanged(`${path} is not there any more`);
    throw error;
  }
  try {
    const opened = `/proc/self/fd/${file.fd}`;
    // A folder between may have been replaced by a link after the look.
    const expected = join(await realpath(identity.folder), identity.name);
    if ((await readlink(opened)) !== expected) throw new SourceChanged(`${path} is elsewhere`);
    const source = sourceOf(file, opened, identity);
    source.requireSame();
    return source;
  } catch (error) {
    await file.close();
    throw error;
  }
}

function sourceOf(file: FileHandle, path: string, { name, bytes, changedUs }: FileIdentity): Source {
  let failure: unknown;
  return {
    path,
    stream() {
      let position = 0;
      return new ReadableStream<Uint8Array>({
        async pull(controller) {
          try {
            const buffer = new Uint8Array(Math.min(READ_BYTES, Math.max(1, bytes - position)));
            const { bytesRead } = await file.read(buffer, 0, buffer.length, position);
            position += bytesRead;
            if (bytesRead > 0) controller.enqueue(buffer.subarray(0, bytesRead));
            // The bytes after the size that was seen belong to another version of the file.
            if (bytesRead === 0 || position >= bytes) controller.close();
          } catch (error) {
            failure = error;
            controller.error(error);
          }
        },
      });
    },
    requireSame() {
      if (failure !== undefined) throw failure;
      const facts = fstatSync(file.fd, { bigint: true });
      const now = asFacts(facts);
      if (!facts.isFile() || now.bytes !== bytes || now.changedUs !== changedUs || facts.nlink === 0n)
        throw new SourceChanged(`${name} was changed while it was read`);
    },
    close: () => file.close(),
  };
}
