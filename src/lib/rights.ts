import { constants, lstatSync, readlinkSync } from "node:fs";
import { join, resolve } from "node:path";

/**
 * Whose rights a command of root uses. The service's user can put a link at every path below the folders that it owns.
 * So root works there with the rights of that user: the system then checks each path, at the moment of its use. The
 * effective user changes and the real one stays root, so that the command can read and write root's own files again.
 * Where this process was not started by root, all functions here do nothing but their work.
 */

/** A user of the system, by its numbers. */
export type User = { uid: number; gid: number };
type Rights = User & { groups: number[] };

const ROOT: User = { uid: 0, gid: 0 };
const MAX_LINKS = 40;
const PROC = "/proc";
const groupsOfUsers = new Map<number, number[]>();

/** The rights of this process do not change any more. */
let isSettled = false;
/** This module has taken the rights of another user than root, and can take root's again. */
let hasTaken = false;

const isStartedByRoot = () => process.getuid?.() === 0;
/** Reports whether root runs this process, and it may still change its rights. */
export const canChangeRights = () =>
  !isSettled && isStartedByRoot() && (hasTaken || process.geteuid?.() === 0);

/** How root opens a path that other users may have changed. */
export type Decision = {
  /** The user who decides what the path means; undefined: root, or this process cannot change its rights. */
  user: User | undefined;
  /** Where root decides: the path with its links replaced, all of which are root's. */
  path: string;
  /** For `open`: O_NOFOLLOW where no link may be at the path any more. */
  flags: number;
};

/**
 * Finds the user who decides what a path means: the owner of the folder that it names, or of its nearest folder that is
 * there; for a path through a link of another user than root, that user. A file of root is root's word in any folder.
 */
export function decisionOn(path: string): Decision {
  if (!canChangeRights()) return { user: undefined, path, flags: 0 };
  const { folder, linkMaker, isRootsFile, resolved } = asUser(undefined, () => decidersOf(resolve(path)));
  if (linkMaker !== undefined) return { user: linkMaker, path, flags: 0 };
  const user = folder.uid === 0 || isRootsFile ? undefined : folder;
  return { user, path: resolved, flags: resolved.startsWith(PROC) ? 0 : constants.O_NOFOLLOW };
}

/** Returns the user who decides what a path means; undefined for root. `decisionOn` says more. */
export const ownerOf = (path: string): User | undefined => decisionOn(path).user;

type Deciders = {
  /** The owner of the last folder of the path that is there. */
  folder: User;
  /** The user, besides root, who has made a link on the way; nothing behind it has been looked at. */
  linkMaker?: User;
  /** The path names a regular file of root, which has no other name. */
  isRootsFile: boolean;
  resolved: string;
};

function decidersOf(path: string): Deciders {
  let names = namesIn(path);
  let folder = "/";
  let owner = ROOT;
  for (let links = 0; ; ) {
    const name = names.shift();
    if (name === undefined) return { folder: owner, isRootsFile: false, resolved: folder };
    const next = join(folder, name);
    // Links there are the kernel's, and lead to open files, such as that of /dev/stdin.
    if (folder === PROC) return { folder: ROOT, isRootsFile: false, resolved: join(next, ...names) };
    const facts = lstatSync(next, { throwIfNoEntry: false });
    if (facts?.isSymbolicLink()) {
      const { uid, gid } = facts;
      if (uid !== 0) return { folder: owner, linkMaker: { uid, gid }, isRootsFile: false, resolved: next };
      if (++links > MAX_LINKS) throw new Error(`${path}: too many links`);
      names = [...namesIn(resolve(folder, readlinkSync(next))), ...names];
      folder = "/";
      owner = ROOT;
    } else if (facts?.isDirectory()) {
      folder = next;
      owner = { uid: facts.uid, gid: facts.gid };
    } else {
      // A file with a second name may be one that the folder's owner has linked to this place.
      const isOnly = facts?.isFile() === true && facts.nlink === 1;
      const isRootsFile = names.length === 0 && isOnly && facts.uid === 0;
      return { folder: owner, isRootsFile, resolved: join(next, ...names) };
    }
  }
}

const namesIn = (path: string) => path.split("/").filter((name) => name !== "");

/**
 * Does work with the rights of a user, and takes the rights from before again when it has ended, also when the work is a
 * promise. While such a promise runs, nothing else of this process may run that needs other rights.
 *
 * @param user undefined: the user who has started this process
 * @throws what `work` throws; Error when the system does not let root take the user's rights
 */
