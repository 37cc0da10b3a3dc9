import type { ModelFiles } from "../domain/model.ts";
import type { GivenModel, ModelFamily } from "./contract.ts";
import { indicCtcFamily, nemoCtcFamily, omnilingualCtcFamily } from "./ctc/family.ts";
import { nemoTdtFamily } from "./tdt/family.ts";
import { whisperFamily } from "./whisper/family.ts";

/** The families of models that a program can run. */
export type Families = {
  list: readonly [ModelFamily, ...ModelFamily[]];
  /** The family of manifests that name none. */
  standard: ModelFamily;
  /** Finds a family by its name. @throws Error when there is none */
  of(name: string): ModelFamily;
  /** Finds the first family that has a model at a path, a whole one where there is one. */
  given(path: string): { family: ModelFamily; model: GivenModel } | undefined;
  /** Returns the path of the main file of a model (`FileRoles`). @throws Error when the model does not have it */
  mainFile(model: { family: string; files: ModelFiles }): string;
};

/** @param list the first is the family of manifests that name none */
export function createFamilies(list: readonly [ModelFamily, ...ModelFamily[]]): Families {
  const byName = new Map(list.map((family) => [family.name, family]));
  const of = (name: string): ModelFamily => {
    const family = byName.get(name);
    if (!family) throw new Error(`the model family ${name} is unknown`);
    return family;
  };
  return {
    list,
    standard: list[0],
    of,
    given(path) {
      const found = list.flatMap((family) => {
        const model = family.given(path);
        return model ? [{ family, model }] : [];
      });
      return found.find(({ model }) => !model.isPart) ?? found[0];
    },
    mainFile({ family, files }) {
      const role = of(family).roles?.main ?? "weights";
      const path = files[role];
      if (path === undefined) throw new Error(`the model has no file for its ${role}`);
      return path;
    },
  };
}

/** The families of this program, one line each. */
export const FAMILIES: Families = createFamilies([
  whisperFamily,
  nemoCtcFamily,
  omnilingualCtcFamily,
  nemoTdtFamily,
  indicCtcFamily,
]);
