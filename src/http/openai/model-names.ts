import type { Config } from "../../config/schema.ts";
import { noSuchModel } from "../../services/models/model-routes.ts";
import type { ModelService } from "../../services/models/models.ts";
import type { OpenAiModel } from "./schemas.ts";

type Aliases = Config["openai"]["model_aliases"];

/** `whisper-1=large-v3` names a model, `whisper-1` the default model. */
function aliasesOf(items: Aliases): Map<string, string | undefined> {
  return new Map(
    items.map((item) => {
      const at = item.indexOf("=");
      return at < 0 ? [item, undefined] : [item.slice(0, at), item.slice(at + 1)];
    }),
  );
}

/** Returns the ID of the model that a request names; undefined: the default model. */
export function modelIdOf(name: string | undefined, items: Aliases): string | undefined {
  if (name === undefined || name === "") return undefined;
  const aliases = aliasesOf(items);
  return aliases.has(name) ? aliases.get(name) : name;
}

/** Lists the names that requests can give: installed models, the default first, then aliases of models that exist. */
export function modelNames(models: ModelService, items: Aliases): string[] {
  const ids = models.list().map(({ id }) => id);
  const hasDefault = models.findDefault() !== undefined;
  const usable = [...aliasesOf(items)].filter(([, id]) => (id === undefined ? hasDefault : ids.includes(id)));
  return [...new Set([...ids, ...usable.map(([name]) => name)])];
}

export function toModel(id: string): OpenAiModel {
  return { id, object: "model", created: 0, owned_by: "shruti" };
}

/** @throws AppError `invalid_request`, detail `model`, which clients of this layer see as `model_not_found` */
export function requireName(names: readonly string[], id: string): string {
  if (names.includes(id)) return id;
  throw noSuchModel(id, names);
}