export function asUser<T>(user: User | undefined, work: () => T): T {
  if (!canChangeRights()) return work();
  const before = current();
  take(rightsOf(user ?? ROOT));
  let isPending = false;
  try {
    const outcome = work();
    if (!(outcome instanceof Promise)) return outcome;
    isPending = true;
    return outcome.finally(() => take(before)) as T;
  } finally {
    if (!isPending) take(before);
  }
}

/** Does work that touches only what is at a path, with the rights of the user who decides what that is. */
export function asOwnerOf<T>(path: string, work: () => T): T {
  return asUser(ownerOf(path), work);
}

/**
 * Writes a file that the user of the command has asked for, with that user's rights, also into a folder of another user.
 * Only where a link of another user leads there, the rights are those of that other user.
 *
 * @param work creates what is at the path, and replaces or follows nothing there
 */
export function asWriterOf<T>(path: string, work: () => T): T {
  if (!canChangeRights()) return work();
  const { linkMaker } = asUser(undefined, () => decidersOf(resolve(path)));
  return asUser(linkMaker, work);
}

/**
 * Takes a user's rights for the rest of the command.
 *
 * @param user undefined: the user who has started this process
 */
export function actAs(user: User | undefined): void {
  if (canChangeRights()) take(rightsOf(user ?? ROOT));
}

/**
 * Becomes a user for good. Native code and other programs must not run before that in a process with the rights of two
 * users, because they could take root's again.
 *
 * @param user undefined: the process stays what it is
 */
export function stayUser(user: User | undefined): void {
  if (!isStartedByRoot() || user === undefined) return;
  const { uid, gid, groups } = rightsOf(user);
  orSay(uid, () => {
    process.seteuid?.(0);
    process.setgroups?.(groups);
    process.setgid?.(gid);
    process.setuid?.(uid);
  });
}

/** Keeps the present rights: a process that does several things at once cannot change them for one of them. */
export function settleRights(): void {
  isSettled = true;
}

/** Gives up root's rights in a child of a command that had those of another user. */
export function stayAsStarted(): void {
  stayUser(effectiveUser());
}

/** @throws Error where a program that is started now could take root's rights again */
export function requireOneUser(): void {
  if (effectiveUser() !== undefined)
    throw new Error("no program may be started with the rights of two users");
}

/** Returns the user whose rights a process of root has at present; undefined: root's own. */
function effectiveUser(): User | undefined {
  const { uid, gid } = current();
  return isStartedByRoot() && uid !== 0 ? { uid, gid } : undefined;
}

/** Lets a child of a command of root change its rights as the command does. It begins with those that the command had. */
export function inheritRights(): void {
  hasTaken = true;
}

function current(): Rights {
  return {
    uid: process.geteuid?.() ?? 0,
    gid: process.getegid?.() ?? 0,
    groups: process.getgroups?.() ?? [],
  };
}

function rightsOf({ uid, gid }: User): Rights {
  if (uid === 0)
    return { uid, gid: process.getgid?.() ?? 0, groups: groupsOfUsers.get(0) ?? noteOwnGroups() };
  const groups = groupsOfUsers.get(uid) ?? findGroups(uid, gid);
  groupsOfUsers.set(uid, groups);
  return { uid, gid, groups };
}

/** The groups of the user who has started this process are known until they are changed for the first time. */
function noteOwnGroups(): number[] {
  const groups = process.geteuid?.() === 0 ? (process.getgroups?.() ?? []) : [];
  groupsOfUsers.set(0, groups);
  return groups;
}

/** Returns the groups of the system's list, such as `render` for a GPU. A user without a name, as in containers, has no others. */
function findGroups(uid: number, gid: number): number[] {
  const before = current();
  noteOwnGroups();
  process.seteuid?.(0);
  try {
    (process as typeof process & { initgroups(user: number, group: number): void }).initgroups(uid, gid);
    return process.getgroups?.() ?? [gid];
  } catch {
    return [gid];
  } finally {
    take(before);
  }
}

function take({ uid, gid, groups }: Rights): void {
  if (uid === process.geteuid?.()) return;
  orSay(uid, () => {
    // Only root may change its groups and become another user.
    process.seteuid?.(0);
    process.setgroups?.(groups);
    process.setegid?.(gid);
    process.seteuid?.(uid);
  });
  hasTaken = uid !== 0;
}

/** @throws Error with what to do where the system does not let root change its rights, as in some containers */
function orSay(uid: number, change: () => void): void {
  try {
    change();
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    const message = `root may not work here as user ${uid}, to whom the folder belongs (${code}); run this as that user`;
    throw Object.assign(new Error(message, { cause }), { code: "EPERM" });
  }
}
