import { createShares, usualSpare } from "../../admission/shares.ts";
import { createUploadLocks } from "../../admission/upload-locks.ts";
import type { Ages } from "../../domain/clock-trust.ts";
import { type Owner, requireOwned } from "../../domain/ownership.ts";
import type { RawFormat } from "../../domain/raw-formats.ts";
import { DAY_MS } from "../../lib/time.ts";
import { audioFilePath } from "../../store/audio-files.ts";
import type { Store } from "../../store/database.ts";
import type { OrganizationRow } from "../../store/organizations.ts";
import { findUpload, type UploadRow } from "../../store/uploads.ts";
import { type AdoptedFile, adoptFile, discardAdopted } from "./upload-adoption.ts";
import { authorizeUpload } from "./upload-authorization.ts";
import {
  type CompletedUpload,
  type Completions,
  completeUpload,
  requireComplete,
  verifyFetched,
} from "./upload-completion.ts";
import type { UploadContext, UploadDeps } from "./upload-context.ts";
import { type CreatedUpload, createUpload, type Uploader, type UploadRequest } from "./upload-creation.ts";
import { checkDisk } from "./upload-disk.ts";
import { expireUploads, expireWherePossible, removeBytes } from "./upload-expiry.ts";
import { allocateFetched, announceBytes, refuseFetched, requireDisk } from "./upload-fetching.ts";
import { removeOrphans, type SweepReport, sweepAudioFiles } from "./upload-orphans.ts";
import {
  discardBytes,
  MAX_RECEIVING,
  nameFormat,
  type Received,
  type Receiving,
  receiveBytes,
  settleWriter,
  storedBytes,
} from "./upload-receiving.ts";
import { type StoredLimit, storedLimitOf } from "./upload-space.ts";
import { UploadStore } from "./upload-store.ts";
import { createVerifier } from "./upload-verification.ts";

export type { AdoptedFile } from "./upload-adoption.ts";
export type { UploadDeps } from "./upload-context.ts";
export type { CreatedUpload } from "./upload-creation.ts";

/**
 * Uploads (docs/interface.md sections 3.2 and 4.8 to 4.10, docs/decisions/uploads.md). Each part has its own users:
 * clients with a key, clients with an upload token, transcriptions, and the server itself.
 */
export type UploadService = ClientUploads & StorageUploads & AudioOfUploads & FetchedUploads & UploadUpkeep;

/** For clients with a key. A caller may touch uploads of its project only. */
export type ClientUploads = {
  /**
   * Allocates an upload in the caller's project.
   *
   * @throws AppError `audio_too_large` (detail `bytes`), `capacity_unavailable` without space on the disk,
   *   `rate_limited` when the organization has `limits.max_open_uploads` or stores as much as it may;
   *   `insufficient_credits` when it stores as much as it may without credit
   */
  create(caller: Uploader, request: UploadRequest): Promise<CreatedUpload>;
  /** Returns the upload as it is now. @throws AppError `not_found`, `forbidden` */
  get(caller: Owner, id: string): UploadRow;
  /**
   * Ends the receiving of an upload and verifies its bytes. A large upload, or one whose verification takes long, is
   * verified in the background. Calling it again reports the same outcome.
   *
   * @throws AppError `not_found`, `forbidden`, `upload_incomplete` while bytes are missing; `upload_rejected` or
   *   `audio_decode_failed` when verification failed
   */
  complete(caller: Owner, id: string): Promise<CompletedUpload>;
};

