import { closeSync, type Dirent, fstatSync, readdirSync, readSync } from "node:fs";
import { resolve } from "node:path";
import { errorMessage } from "../lib/error-message.ts";
import { openRegularFile } from "../lib/regular-file.ts";

/**
 * The last bytes of a backend that `scripts/build-backend.sh` made: which whisper.cpp's source it came from. ggml
 * compares only the number of an interface that stays the same while the operations behind it are renumbered, so a
 * library of another version would load, and compute something else. A copy that was cut short has lost the mark, too.
 */
export function backendMark(whisperVersion: string): string {
  return `\nshruti backend of whisper.cpp ${whisperVersion}\n`;
}

const MOST_MARK_BYTES = 100;

/**
 * The backend libraries in a folder, without code for processors: that comes with the program.
 *
 * @returns full paths, in the order of their names; none when there is no such folder
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

/** Why a backend cannot be loaded by a program with this version of whisper.cpp; undefined when it can be tried. */
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

/** What brings the libraries that a backend needs of the machine. */
const BRINGERS: [library: RegExp, bringer: string][] = [
  [/^libcuda\./, "the NVIDIA driver"],
  [/^libcu/, "the run-time libraries of the CUDA toolkit that it was built with"],
  [/^libvulkan\./, "the Vulkan loader"],
];

/** ggml's reason for not loading a backend, with what can be done about it where that is known. */
export function explainBackendFailure(path: string, reason: string): string {
  const said = reason.replace(/^load_backend: /, "").replaceAll(`${path}: `, "");
  const missing = /(\S+): cannot open shared object file/.exec(said)?.[1];
  if (missing !== undefined) {
    const bringer = BRINGERS.find(([library]) => library.test(missing))?.[1];
    return `${missing} is not on this machine${bringer === undefined ? "" : `; it comes with ${bringer}`}`;
  }
  if (said.includes("ggml_backend_init returned NULL")) return "it found no graphics driver that it can use";
  return said;
}
