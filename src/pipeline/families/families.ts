import type { ModelFamilyName } from "../../domain/model.ts";
import { nemoCtcFamily, omnilingualCtcFamily } from "./ctc.ts";
import type { ModelFamily } from "./family.ts";
import { whisperFamily } from "./whisper.ts";

const FAMILIES: Record<ModelFamilyName, ModelFamily> = {
  whisper: whisperFamily,
  nemo_ctc: nemoCtcFamily,
  omnilingual_ctc: omnilingualCtcFamily,
};

/** Returns what the models of a family have in common. */
export const familyOf = (name: ModelFamilyName): ModelFamily => FAMILIES[name];