/** For the storage addresses, whose clients have an upload's token. `authorize` comes first; the others trust it. */
export type StorageUploads = {
  /**
   * Finds the upload that a token belongs to.
   *
   * @throws AppError `unauthorized` for an unknown upload, a wrong token, or when the key that made the upload is
   *   not valid any more; `organization_disabled`
   */
  authorize(id: string, token: string | undefined): UploadRow;
  /**
   * Writes the bytes of one request into the upload's file. It takes over from an older request of the same upload.
   *
   * @throws AppError `conflict` at a wrong position, when the upload takes no more bytes, or when a newer request
   *   took over; `audio_too_large` for more bytes than declared; `capacity_unavailable` without space on the disk,
   *   with too many uploads at once, or for a body that is too slow; `rate_limited`, `insufficient_credits` when the
   *   organization may not store more
   */
  receive(id: string, receiving: Receiving): Promise<Received>;
  /** Opens the files of uploads for `@tus/server`, for one request. */
  openStore(): UploadStore;
  /**
   * Keeps what a sender says of a file without a signature. It is used where verification finds none.
   *
   * @param upload as `authorize` has just returned it
   * @throws AppError `not_found`, `conflict`, the rejection of a rejected one
   */
  nameFormat(upload: UploadRow, format: RawFormat): Promise<void>;
  /** Removes the bytes that have arrived. @throws AppError `not_found`, `conflict`, the rejection of a rejected one */
  discardBytes(id: string): Promise<void>;
  /** Ends a request that still writes the upload, and waits until it has released the file. */
  settleWriter(id: string): Promise<void>;
  /** Returns the bytes in the upload's file; undefined when it has no file. */
  storedBytes(id: string): Promise<number | undefined>;
};

/** The audio behind transcriptions and synchronous requests. */
export type AudioOfUploads = {
  /**
   * Finds the upload that a transcription may start from, in the transaction that accepts it.
   *
   * @throws AppError (detail `audio.upload_id`) `not_found`, `forbidden`, `upload_incomplete`, `content_deleted`
   */
  requireComplete(tx: Store, caller: Owner, id: string): UploadRow;
  /** Returns the path of an upload's file, for the decoder. @throws Error for a text that is not an identifier */
  audioPath(id: string): string;
  /**
   * Checks that the disk has space.
   *
   * @param bytes size of a new file; 0: for the file that is being written
   * @throws AppError `capacity_unavailable`
   */
  requireDiskSpace(bytes: number): Promise<void>;
  /**
   * Makes the file of a synchronous request a complete upload: moves it into place and brings it to the disk.
   *
   * @throws AppError `rate_limited`, `insufficient_credits` when the organization may not store it
   */
  adoptFile(caller: Uploader, file: AdoptedFile): Promise<UploadRow>;
  /** Undoes `adoptFile`, when the request is refused after all. */
  discardAdopted(id: string): Promise<void>;
  /** Removes the file of an upload that is marked. After a crash between the two, the sweep at the start does it. */
  removeAudioFile(id: string): Promise<void>;
};

/** For the fetcher: uploads whose bytes the server fetches itself. Bytes come in by `receive`. */
export type FetchedUploads = {
  /** Allocates such an upload, in the transaction that accepts its transcription. @throws AppError `rate_limited` */
  allocateFetched(tx: Store, caller: Owner): UploadRow;
  /** Returns the most bytes that an upload may have. */
  maxBytes(): number;
  /** Checks that the disk has space for so many further bytes; 0: it is not known how many. @throws AppError `capacity_unavailable` */
  requireDisk(bytes: number): Promise<void>;
  /**
   * Says how many bytes the file has, or, where that is not known, how many it may have at most.
   *
   * @throws AppError `audio_too_large` when the organization could never store it; `conflict` when the upload takes no bytes
   */
  announceBytes(
    upload: Pick<UploadRow, "id" | "organizationId">,
    size: { bytes: number; isKnown: boolean },
  ): Promise<void>;
  /** Ends the receiving; verification continues in the background. @throws AppError `upload_incomplete` */
  verifyFetched(id: string): Promise<void>;
  /** Rejects an upload that cannot be fetched. `isUnpaidAct`: the client could have known it. */
  refuseFetched(upload: UploadRow, message: string, isUnpaidAct: boolean): Promise<void>;
};

