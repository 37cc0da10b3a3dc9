import type { InstalledModel } from "../../domain/model.ts";
import { describedFiles, modelHashOf } from "../../domain/model-hash.ts";
import { errorMessage } from "../../lib/error-message.ts";

/** A model whose files this worker has read and compared with the manifest. */
export type OfferedModel = InstalledModel & { hash: string };

/** The models that this worker offers to the fleet. */
export type OfferedModels = {
  find(hash: string): OfferedModel | undefined;
  list(): { hash: string; id: string; isUsable: boolean }[];
  /** Looks for models that were added or removed. New files are hashed before they are offered. */
  refresh(): Promise<void>;
  /** Stops offering a model that could not be loaded, for a while. */
  distrust(hash: string, reason: string): void;
};

export type OfferedModelsDeps = {
  installed: () => InstalledModel[];
  sha256OfFile: (path: string) => Promise<string>;
  onProblem: (model: string, reason: string) => void;
};

/** Memory may be free again by then, or an admin may have repaired the GPU's driver. */
const DISTRUSTED_MS = 60_000;

export function createOfferedModels({
  installed,
  sha256OfFile,
  onProblem,
}: OfferedModelsDeps): OfferedModels {
  let offered = new Map<string, OfferedModel>();
  /** What was found about files, by their paths and the hashes of the manifest. */
  const checked = new Map<string, boolean>();
  const distrusted = new Map<string, number>();

  const isUsable = (hash: string) => performance.now() >= (distrusted.get(hash) ?? 0);

  async function isAsDescribed(model: InstalledModel): Promise<boolean> {
    const key = JSON.stringify([model.sha256, model.parts ?? [], model.files]);
    const known = checked.get(key);
    if (known !== undefined) return known;
    const problem = await problemOf(model, sha256OfFile);
    if (problem !== undefined) onProblem(model.id, problem);
    checked.set(key, problem === undefined);
    return problem === undefined;
  }

  return {
    find: (hash) => offered.get(hash),
    list: () => [...offered].map(([hash, { id }]) => ({ hash, id, isUsable: isUsable(hash) })),
    async refresh() {
      const found = new Map<string, OfferedModel>();
      for (const model of installed()) {
        const hash = modelHashOf(model);
        if (hash !== undefined && (await isAsDescribed(model))) found.set(hash, { ...model, hash });
      }
      offered = found;
    },
    distrust(hash, reason) {
      distrusted.set(hash, performance.now() + DISTRUSTED_MS);
      onProblem(offered.get(hash)?.id ?? hash, reason);
    },
  };
}

/** Says why a model's files are not those of its manifest; undefined: they are. */
async function problemOf(
  model: InstalledModel,
  sha256OfFile: OfferedModelsDeps["sha256OfFile"],
): Promise<string | undefined> {
  try {
    for (const { role, path, sha256 } of describedFiles(model)) {
      const found = await sha256OfFile(path);
      if (found !== sha256) return `the SHA-256 of its ${role} is ${found}, and not that of its manifest`;
    }
    return undefined;
  } catch (error) {
    return errorMessage(error);
  }
}
