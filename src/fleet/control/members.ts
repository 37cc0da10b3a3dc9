import { statSync } from "node:fs";
import { join } from "node:path";
import { readRegularFile } from "../../lib/regular-file.ts";
import { NAME_PATTERN } from "../subjects.ts";

/** A worker that an admin has added. */
export type Member = {
  name: string;
  /** The public half of its NKEY. */
  key: string;
  addedAt: string;
  /** It takes no new work. */
  isDraining: boolean;
};

export const MEMBERS_FILE = "workers.json";
const MAX_BYTES = 1024 * 1024;

/** Reads the list of workers in the fleet's folder. @throws Error when the list cannot be read */
export function readMembers(folder: string): Member[] {
  const path = join(folder, MEMBERS_FILE);
  const list = JSON.parse(readRegularFile(path, MAX_BYTES)) as Member[];
  if (!Array.isArray(list) || !list.every(isMember)) throw new Error(`${path} is not a list of workers`);
  return list;
}

function isMember(value: unknown): value is Member {
  const member = value as Partial<Member> | null;
  return (
    typeof member?.name === "string" &&
    NAME_PATTERN.test(member.name) &&
    typeof member.key === "string" &&
    typeof member.addedAt === "string" &&
    typeof member.isDraining === "boolean"
  );
}

/** The list of workers, as the admin's commands leave it. */
export type Members = {
  find(name: string): Member | undefined;
  list(): Member[];
  /** Reads the list again when its file has changed. Keeps the old one while the file cannot be read. */
  refresh(): void;
};

/** @param onProblem called when the file cannot be read */
export function openMembers(folder: string, onProblem: (error: unknown) => void): Members {
  let members = new Map<string, Member>();
  let seen = "";

  function refresh(): void {
    try {
      const { mtimeMs, size, ino } = statSync(join(folder, MEMBERS_FILE));
      const stamp = `${mtimeMs} ${size} ${ino}`;
      if (stamp === seen) return;
      members = new Map(readMembers(folder).map((member) => [member.name, member]));
      seen = stamp;
    } catch (error) {
      onProblem(error);
    }
  }

  refresh();
  return {
    find(name) {
      // A worker may work before the next look at the file.
      if (!members.has(name)) refresh();
      return members.get(name);
    },
    list: () => [...members.values()],
    refresh,
  };
}
