import { closeSync, type Dirent, fstatSync, readdirSync, readSync } from "node:fs";
import { resolve } from "node:path";
import { errorMessage } from "../lib/error-message.ts";
import { openRegularFile } from "../lib/regular-file.ts";

/**
 * Returns the last bytes of a backend that `scripts/build-backend.sh` made for a version of whisper.cpp. ggml itself
 * compares only an interface number, which stays the same while operations are renumbered. So a library of another
 * version would load and compute something else. An incomplete copy lacks this mark, too.
 */
export function backendMark(whisperVersion: string): string {
  return `\nshruti backend of whisper.cpp ${whisperVersion}\n`;
}

const MOST_MARK_BYTES = 100;

/**
 * Lists the GPU backends in a folder. Libraries with code for processors are left out, because the program carries them.
 *
 * @returns full paths in the order of their names; none when there is no such folder
 */
export function listBackends(dir: string): string[] {
  let entries: Dirent[];
  try {
    entries = readdirSync(dir, { withFileTypes: true });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
    throw error;
  }
  return entries
    .filter((entry) => !entry.isDirectory() && /^libggml-(?!base\b|cpu\b).+\.so$/.test(entry.name))
    .map((entry) => resolve(dir, entry.name))
    .sort();
}

/** Returns why a backend does not fit this version of whisper.cpp; undefined: it can be tried. */
export function unfitBackend(path: string, whisperVersion: string): string | undefined {
  let end: string;
  try {
    end = lastBytes(path);
  } catch (error) {
    return errorMessage(error);
  }
  if (end.endsWith(backendMark(whisperVersion))) return undefined;
  const other = /\nshruti backend of whisper\.cpp (\S+)\n$/.exec(end)?.[1];
  if (other === undefined) return "it was not made by scripts/build-backend.sh, or is not whole";
  return `it was built for whisper.cpp ${other} and this is ${whisperVersion}: build it again with scripts/build-backend.sh`;
}

function lastBytes(path: string): string {
  const file = openRegularFile(path);
  try {
    const { size } = fstatSync(file);
    const bytes = new Uint8Array(Math.min(size, MOST_MARK_BYTES));
    readSync(file, bytes, 0, bytes.length, size - bytes.length);
    return new TextDecoder("latin1").decode(bytes);
  } finally {
    closeSync(file);
  }
}

/** Libraries that a backend needs from the machine, and what installs them. */
const SOURCES: [library: RegExp, source: string][] = [
  [/^libcuda\./, "the NVIDIA driver"],
  [/^libcu/, "the run-time libraries of the CUDA toolkit that it was built with"],
  [/^libvulkan\./, "the Vulkan loader"],
];

/** Returns ggml's reason for not loading a backend, and what an admin can do about it if that is known. */
export function explainBackendFailure(path: string, reason: string): string {
  const said = reason.replace(/^load_backend: /, "").replaceAll(`${path}: `, "");
  const missing = /(\S+): cannot open shared object file/.exec(said)?.[1];
  if (missing !== undefined) {
    const source = SOURCES.find(([library]) => library.test(missing))?.[1];
    return `${missing} is not on this machine${source === undefined ? "" : `; it comes with ${source}`}`;
  }
  if (said.includes("ggml_backend_init returned NULL")) return "it found no graphics driver that it can use";
  return said;
}
