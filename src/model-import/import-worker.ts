import { fchmodSync, openSync, writeFileSync } from "node:fs";
import { basename, dirname } from "node:path";
import { freeBytesOf } from "../lib/disk-space.ts";
import { errorMessage } from "../lib/error-message.ts";
import { isGgufFile } from "../lib/gguf-file.ts";
import { giveToOwner } from "../lib/give-to-owner.ts";
import { inheritRights } from "../lib/rights.ts";
import { unpackCheckpoint } from "./archive.ts";
import { type ConvertOptions, convertFolder, convertModel, type Imported } from "./convert.ts";
import { ImportError } from "./import-error.ts";
import { convertNemo } from "./nemo/convert.ts";
import { requantiseTdt } from "./nemo/requantise.ts";
import { openOpenAiCheckpoint } from "./openai-checkpoint.ts";
import type { ImportReply, ImportRequest } from "./protocol.ts";
import { requantise } from "./requantise.ts";
import { openSource } from "./source-file.ts";

const FILE_MODE = 0o644;
/** Messages about progress: more would only keep the parent busy. */
const STEP = 0.005;

/** Runs a process that imports one model: it takes one request from its parent, answers it, and ends. */
export function runImportWorker(): void {
  inheritRights();
  preferToBeKilled();
  const send = (reply: ImportReply) => process.send?.(reply);
  process.on("disconnect", () => process.kill(process.pid, "SIGKILL"));
  // A terminal's Ctrl-C reaches the whole process group. The parent ends this process.
  process.on("SIGINT", () => {});
  process.on("SIGTERM", () => {});
  process.on("message", (request: ImportRequest) => {
    importModel(request, reportSteps(send))
      .then((imported) => send({ type: "done", imported }))
      .catch((error: unknown) =>
        send({ type: "failed", reason: errorMessage(error), isInput: error instanceof ImportError }),
      );
  });
}

/** Asks Linux to end this process first when memory runs out, before the server that may run beside it. */
function preferToBeKilled(): void {
  try {
    writeFileSync("/proc/self/oom_score_adj", "1000");
  } catch {
    // Without it the import works as well.
  }
}

function reportSteps(send: (reply: ImportReply) => void): (done: number) => void {
  let last = 0;
  return (done) => {
    if (done < last + STEP) return;
    last = done;
    send({ type: "progress", done });
  };
}

/**
 * Does what a request asks for.
 *
 * @throws ImportError when the source is at fault; Error for a full disk and other failures of the machine
 */
export async function importModel(
  request: ImportRequest,
  onProgress: (done: number) => void,
): Promise<Imported> {
  const { kind, source, type, scratch } = request;
  const requireSpace = (bytes: number) => checkSpace(scratch, bytes, request.reserveBytes);
  const options: ConvertOptions = {
    type,
    createOutput: (bytes) => createOutput(request, bytes, requireSpace),
    onProgress,
  };
  if (kind === "folder") return convertFolder({ path: source }, options);
  const file = openSource({ path: dirname(source) }, basename(source));
  try {
    if (kind === "ggml")
      return isGgufFile(source) ? requantiseTdt(file, source, options) : await requantise(file, options);
    if (kind === "nemo") return await convertNemo(file, { into: scratch, requireSpace }, options);
    if (kind === "openai") return await convertModel(await openOpenAiCheckpoint(file), options);
    const folder = await unpackCheckpoint(file, {
      into: scratch,
      requireSpace,
      onProgress: (done) => onProgress(done / 3),
    });
    return await convertFolder(folder, { ...options, onProgress: (done) => onProgress((1 + 2 * done) / 3) });
  } finally {
    file.close();
  }
}

function createOutput(
  { output }: ImportRequest,
  bytes: number,
  requireSpace: (bytes: number) => void,
): number | undefined {
  if (output === undefined) return undefined;
  requireSpace(bytes);
  const descriptor = openSync(output, "wx", FILE_MODE);
  fchmodSync(descriptor, FILE_MODE);
  giveToOwner(output);
  return descriptor;
}

function checkSpace(folder: string, bytes: number, reserveBytes: number): void {
  const free = freeBytesOf(folder) - reserveBytes;
  if (free >= bytes) return;
  const megabytes = (value: number) => Math.ceil(Math.max(0, value) / 1e6);
  throw new Error(
    `The disk of the models has not enough space: ${megabytes(bytes)} MB are needed, ${megabytes(free)} MB are free.`,
  );
}