/** For the server itself. */
export type UploadUpkeep = {
  /** Returns how many bytes of recordings an organization may store. */
  storedLimitOf(organization: OrganizationRow): StoredLimit;
  /** Returns how many uploads are being written at this moment. */
  receiving(): number;
  /** Continues the verifications that a stop, a crash or a failure of the machine left unfinished. */
  resumeVerification(): void;
  /** Called when another process has written to the database: it may have deleted uploads that are being verified. */
  onOutsideChange(): void;
  /** Rejects uploads that have expired. Returns how many. */
  expire(ages: Ages): Promise<number>;
  /** Removes files without a record, and marks records without a file. Called once, at the start. */
  sweepOrphans(): Promise<SweepReport>;
  /**
   * Removes files that no record needs and that have not changed for a day; none while the clock is in doubt. Returns how
   * many.
   */
  removeOrphans(): Promise<number>;
  /** Ends running requests and verifications, and waits for them. */
  close(): Promise<void>;
};

export function createUploadService(deps: UploadDeps): UploadService {
  const context: UploadContext = {
    ...deps,
    startedAtMs: Date.now(),
    locks: createUploadLocks(),
    writers: createShares(MAX_RECEIVING, usualSpare(MAX_RECEIVING)),
    background: new Set(),
  };
  const completions: Completions = { verifier: createVerifier(context), moves: new Map() };
  return {
    ...clientUploads(context, completions),
    ...storageUploads(context),
    ...audioOfUploads(context),
    ...fetchedUploads(context, completions),
    ...uploadUpkeep(context, completions),
  };
}

function clientUploads(context: UploadContext, completions: Completions): ClientUploads {
  const { store } = context.database;
  return {
    create: (caller, request) => createUpload(context, caller, request),
    get: (caller, id) => expireWherePossible(context, requireOwned(findUpload(store, id), caller)),
    complete: (caller, id) => completeUpload(context, completions, caller, id),
  };
}

function storageUploads(context: UploadContext): StorageUploads {
  return {
    authorize: (id, token) => authorizeUpload(context, id, token),
    receive: (id, receiving) => receiveBytes(context, id, receiving),
    openStore: () => new UploadStore(context),
    discardBytes: (id) => discardBytes(context, id),
    nameFormat: (upload, format) => nameFormat(context, upload, format),
    settleWriter: (id) => settleWriter(context, id),
    storedBytes: (id) => storedBytes(context, id),
  };
}

function audioOfUploads(context: UploadContext): AudioOfUploads {
  return {
    requireComplete: (tx, caller, id) => requireComplete(context, tx, caller, id),
    audioPath: (id) => audioFilePath(context.dataDir, id),
    requireDiskSpace: (bytes) => checkDisk(context, bytes),
    adoptFile: (caller, file) => adoptFile(context, caller, file),
    discardAdopted: (id) => discardAdopted(context, id),
    removeAudioFile: (id) => removeBytes(context, id),
  };
}

function fetchedUploads(context: UploadContext, completions: Completions): FetchedUploads {
  return {
    allocateFetched: (tx, caller) => allocateFetched(context, tx, caller),
    maxBytes: () => context.config.limits.max_upload_bytes,
    requireDisk: (bytes) => requireDisk(context, bytes),
    announceBytes: (upload, size) => announceBytes(context, upload, size),
    async verifyFetched(id) {
      const upload = findUpload(context.database.store, id);
      if (upload?.state === "allocated") await verifyFetched(context, completions, upload);
    },
    refuseFetched: (upload, message, isUnpaidAct) => refuseFetched(context, upload, message, isUnpaidAct),
  };
}

function uploadUpkeep(context: UploadContext, { verifier }: Completions): UploadUpkeep {
  return {
    storedLimitOf: (organization) => storedLimitOf(context.database.store, context, organization),
    receiving: () => context.locks.held(),
    resumeVerification: () => verifier.resume(),
    expire: (ages) => expireUploads(context, ages),
    onOutsideChange: () => verifier.stopEnded(),
    sweepOrphans: () => sweepAudioFiles(context),
    removeOrphans: async () => (context.ages() ? removeOrphans(context, Date.now() - DAY_MS) : 0),
    async close() {
      await Promise.all([context.locks.close(), verifier.close()]);
      await Promise.all(context.background);
    },
  };
}
