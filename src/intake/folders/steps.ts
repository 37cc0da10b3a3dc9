import type { FolderSettings } from "../../config/folder-fields.ts";
import type { Metadata } from "../../domain/metadata.ts";
import type { Owner } from "../../domain/ownership.ts";
import { rawFormatOfName } from "../../domain/raw-formats.ts";
import { isFinal, type TranscriptionRequest } from "../../domain/transcription.ts";
import { requestOf } from "../../services/transcriptions/acceptance.ts";
import { gatedTransaction } from "../../store/database.ts";
import { sha256OfFile } from "../../store/file-hash.ts";
import { resultInfoOf } from "../../store/transcriptions.ts";
import { findUpload, type UploadRow } from "../../store/uploads.ts";
import {
  deleteWatchedFile,
  listWatchedVersions,
  moveWatchedFile,
  type WatchedFileRow,
} from "../../store/watched-files.ts";
import { failFile, finishFile, putBack, requireMounted } from "./endings.ts";
import { chooseResultName, ownerOf, writeResults } from "./results.ts";
import { projectOf, requestFor } from "./rules.ts";
import { readMetadata } from "./sidecar.ts";
import { openSource, type Source, SourceChanged } from "./source.ts";
import { Abandoned, FileFailure, type StepDeps, Waiting } from "./step.ts";

/** How often a verification in the background is looked at. */
const VERIFY_LOOK_MS = 1_000;
/** Files above this size are copied in places of their own, so that small ones do not wait for them. */
const LARGE_BYTES = 64 * 1024 * 1024;

/**
 * Does the next step of a file. Each step can be repeated after a crash at any instant.
 *
 * @returns the row in its next state; undefined: nothing is left to do, and the row is gone
 * @throws FileFailure, Waiting, Abandoned; AppError and errors of the system, which `judged` explains
 */
export function nextStep(
  deps: StepDeps,
  row: WatchedFileRow,
  settings: FolderSettings,
): Promise<WatchedFileRow | undefined> {
  switch (row.state) {
    case "receiving":
      return receive(deps, row, settings);
    case "accepted":
      return write(deps, row, settings);
    case "written":
      return finishFile(deps, row, settings);
    case "failing":
      return failFile(deps, row, settings);
    case "retrying":
      return putBack(deps, row, settings);
    default:
      throw new Error(`a ${row.state} file has no next step`);
  }
}

const ownerOfRow = ({ organizationId, projectId }: WatchedFileRow): Owner => ({ organizationId, projectId });

/** Copies the file into an upload, verifies it, and lets a transcription be accepted. */
async function receive(
  deps: StepDeps,
  row: WatchedFileRow,
  settings: FolderSettings,
): Promise<WatchedFileRow | undefined> {
  const owner = ownerOfRow(row);
  const known = usableUpload(deps, row);
  let uploadId = known?.id;
  if (known === undefined || known.state === "allocated") {
    const outcome = await copy(deps, row, settings, known);
    if (outcome === undefined || typeof outcome !== "string") return outcome;
    uploadId = outcome;
  }
  const { upload, isFinished } = await deps.uploads.complete(owner, uploadId ?? "");
  if (!isFinished) throw new Waiting("it is being verified", VERIFY_LOOK_MS);
  return accept(deps, row, settings, upload);
}

/** Returns the upload of a file, unless its bytes have never arrived and cannot arrive any more. */
function usableUpload({ database }: StepDeps, { uploadId }: WatchedFileRow): UploadRow | undefined {
  const upload = uploadId === null ? undefined : findUpload(database.store, uploadId);
  const wasVerified = upload?.history.some(([, state]) => state === "verifying");
  if (upload?.state === "rejected" && !wasVerified) return undefined;
  // Its recording may be removed by its age while it waits for credit.
  return upload?.state === "complete" && upload.deletedAt !== null ? undefined : upload;
}

/**
 * Copies a file into an upload of its row.
 *
 * @returns the identifier of the upload; the row, where it needs none; undefined when the file is gone or was changed: it was
 *   forgotten, and is taken again when it rests
 */
async function copy(
  deps: StepDeps,
  row: WatchedFileRow,
  settings: FolderSettings,
  known: UploadRow | undefined,
): Promise<string | WatchedFileRow | undefined> {
  let source: Source | undefined;
  try {
    source = await openSource(row);
    const opened = source;
    // What is wrong with it is said before the file is copied.
    const request = requestOfRow(deps, settings, await readMetadata(row, settings));
    const same = known ? undefined : await findSame(deps, row, request, opened);
    if (same) return deps.move(row, "accepted", same);
    const uploadId = known?.id ?? (await allocate(deps, row));
    const isLarge = row.bytes > LARGE_BYTES;
    const work = { organizationId: row.organizationId, purpose: "upload", isLarge } as const;
    await deps.copies.run(work, deps.stopping, () => fill(deps, row, uploadId, opened));
    return uploadId;
  } catch (error) {
    if (!(error instanceof SourceChanged)) throw error;
    await requireMounted(row);
    await forget(deps, row, known);
    return undefined;
  } finally {
    await source?.close();
  }
}

async function fill(deps: StepDeps, row: WatchedFileRow, uploadId: string, source: Source): Promise<void> {
  const format = rawFormatOfName(row.name);
  const upload = findUpload(deps.database.store, uploadId);
  if (format && upload) await deps.uploads.nameFormat(upload, format);
  try {
    await deps.uploads.receive(uploadId, {
      ...{ at: "start over", body: source.stream(), declaredBytes: row.bytes, signal: deps.stopping },
      approve: () => source.requireSame(),
    });
  } catch (error) {
    // An error of reading is hidden behind that of a client that went away.
    source.requireSame();
    throw error;
  }
}

