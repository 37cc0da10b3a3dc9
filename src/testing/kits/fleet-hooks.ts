import { afterAll, afterEach, beforeAll } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type FleetWorld, openFleetWorld } from "./fleet-harness.ts";

/** What the tests of a file have in common: a fleet's files with its messaging server, and a folder for weights. */
export type FleetSetting = { world: FleetWorld; folder: string };

/** Making certificates and starting a server takes seconds on a busy machine. */
const START_WITHIN_MS = 60_000;

/**
 * Opens a fleet's world and a folder before the tests of a `describe`, and removes both after them.
 *
 * @param name part of the folder's name
 * @param prepare receives them before the first test
 * @returns a list: what a test adds to it is called after that test, the last one first
 */
export function setUpFleet(
  name: string,
  prepare: (setting: FleetSetting) => Promise<void> | void,
): (() => Promise<void> | void)[] {
  const open: (() => Promise<void> | void)[] = [];
  let folder: string | undefined;
  let world: FleetWorld | undefined;
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), `shruti-fleet-${name}-`));
    world = await openFleetWorld();
    await prepare({ world, folder });
  }, START_WITHIN_MS);
  afterEach(async () => {
    for (const close of open.splice(0).reverse()) await close();
  });
  afterAll(async () => {
    await world?.close();
    if (folder !== undefined) rmSync(folder, { recursive: true, force: true });
  });
  return open;
}
