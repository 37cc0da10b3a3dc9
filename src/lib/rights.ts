import { lstatSync, readlinkSync } from "node:fs";
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
const groupsOfUsers = new Map<number, number[]>();

/** The rights of this process do not change any more. */
let isSettled = false;

/** This module has taken the rights of another user than root, and can take root's again. */
let hasTaken = false;

const isStartedByRoot = () => process.getuid?.() === 0;
/** Reports whether root runs this process, and it may still change its rights. */
export const canChangeRights = () =>
  !isSettled && isStartedByRoot() && (hasTaken || process.geteuid?.() === 0);

/**
 * Returns the user who decides what a path means: the owner of the folder that the path names, or of the nearest one that
 * is there; for a path through a link that another user than root has made, that user.
 *
 * @returns undefined for root, and where this process cannot change its rights anyway
 */
export function ownerOf(path: string): User | undefined {
  if (!canChangeRights()) return undefined;
  const { folder, linkMaker } = asUser(undefined, () => decidersOf(resolve(path)));
  return linkMaker ?? (folder.uid === 0 ? undefined : folder);
}

/** The owner of the last folder of a path; and the user, besides root, who has made a link on the way to it. */
type Deciders = { folder: User; linkMaker?: User };

function decidersOf(path: string): Deciders {
  let names = namesIn(path);
  let folder = "/";
  let owner = ROOT;
  for (let links = 0; ; ) {
    const name = names.shift();
    if (name === undefined) break;
    const next = join(folder, name);
    const facts = lstatSync(next, { throwIfNoEntry: false });
    if (facts?.isSymbolicLink()) {
      if (facts.uid !== 0) return { folder: owner, linkMaker: { uid: facts.uid, gid: facts.gid } };
      if (++links > MAX_LINKS) throw new Error(`${path}: too many links`);
      names = [...namesIn(resolve(folder, readlinkSync(next))), ...names];
      folder = "/";
      owner = ROOT;
    } else if (facts?.isDirectory()) {
      folder = next;
      owner = { uid: facts.uid, gid: facts.gid };
    } else break;
  }
  return { folder: owner };
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
 * Writes a file that the user of the command has asked for, with that user's rights, into whose ever folder it goes. Only
 * where a link of another user leads there, the rights are those of that other user.
 *
 * @param work creates what is at the path, and replaces or follows nothing there
 */
export function asWriterOf<T>(path: string, work: () => T): T {
  if (!canChangeRights()) return work();
  return asUser(asUser(undefined, () => decidersOf(resolve(path))).linkMaker, work);
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
 * @param user undefined: the process stays what it is, also then for good
 */
export function stayUser(user: User | undefined): void {
  if (isStartedByRoot() && user !== undefined) {
    const { uid, gid, groups } = rightsOf(user);
    process.seteuid?.(0);
    process.setgroups?.(groups);
    process.setgid?.(gid);
    process.setuid?.(uid);
  }
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
  try {
    // Only root may change its groups and become another user.
    process.seteuid?.(0);
    process.setgroups?.(groups);
    process.setegid?.(gid);
    process.seteuid?.(uid);
    hasTaken = uid !== 0;
  } catch (cause) {
    const message = `root may not work here as user ${uid}, to whom the folder belongs (${(cause as NodeJS.ErrnoException).code}); run this as that user`;
    throw Object.assign(new Error(message, { cause }), { code: "EPERM" });
  }
}
