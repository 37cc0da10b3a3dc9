import { AppError } from "../../domain/errors.ts";
import type { GuardedFetch } from "../../outbound/guarded-fetch.ts";
import type { UploadService } from "../../services/uploads/uploads.ts";
import type { FetchRow } from "../../store/fetches.ts";
import type { UploadRow } from "../../store/uploads.ts";
import { drop, FetchFailure, type OpenedFile, type OpenFile, openFile } from "./open-file.ts";

export type FetchingUploads = Pick<
  UploadService,
  "announceBytes" | "receive" | "requireDisk" | "storedBytes" | "verifyFetched" | "maxBytes"
>;

/** What an attempt finds out about a file. It is stored before the file's bytes are. */
export type FileFacts = Pick<FetchRow, "totalBytes" | "validator">;

export type UploadFetch = {
  fetch: FetchRow;
  upload: UploadRow;
  /** Where the file is, and by which rules. */
  address: Pick<OpenFile, "url" | "rules" | "checkHop" | "isSigned">;
  signal: AbortSignal;
  nowMs: number;
  /** Stores what is known of the file. */
  note: (facts: FileFacts) => Promise<void>;
  /**
   * Called when bytes have come that later attempts can build on. A file that begins again from its first byte brings
   * none: where it is cut off each time, one attempt may have more bytes than the one before, without end.
   */
  onProgress: () => void;
  /** Called with the number of each further bytes. */
  onBytes: (bytes: number) => void;
};

/**
 * Makes one attempt to bring a file into its upload, and marks the upload complete. It continues after the bytes that
 * earlier attempts have brought, where the server there says that the file is still the same.
 *
 * @throws FetchFailure; AppError as `UploadService.receive`; the signal's reason
 */
export async function fetchUpload(
  guarded: GuardedFetch,
  uploads: FetchingUploads,
  work: UploadFetch,
): Promise<void> {
  const { upload, fetch } = work;
  const stored = (await uploads.storedBytes(upload.id)) ?? 0;
  const isWhole = fetch.totalBytes !== null && stored === fetch.totalBytes && stored === upload.bytes;
  if (!isWhole) await receiveRest(guarded, uploads, work, stored);
  await uploads.verifyFetched(upload.id);
}

async function receiveRest(
  guarded: GuardedFetch,
  uploads: FetchingUploads,
  work: UploadFetch,
  stored: number,
): Promise<void> {
  const { fetch, upload, address, signal, nowMs } = work;
  const { validator, totalBytes, attempts } = fetch;
  const canContinue = stored > 0 && validator !== null && totalBytes !== null && stored < totalBytes;
  const from = canContinue ? { from: { position: stored, validator, totalBytes } } : {};
  await uploads.requireDisk(0);
  const file = await openFile(guarded, { ...address, ...from, attempts, signal, nowMs });
  const { host } = address.url;
  try {
    requireSize(file, uploads.maxBytes(), host);
    // What is there already is continued or replaced.
    await uploads.requireDisk(Math.max(0, (file.totalBytes ?? 0) - stored));
    // Without a length, the file may have as many bytes as an upload may have. Its end says how many there are.
    const isKnown = file.totalBytes !== undefined;
    await uploads.announceBytes(upload, { bytes: file.totalBytes ?? uploads.maxBytes(), isKnown });
    await work.note({ totalBytes: file.totalBytes ?? null, validator: file.validator ?? null });
  } catch (error) {
    await drop(file.response);
    throw error;
  }
  const received = await receive(uploads, work, file, stored);
  if (file.totalBytes === undefined && received > 0)
    await uploads.announceBytes(upload, { bytes: received, isKnown: true });
  if (received < (file.totalBytes ?? 0)) {
    throw new FetchFailure(
      "connection",
      `${host} has ended the file after ${received} of ${file.totalBytes} bytes.`,
    );
  }
  if (received === 0) throw new FetchFailure("file", `${host} gave an empty file.`, { isFinal: true });
}

function requireSize({ totalBytes }: OpenedFile, maxBytes: number, host: string): void {
  if (totalBytes === 0) throw new FetchFailure("file", `${host} gave an empty file.`, { isFinal: true });
  if (totalBytes === undefined || totalBytes <= maxBytes) return;
  throw new FetchFailure(
    "limit",
    `The file at ${host} has ${totalBytes} bytes; an upload may have ${maxBytes} (limits.max_upload_bytes).`,
    { isFinal: true },
  );
}

/**
 * @param stored bytes of earlier attempts
 * @returns the bytes that are in the upload afterwards
 */
async function receive(
  uploads: FetchingUploads,
  work: UploadFetch,
  file: OpenedFile,
  stored: number,
): Promise<number> {
  const { response, start, totalBytes, validator } = file;
  const canBeContinued = start > 0 || (stored === 0 && validator !== undefined);
  const { host } = work.address.url;
  try {
    const { storedBytes } = await uploads.receive(work.upload.id, {
      at: start === 0 ? "start over" : start,
      body: response.body,
      ...(totalBytes === undefined ? {} : { declaredBytes: totalBytes - start }),
      signal: work.signal,
      onChunk({ length }) {
        work.onBytes(length);
        if (canBeContinued) work.onProgress();
      },
    });
    return storedBytes;
  } catch (error) {
    work.signal.throwIfAborted();
    if (error instanceof AppError && error.code === "audio_too_large") {
      const limit = totalBytes ?? uploads.maxBytes();
      throw new FetchFailure("limit", `The file at ${host} has more than ${limit} bytes.`, {
        isFinal: true,
      });
    }
    // The connection broke off; the cause says how.
    if (error instanceof AppError && error.code === "conflict" && error.cause !== undefined)
      throw new FetchFailure("connection", `${host} has ended the connection before the file was complete.`);
    throw error;
  } finally {
    await drop(response);
  }
}
