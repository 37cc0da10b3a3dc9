import type { ChunkExecutor } from "../../engine/executor.ts";
import type { Beat } from "../messages.ts";
import { queueOf, SKILLS, type SkillFlags } from "../skills.ts";
import type { OfferedModels } from "./offered-models.ts";
import type { Offer, PlaceKind } from "./pulling.ts";

/** How many chunks a worker takes at once: for each model as many as this machine recognizes without a fleet. */
export type WorkerPlaces = {
  /** Returns the places of the model with the most. */
  most(): number;
  /**
   * Returns the models whose chunks a place may take. Only chunks that no client waits for are bounded by model.
   *
   * @param skills also chunks that need one of these
   */
  offers(kind: Exclude<PlaceKind, "prepare">, skills: SkillFlags): Offer[];
  /** Describes the models for a beat. */
  describe(): Beat["models"];
};

/** @param ahead places beyond those that the executor computes */
export function createWorkerPlaces(
  models: Pick<OfferedModels, "find" | "list">,
  executor: Pick<ChunkExecutor, "capacity">,
  ahead: number,
): WorkerPlaces {
  const placesOf = (hash: string) => executor.capacity(models.find(hash) ?? { bytes: 0 }).chunks + ahead;
  return {
    most: () => Math.max(0, ...models.list().map(({ hash }) => placesOf(hash))),
    offers(kind, skills) {
      const usable = models.list().filter(({ isUsable }) => isUsable);
      return usable.flatMap(({ hash }) => {
        const offer = kind === "a" ? { hash, places: placesOf(hash) } : { hash };
        const wanted = SKILLS.filter((skill) => skills[skill]);
        return [offer, ...wanted.map((skill) => ({ ...offer, queue: queueOf(hash, skill) }))];
      });
    },
    describe: () =>
      models.list().map(({ hash: sha256, id, isUsable: usable }) => {
        return { sha256, id, usable, places: placesOf(sha256) };
      }),
  };
}
