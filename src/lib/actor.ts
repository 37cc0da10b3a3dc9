import { AsyncLocalStorage } from "node:async_hooks";
import { readFileSync } from "node:fs";

/** Where an act comes from. `server`: the program itself, such as a retention period that is over. */
export const ACTOR_SOURCES = ["command_line", "console", "api_key", "server"] as const;
export type ActorSource = (typeof ACTOR_SOURCES)[number];

/** Who does something. */
export type Actor = {
  source: ActorSource;
  /** The user of the operating system, the admin of the console, or the identifier of the key; never a secret. */
  name: string;
  /** How: the command, such as `orgs create`, or the identifier of the request; null where there is neither. */
  via: string | null;
};

/** The program itself. Code that acts without a request or a command runs as this one. */
export const SERVER: Actor = { source: "server", name: "shruti", via: null };

const actors = new AsyncLocalStorage<() => Actor>();

/**
 * Runs work on behalf of an actor. `currentActor` returns the actor in this work and in everything that it starts, also
 * after an `await`, and in timers.
 *
 * @param actor a function where the actor is known only later
 */
export function runAs<T>(actor: Actor | (() => Actor), work: () => T): T {
  return actors.run(typeof actor === "function" ? actor : () => actor, work);
}

/** Returns the actor on whose behalf the code runs; the server itself where no actor was named. */
export function currentActor(): Actor {
  return actors.getStore()?.() ?? SERVER;
}

/**
 * Describes the user who runs this process: the name, or the number where there is no name. Behind `sudo`, the user who
 * called it is named as well.
 */
export function systemUser(environment: Record<string, string | undefined>): string {
  const uid = process.getuid?.();
  const name = uid === undefined ? "unknown" : (nameOf(uid) ?? `uid ${uid}`);
  const caller = environment.SUDO_USER;
  // Only root cannot be pretended: any other user can set the variable.
  return uid === 0 && caller !== undefined && caller !== "root" ? `${name} (sudo: ${caller})` : name;
}

/** Looks a user up in the system's list. Bun's `userInfo` returns the variable USER, which the user can set. */
function nameOf(uid: number): string | undefined {
  try {
    const users = readFileSync("/etc/passwd", "utf8").split("\n");
    return users.map((line) => line.split(":")).find(([, , id]) => id === String(uid))?.[0];
  } catch {
    // A container may have no list of users.
    return undefined;
  }
}
