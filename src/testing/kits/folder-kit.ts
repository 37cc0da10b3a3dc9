import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { FOLDER_FIELDS, type FolderSettings } from "../../config/folder-fields.ts";
import type { Config } from "../../config/schema.ts";
import { createFolderService, type FolderDeps, type FolderService } from "../../intake/folders/folders.ts";
import { silentLog } from "../../lib/log.ts";
import { countWatchedFiles } from "../../store/watched-files.ts";
import { openTestApp, type TestAppOptions } from "./open-test-app.ts";
import { type Script, scriptedAudio } from "./scripted-engine.ts";

const DEFAULTS = Object.fromEntries(
  Object.entries(FOLDER_FIELDS).map(([name, field]) => [name, field.default]),
) as unknown as FolderSettings;
const PAUSES = { tick: 20, firstRetry: 20, longestRetry: 100 };

export type FolderTest = Awaited<ReturnType<typeof openFolderTest>>;

/** Opens a test app and a service of watched folders with short pauses, which tests start and stop. */
export async function openFolderTest(options: TestAppOptions = {}) {
  const test = await openTestApp({ config: { limits: {} }, ...options });
  const root = mkdtempSync(join(tmpdir(), "shruti-folders-"));
  const services: FolderService[] = [];

  return {
    ...test,
    root,
    /** Returns settings with quick looks. */
    settings: (given: Partial<FolderSettings> = {}): FolderSettings => ({
      ...DEFAULTS,
      ...{ path: join(root, "in"), project: test.project.id, language: "hi" },
      ...{ rest_seconds: 0.06, poll_seconds: 0.02, ...given },
    }),
    /** Starts a service. Its config can be changed while it runs. */
    start(folder: FolderSettings[], changes: Partial<FolderDeps> = {}) {
      for (const each of folder) {
        for (const path of [each.path, each.results, each.failures, each.move_to])
          if (path !== "") mkdirSync(path, { recursive: true });
      }
      const config: Config = { ...test.config, intake: { ...test.config.intake, folder } };
      const { database, clock } = test.app;
      const { uploads, transcriptions } = test.app.services;
      const deps = { database, clock, config, log: silentLog, uploads, transcriptions, ...changes };
      const service = createFolderService(deps, PAUSES);
      services.push(service);
      service.start();
      return { service, config };
    },
    /** Writes a recording into a folder below the root. */
    put(name: string, script: Script | string = { seconds: 3, text: name }): void {
      const path = join(root, name);
      mkdirSync(dirname(path), { recursive: true });
      writeFileSync(path, typeof script === "string" ? script : scriptedAudio(script));
    },
    read: (name: string) => readFileSync(join(root, name), "utf8"),
    has: (name: string) => existsSync(join(root, name)),
    names: (folder: string) => readdirSync(join(root, folder), { recursive: true, encoding: "utf8" }).sort(),
    /** Counts files by state. */
    counts: (): Record<string, number> => {
      const sums: Record<string, number> = {};
      for (const { state, count } of countWatchedFiles(test.app.database.store))
        sums[state] = (sums[state] ?? 0) + count;
      return sums;
    },
    /** Counts charges of the ledger. */
    charges: () =>
      test.app.database.sqlite
        .query<{ n: number }, []>("SELECT count(*) AS n FROM ledger WHERE kind = 'charge'")
        .get()?.n ?? 0,
    async until(isTrue: () => boolean, what = isTrue.toString()): Promise<void> {
      const endMs = performance.now() + 15_000;
      while (!isTrue()) {
        if (performance.now() > endMs) throw new Error(`it did not happen: ${what}`);
        await Bun.sleep(10);
      }
    },
    async close(): Promise<void> {
      for (const service of services) await service.stop();
      await test.close();
      rmSync(root, { recursive: true, force: true });
    },
  };
}
