import type { Log } from "../lib/log.ts";
import type { ModelService } from "../services/models/models.ts";

/** Creates a function that logs what keeps the config's draft model from being of use, each time that this has changed. */
export function createDraftLog(models: Pick<ModelService, "draftUse">, log: Pick<Log, "warn" | "info">) {
  let noted = "";
  return (): void => {
    const use = models.draftUse();
    const said = JSON.stringify(use ?? null);
    if (said === noted) return;
    noted = said;
    if (!use) return;
    const { id: draft, drafted, problems } = use;
    if (problems.length > 0) log.warn({ draft, problems }, "a draft model cannot be used everywhere");
    if (drafted.length > 0) log.info({ draft, models: drafted }, "a draft model writes ahead");
  };
}
