import { accessSync, constants } from "node:fs";
import { join } from "node:path";

/** The folders of a data directory in which the server writes, and what then does not work where it may not. */
const WRITTEN_FOLDERS: Record<string, string> = {
  uploads: "no recording can be received",
  incoming: "no synchronous request can be received",
  work: "no recording can be prepared",
  native: "the engine cannot start",
  "embedded-models": "the model of the executable cannot be used",
};
/** Folders that it only reads: they may belong to root. */
const READ_FOLDERS = ["models", "backends", "fleet"];
const WRITTEN_FILES = [
  ...["serve.lock", "status.json", "deletions.jsonl", "closings.jsonl", "audit-heads.jsonl", "ballast"],
];
const READ_FILES = ["signing-key.pem"];

/** The folders without which the server can take no work. */
const NEEDED_FOLDERS = ["uploads", "incoming", "work"];

/**
 * Finds parts of a data directory that this user may not use as the server must. Parts that are not there do not count: the
 * server makes them.
 *
 * @returns a sentence for each
 */
export function unusableParts(dataDir: string): string[] {
  const { R_OK, W_OK, X_OK } = constants;
  const problems = (names: readonly string[], mode: number, verb: string, effect = (_: string) => "") =>
    names.flatMap((name) => {
      const code = refusalOf(join(dataDir, name), mode);
      const advice = "it must belong to the owner of the data directory";
      return code === undefined
        ? []
        : [`${join(dataDir, name)} cannot be ${verb} (${code})${effect(name)}; ${advice}`];
    });
  const folders = Object.keys(WRITTEN_FOLDERS);
  return [
    ...problems(folders, R_OK | W_OK | X_OK, "written", (name) => `: ${WRITTEN_FOLDERS[name]}`),
    ...problems(WRITTEN_FILES, R_OK | W_OK, "written"),
    ...problems(READ_FOLDERS, R_OK | X_OK, "read"),
    ...problems(READ_FILES, R_OK, "read"),
  ];
}

/** Finds the folders that keep the server from taking work. @returns a short sentence for each */
export function unwritableFolders(dataDir: string): string[] {
  const { W_OK, X_OK } = constants;
  return NEEDED_FOLDERS.flatMap((name) => {
    const code = refusalOf(join(dataDir, name), W_OK | X_OK);
    return code === undefined ? [] : [`the folder ${name} of the data directory cannot be written (${code})`];
  });
}

/** @returns the system's code of a refusal; undefined: this user may use it, or it is not there */
function refusalOf(path: string, mode: number): string | undefined {
  try {
    accessSync(path, mode);
    return undefined;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    return code === "ENOENT" ? undefined : (code ?? "unknown");
  }
}
