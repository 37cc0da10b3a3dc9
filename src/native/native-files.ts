import { realpathSync } from "node:fs";
import { dirname, join } from "node:path";
import { NATIVE_FILES, NATIVE_HASH } from "#native-parts";
import { type CarriedFile, copyCarriedFiles, DamagedFileError } from "./carried-files.ts";
import { isOnNoexecMount } from "./mounts.ts";

/** Absolute paths of the carried programs, libraries and weights. */
export type NativeFiles = {
  /** The folder of all of them. */
  dir: string;
  /** Our decoder of recordings; run it with `runDecoder` (decoder-process.ts). */
  decoder: string;
  /** Our whisper.cpp addon. */
  smartWhisper: string;
  /** Our addon for ONNX models; load it with `loadOnnx` (onnx-addon.ts). */
  onnx: string;
  /** The ONNX runtime, which that addon loads. */
  onnxruntime: string;
  /** Our build of the Silero speech detector; load it with `openSilero` (silero.ts). */
  silero: string;
  sileroWeights: string;
};

const LIBRARY_SUFFIX = process.platform === "darwin" ? "dylib" : "so";

/** The carried files cannot be used. The message names the folder and the setting that an admin has to change. */
export class NativeFilesError extends Error {
  constructor(message: string, cause?: unknown) {
    super(message, { cause });
    this.name = "NativeFilesError";
  }
}

/**
 * Makes the carried native files available on disk.
 *
 * A compiled executable copies them once to `<dataDir>/native/<hash>`, where the hash covers all contents. Later starts
 * check only sizes and modes, and replace an incomplete folder. A run from source uses `build/native` as it is.
 *
 * @param dataDir the setting `storage.data_dir`
 * @param isTrusted false: another person may have prepared the folder, so all contents are checked
 * @throws NativeFilesError when the folder cannot be written, or its mount forbids execution
 */
export async function extractNativeFiles(dataDir: string, isTrusted = true): Promise<NativeFiles> {
  if (!Bun.isStandaloneExecutable) return locate(dirname(firstPath(NATIVE_FILES)));
  const dir = await extractInto(join(dataDir, "native"), NATIVE_HASH, NATIVE_FILES, isTrusted);
  return locate(dir);
}

/**
 * Does the part of `extractNativeFiles` below the data directory.
 *
 * @param root folder of all versions; it is created when it is missing
 * @param hash hex digest over all files; its first 12 digits name the folder
 * @param isTrusted as for `extractNativeFiles`
 * @returns the absolute path of the folder that holds the copies
 * @throws NativeFilesError
 */
export async function extractInto(
  root: string,
  hash: string,
  files: CarriedFile[],
  isTrusted = true,
): Promise<string> {
  let absolute: string;
  try {
    absolute = realpathSync(await copyCarriedFiles(root, hash, files, isTrusted));
  } catch (error) {
    throw explain(root, error);
  }
  // Programs and libraries on such a mount would fail much later, with a puzzling message.
  if (isOnNoexecMount(absolute)) {
    throw new NativeFilesError(
      `${absolute} is on a mount with the option noexec, so Shruti's native files cannot run there: remount it with exec, or set storage.data_dir to another folder`,
    );
  }
  return absolute;
}

function locate(dir: string): NativeFiles {
  return {
    dir,
    decoder: join(dir, "decoder"),
    smartWhisper: join(dir, "smart-whisper.addon"),
    onnx: join(dir, "onnx.addon"),
    onnxruntime: join(dir, `libonnxruntime.${LIBRARY_SUFFIX}`),
    silero: join(dir, `silero.${LIBRARY_SUFFIX}`),
    sileroWeights: join(dir, "silero.weights"),
  };
}

function firstPath(files: CarriedFile[]): string {
  const first = files[0];
  if (first === undefined) throw new NativeFilesError("this build carries no native files");
  return first.packed;
}

function explain(root: string, error: unknown): NativeFilesError {
  if (error instanceof DamagedFileError) return new NativeFilesError(error.message, error);
  const code = (error as NodeJS.ErrnoException).code ?? String(error);
  return new NativeFilesError(
    `cannot write Shruti's native files to ${root} (${code}): make it writable, or set storage.data_dir to another folder`,
    error,
  );
}
