import { existsSync, readFileSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { writeDurablyNow } from "../../lib/durable-files.ts";
import { FLEET } from "./backup-format.ts";

/**
 * The workers of a fleet that a restore holds back, because it is not known whether they were removed after the backup: they
 * are in a list of their own, and the control plane answers only those in its list.
 */

export const WORKERS = `${FLEET}workers.json`;
const HELD = `${FLEET}workers-held.json`;
const MODE = 0o600;

type Worker = { name: string };

/** Holds all workers of the list back. @returns how many @throws the system's error */
export function holdWorkers(dataDir: string): number {
  const path = join(dataDir, WORKERS);
  const workers = read(path);
  if (workers.length === 0) return 0;
  renameSync(path, join(dataDir, HELD));
  replace(path, []);
  return workers.length;
}

/** Accepts the workers again that are held, unless there are newer ones of their names. @returns their names */
export function releaseWorkers(dataDir: string): string[] {
  const held = read(join(dataDir, HELD));
  if (held.length === 0) return [];
  const workers = read(join(dataDir, WORKERS));
  const released = held.filter(({ name }) => !workers.some((worker) => worker.name === name));
  replace(join(dataDir, WORKERS), [...workers, ...released]);
  rmSync(join(dataDir, HELD), { force: true });
  return released.map(({ name }) => name);
}

/** Takes workers out of both lists, because they were removed after the backup. @returns the names of those that were there */
export function removeWorkers(dataDir: string, names: readonly string[]): string[] {
  const removed = new Set<string>();
  for (const path of [WORKERS, HELD].map((name) => join(dataDir, name))) {
    const workers = read(path);
    const left = workers.filter(({ name }) => !names.includes(name));
    if (left.length === workers.length) continue;
    for (const { name } of workers) if (names.includes(name)) removed.add(name);
    replace(path, left);
  }
  return [...removed];
}

function read(path: string): Worker[] {
  if (!existsSync(path)) return [];
  const list: unknown = JSON.parse(readFileSync(path, "utf8"));
  return Array.isArray(list) ? (list as Worker[]) : [];
}

function replace(path: string, workers: readonly Worker[]): void {
  writeDurablyNow(path, `${JSON.stringify(workers, null, 2)}\n`, MODE);
}
