import { errorMessage } from "./error-message.ts";

/** What the errors of the system mean that the path of a file can cause. */
const REASONS: Record<string, string> = {
  ENOENT: "there is no such file or folder",
  ENOTDIR: "a part of this path is a file, not a folder",
  EISDIR: "it is a folder, not a file",
  EEXIST: "it exists already",
  EACCES: "this user has no right to do that",
  EPERM: "the system does not allow that",
  EROFS: "the file system is read-only",
  ENOSPC: "the disk is full",
  EDQUOT: "the user's quota of the disk is used up",
  EIO: "the disk reports an error",
  ELOOP: "too many links lead to each other",
  ENAMETOOLONG: "the name is too long",
  EBUSY: "it is in use",
  EMFILE: "this program has too many open files",
  ENFILE: "the system has too many open files",
};

/** Returns why a file cannot be used, for sentences that name the file; of other errors their message. */
export function reasonOf(error: unknown): string {
  const { code, syscall } = fieldsOf(error);
  const reason = isFileForFolder(code, syscall) ? "it is a file, not a folder" : REASONS[code];
  return reason === undefined || syscall === "" ? errorMessage(error) : `${reason} (${code})`;
}

/** Returns the message of an error. One of the system becomes a sentence that begins with the path. */
export function plainMessage(error: unknown): string {
  const { path } = fieldsOf(error);
  const reason = reasonOf(error);
  return path === "" || reason === errorMessage(error) ? reason : `${path}: ${reason}`;
}

/** Reports whether an error of the system says that there is a file where a folder is needed, or the reverse. */
export function isOtherKind(error: unknown): boolean {
  const { code, syscall } = fieldsOf(error);
  if (syscall === "") return false;
  return code === "ENOTDIR" || code === "EISDIR" || isFileForFolder(code, syscall);
}

/** A folder that exists already is not an error of `mkdir` with its parents. */
const isFileForFolder = (code: string, syscall: string) => code === "EEXIST" && syscall === "mkdir";

function fieldsOf(error: unknown): { code: string; syscall: string; path: string } {
  const { code, syscall, path } = (error ?? {}) as Record<string, unknown>;
  return { code: textOf(code), syscall: textOf(syscall), path: textOf(path) };
}

const textOf = (value: unknown) => (typeof value === "string" ? value : "");
