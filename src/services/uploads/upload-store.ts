import { FileStore } from "@tus/file-store";
import { ERRORS, type Lock, type Locker, Upload } from "@tus/server";
import {
  audioDirectory,
  audioFilePath,
  fileBytes,
  openForWriting,
  removeFile,
} from "../../store/audio-files.ts";
import type { UploadRow } from "../../store/uploads.ts";
import type { UploadContext } from "./upload-context.ts";
import { asDiskFailure } from "./upload-disk.ts";
import { findReceiving, type Receiving, receiveLocked } from "./upload-receiving.ts";
import { returnSpace } from "./upload-space.ts";

/** What a request says of its body beside the bytes. */
export type Sender = Omit<Receiving, "at" | "body">;

/**
 * The files of uploads, as `@tus/server` sees them during one request: the package's `FileStore`, with our rows as its
 * `configstore` and the lock of `admission/upload-locks.ts` as its locker, which PUT, `complete` and deletions take
 * as well.
 *
 * It differs from its base class where that knows too little. `create` leaves a file that exists as it is, because the
 * answer to the first creation may have been lost. A new file has the rights of all recordings; those of the base class
 * depend on the process's umask. `write` is `receiveLocked`: that of the base class has no bound on the bytes, does not
 * bring them to the disk, and reports every failure as the same one. Its `remove` says that there is no file when the file
 * system is read-only. Expiry stays with the rows: the base class compares with the machine's clock, which may be in doubt.
 */
export class UploadStore extends FileStore implements Locker {
  readonly #context: UploadContext;
  readonly #takenOver = new AbortController();
  #sender: Sender = {};
  #isLocked = false;
  /** The upload of this request; undefined before `open`. Once it is locked, nothing else moves it until the request ends. */
  upload: UploadRow | undefined;
  /** Bytes that a creation has found in the file; undefined where there was no file, or for another request. */
  earlierBytes: number | undefined;

  constructor(context: UploadContext) {
    super({ directory: audioDirectory(context.dataDir) });
    this.#context = context;
    this.extensions = ["creation", "creation-with-upload", "termination", "expiration", "checksum"];
    this.configstore = {
      get: async (id) => (this.upload?.id === id ? storedUpload(this.upload) : undefined),
      // The row is made by `POST /v1/uploads`.
      set: async () => undefined,
      delete: async (id) => returnSpace(context, this.#requireReceiving(id)),
    };
  }

  /** Names the upload of this request, as `authorize` has returned it. Comes before every other call. */
  open(upload: UploadRow, sender: Sender): void {
    this.upload = upload;
    this.#sender = sender;
  }

  /** Takes over from an older request of the same upload, whose `write` then ends. */
  newLock(id: string): Lock {
    let release: (() => void) | undefined;
    return {
      lock: async () => {
        release = await this.#context.locks.acquire(id, () => this.#takenOver.abort());
      },
      unlock: async () => release?.(),
    };
  }

  /** @throws AppError as `receive`, but for the bytes */
  override async create(file: Upload): Promise<Upload> {
    this.earlierBytes = await fileBytes(this.#pathOf(file.id));
    if (this.earlierBytes !== undefined) return file;
    this.#requireReceiving(file.id);
    try {
      await (await openForWriting(this.#pathOf(file.id), "keep")).close();
      return file;
    } catch (error) {
      throw asDiskFailure(error);
    }
  }

  /**
   * Writes the bytes of this request. Those of a repeated creation are thrown away: the client continues from the offset.
   *
   * @param body the request's own stream of the web
   * @returns bytes in the file
   * @throws AppError as `receive`
   */
  override async write(body: unknown, id: string, offset: number): Promise<number> {
    if (this.earlierBytes !== undefined) return this.earlierBytes;
    const stream = body as ReadableStream<Uint8Array> | null;
    const receiving = { ...this.#sender, at: offset, body: stream };
    const upload = this.#requireReceiving(id);
    return (await receiveLocked(this.#context, upload, receiving, this.#takenOver.signal)).storedBytes;
  }

  /** @throws AppError as `discardBytes`; the package's error when there is no file */
  override async remove(id: string): Promise<void> {
    this.#requireReceiving(id);
    if ((await fileBytes(this.#pathOf(id))) === undefined) throw ERRORS.FILE_NOT_FOUND;
    await removeFile(this.#pathOf(id));
    await this.configstore.delete(id);
  }

  /** Reads the row again, once the lock is held: another request may have ended the upload before. */
  #requireReceiving(id: string): UploadRow {
    if (!this.upload || !this.#isLocked) this.upload = findReceiving(this.#context, id);
    this.#isLocked = true;
    return this.upload;
  }

  #pathOf(id: string): string {
    return audioFilePath(this.#context.dataDir, id);
  }
}

// The base class makes the folder in its constructor, and throws a failure where nothing catches it, which ends the process.
// `ensureAudioDirectory` has made the folder before any upload exists.
Object.defineProperty(UploadStore.prototype, "checkOrCreateDirectory", { value: () => undefined });

/** What the package keeps of an upload, out of its row. */
function storedUpload({ id, bytes, createdAt }: UploadRow): Upload {
  const creation_date = new Date(createdAt).toISOString();
  return new Upload({ id, size: bytes, offset: 0, metadata: { upload_id: id }, creation_date });
}