async function allocate({ uploads, clock }: StepDeps, row: WatchedFileRow): Promise<string> {
  const { upload } = await uploads.create(ownerOfRow(row), {
    bytes: row.bytes,
    note: (tx, { id }) => {
      if (!moveWatchedFile(tx, row, row.state, clock.now(), { uploadId: id })) throw new Abandoned();
    },
  });
  row.uploadId = upload.id;
  return upload.id;
}

/**
 * Finds the transcription of an earlier version of the file with the same bytes and the same request: where only the time of
 * change differs, nothing is charged again.
 */
async function findSame(
  deps: StepDeps,
  row: WatchedFileRow,
  request: TranscriptionRequest,
  source: Source,
): Promise<{ transcriptionId: string; sha256: string } | undefined> {
  const { store } = deps.database;
  const earlier = listWatchedVersions(store, row.folder, row.name).filter(
    ({ number, bytes, sha256, projectId }) =>
      number !== row.number && bytes === row.bytes && sha256 !== null && projectId === row.projectId,
  );
  const usable = earlier.flatMap(({ sha256, transcriptionId }) => {
    const transcription = transcriptionId === null ? undefined : deps.transcriptions.find(transcriptionId);
    if (!transcription || sha256 === null || transcription.contentDeletedAt !== null) return [];
    if (transcription.state !== "completed" || !Bun.deepEquals(requestOf(transcription), request)) return [];
    return [{ transcriptionId: transcription.id, sha256 }];
  });
  if (usable.length === 0) return undefined;
  const sha256 = await sha256OfFile(source.path, deps.stopping);
  source.requireSame();
  return usable.find((each) => each.sha256 === sha256);
}

/** Forgets a file that is gone, with the bytes that have arrived. */
async function forget(deps: StepDeps, row: WatchedFileRow, upload: UploadRow | undefined): Promise<void> {
  const uploadId = upload?.id ?? row.uploadId;
  await gatedTransaction(deps.database, (tx) => deleteWatchedFile(tx, row));
  if (uploadId === null) return;
  // Its record expires like that of a client that never sends its bytes.
  await deps.uploads
    .discardBytes(uploadId)
    .catch((error: unknown) => deps.log.warn({ err: error, upload_id: uploadId }, "bytes were not removed"));
}

/** @throws Waiting when the settings cannot be used now */
function requestOfRow(
  { database }: StepDeps,
  settings: FolderSettings,
  metadata: Metadata,
): TranscriptionRequest {
  const project = projectOf(database.store, settings);
  if ("problem" in project) throw new Waiting(project.problem);
  const request = requestFor(settings, project, metadata);
  if ("problem" in request) throw new Waiting(request.problem);
  return request;
}

/** Accepts the transcription and notes it in the row, in one transaction. */
async function accept(
  deps: StepDeps,
  row: WatchedFileRow,
  settings: FolderSettings,
  upload: UploadRow,
): Promise<WatchedFileRow> {
  let moved: WatchedFileRow | undefined;
  const metadata = await readMetadata(row, settings);
  await deps.database.gate.run(() => {
    const request = requestOfRow(deps, settings, metadata);
    const model = deps.transcriptions.checkRequest(settings.model || undefined, request);
    deps.transcriptions.accept(ownerOfRow(row), {
      ...{ submission: "asynchronous", model, request, uploadId: upload.id },
      ...(settings.webhook_endpoint === "" ? {} : { webhookEndpointId: settings.webhook_endpoint }),
      note: (tx, { id }) => {
        const change = { transcriptionId: id, sha256: upload.storedSha256 };
        moved = moveWatchedFile(tx, row, "accepted", deps.clock.now(), change);
        if (!moved) throw new Abandoned();
      },
    });
  });
  if (!moved) throw new Abandoned();
  return moved;
}

/** Writes the results once the transcription has ended. */
async function write(deps: StepDeps, row: WatchedFileRow, settings: FolderSettings): Promise<WatchedFileRow> {
  const id = row.transcriptionId ?? "";
  const transcription = deps.transcriptions.find(id);
  if (!transcription) throw new FileFailure(`Its transcription ${id} is gone.`);
  if (!isFinal(transcription.state)) throw new Waiting("it is transcribed");
  if (transcription.contentDeletedAt !== null)
    throw new FileFailure(`Its transcript ${id} was deleted before its results were written.`);
  if (transcription.state !== "completed" && transcription.state !== "partial")
    throw new FileFailure(transcription.errorMessage ?? `The transcription was ${transcription.state}.`);
  await requireMounted(row);
  const named = row.resultName === null ? await nameResults(deps, row, settings) : row;
  const { result } = deps.transcriptions.result(ownerOfRow(row), id);
  const info = resultInfoOf(transcription);
  await writeResults({ ...named, resultName: named.resultName ?? "" }, settings, result, info);
  return deps.move(named, "written");
}

async function nameResults(
  deps: StepDeps,
  row: WatchedFileRow,
  settings: FolderSettings,
): Promise<WatchedFileRow> {
  const resultName = await chooseResultName(deps.database.store, row, settings);
  return gatedTransaction(deps.database, (tx) => {
    // Another file may have chosen the same name meanwhile.
    if (ownerOf(tx, row, resultName) === "another") throw new Waiting("its results get another name", 0);
    const named = moveWatchedFile(tx, row, row.state, deps.clock.now(), { resultName });
    if (!named) throw new Abandoned();
    return named;
  });
}
