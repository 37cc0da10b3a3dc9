import { join } from "node:path";
import type { Config } from "../config/schema.ts";
import { modelHashOf } from "../domain/model-hash.ts";
import type { FetchOptions } from "../fleet/worker/model-fetching.ts";
import type { ModelService } from "../services/models/models.ts";

/** Returns how models of a control plane come into the directory of models (`[fleet] fetch_models`). */
export function fetchingInto(config: Pick<Config, "fleet" | "storage">, models: ModelService): FetchOptions {
  return {
    folder: join(models.directory, `.fetching-${config.fleet.worker}`),
    maxBytes: config.fleet.fetch_models_max_bytes,
    reserveBytes: config.storage.reserve_bytes,
    installedBytes: () => models.list().reduce((sum, { bytes, embedded }) => sum + (embedded ? 0 : bytes), 0),
    async install({ manifestPath, path, sha256, id }) {
      const prepared = await models.prepare({ manifestPath, path });
      if (modelHashOf(prepared.manifest) !== sha256 || prepared.manifest.id !== id) {
        throw new Error("its manifest describes other weights");
      }
      // The worker would offer it if its files were right.
      if (prepared.isThere) throw new Error("it is installed, and its files have changed since: remove it");
      await models.addPrepared(prepared);
    },
  };
}
