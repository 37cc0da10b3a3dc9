import { accessSync, constants, statSync } from "node:fs";
import { resolve } from "node:path";
import type { FolderSettings } from "../../config/folder-fields.ts";
import type { Config } from "../../config/schema.ts";
import { reasonOf } from "../../lib/system-error.ts";

const { R_OK, W_OK, X_OK } = constants;

/**
 * Examines whether this user can do in each watched folder what its settings ask for. It changes nothing.
 *
 * @returns for each folder of `[[intake.folder]]` a sentence, and whether it is in order
 */
export function examineFolders({ intake }: Config): { ok: boolean; detail: string }[] {
  return intake.folder.map((settings) => {
    const problem = placesOf(settings)
      .map(([path, rights]) => problemOf(path, rights))
      .find((each) => each !== undefined);
    const { path, project } = settings;
    return problem === undefined
      ? { ok: true, detail: `${path} for the project ${project}` }
      : { ok: false, detail: problem };
  });
}

/** Lists the folders that a watched folder needs, and what must be allowed there. */
export function placesOf(settings: FolderSettings): [path: string, rights: number][] {
  const { path, results, failures, after, move_to } = settings;
  const writes = results === "" || after !== "keep";
  const others = [results, failures, after === "move" ? move_to : ""].filter((folder) => folder !== "");
  return [
    [resolve(path), writes ? R_OK | W_OK | X_OK : R_OK | X_OK],
    ...others.map((folder): [string, number] => [resolve(folder), W_OK | X_OK]),
  ];
}

function problemOf(path: string, rights: number): string | undefined {
  try {
    if (!statSync(path).isDirectory()) return `${path} is not a folder`;
    accessSync(path, rights);
    return undefined;
  } catch (error) {
    return `${path}: ${reasonOf(error)}`;
  }
}
