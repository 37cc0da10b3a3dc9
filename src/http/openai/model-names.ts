import type { Config } from "../../config/schema.ts";
import { noSuchModel } from "../../services/models/model-routes.ts";
import type { ModelService } from "../../services/models/models.ts";
import type { OpenAiModel } from "./schemas.ts";

type Aliases = Config["openai"]["model_aliases"];

/** The names that requests can give as `model`. */
export type ModelNames = {
  /** Lists installed models, the default first, then aliases of models that exist. Patterns are not listed. */
  list(): string[];
  /**
   * Returns the ID of the model that a request names; undefined: the model that serves the request's language.
   *
   * @throws AppError `invalid_request`, detail `model`, which clients of this layer see as `model_not_found`
   */
  idOf(name: string | undefined): string | undefined;
  /** Returns a name that `list` has, or that a pattern covers. @throws AppError as `idOf` */
  require(name: string): string;
};

/** `whisper-1=large-v3` names a model, `whisper-1` the one that serves the language. `*` matches any characters. */
type Alias = { name: string; id: string | undefined };

function aliasOf(item: string): Alias {
  const at = item.indexOf("=");
  return at < 0 ? { name: item, id: undefined } : { name: item.slice(0, at), id: item.slice(at + 1) };
}

const isPattern = ({ name }: Alias) => name.includes("*");

/** Compares a name with a pattern, in time that grows with their lengths alone. */
function covers(pattern: string, name: string): boolean {
  const [first = "", ...others] = pattern.split("*");
  const last = others.pop();
  if (last === undefined) return name === pattern;
  if (!name.startsWith(first)) return false;
  let at = first.length;
  for (const part of others) {
    const found = name.indexOf(part, at);
    if (found < 0) return false;
    at = found + part.length;
  }
  return at + last.length <= name.length && name.endsWith(last);
}

/** Reads the aliases. An alias goes before an installed model of its name; a pattern comes after both. */
export function createModelNames(
  models: Pick<ModelService, "list" | "findDefault">,
  items: Aliases,
): ModelNames {
  const aliases = items.map(aliasOf);
  // Of two aliases with one name the last counts.
  const exact = new Map(aliases.filter((alias) => !isPattern(alias)).map((alias) => [alias.name, alias]));
  const patterns = aliases.filter(isPattern);
  const installed = () => models.list().map(({ id }) => id);

  function isUsable({ id }: Alias, ids: readonly string[]): boolean {
    return id === undefined ? models.findDefault() !== undefined : ids.includes(id);
  }

  function listNames(ids: readonly string[]): string[] {
    const usable = [...exact.values()].filter((alias) => isUsable(alias, ids));
    return [...new Set([...ids, ...usable.map(({ name }) => name)])];
  }

  function refusal(name: string, ids: readonly string[]) {
    const covering = patterns.filter((pattern) => isUsable(pattern, ids)).map((pattern) => pattern.name);
    return noSuchModel(name, [...listNames(ids), ...covering]);
  }

  /** An installed model is an alias of itself. */
  function find(name: string, ids: readonly string[]): Alias | undefined {
    const alias = exact.get(name);
    if (alias) return alias;
    if (ids.includes(name)) return { name, id: name };
    return patterns.find((pattern) => covers(pattern.name, name));
  }

  return {
    list: () => listNames(installed()),
    idOf(name) {
      if (name === undefined || name === "") return undefined;
      const ids = installed();
      const alias = find(name, ids);
      if (!alias) throw refusal(name, ids);
      return alias.id;
    },
    require(name) {
      const ids = installed();
      const alias = find(name, ids);
      if (ids.includes(name) || (alias && isUsable(alias, ids))) return name;
      throw refusal(name, ids);
    },
  };
}

export function toModel(id: string): OpenAiModel {
  return { id, object: "model", created: 0, owned_by: "shruti" };
}
