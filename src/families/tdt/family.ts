import { fileOf, modelLanguageOf } from "../../domain/model.ts";
import type { ModelFamily } from "../contract.ts";
import { describeTdt, givenGguf } from "./adding.ts";
import { checkTdtFile } from "./model-file.ts";
import { tdtNeeds } from "./needs.ts";

const NAME = "nemo_tdt";

/** The cost of attention grows with the square of the length, and counts little up to this. */
const LINEAR_MS = 10_000;
/** Some models were not trained with longer audio. */
const MAX_CHUNK_MS = 20_000;

/**
 * Probabilities of tokens are those of the CTC models' kind: near 1 for what the model knows. No model of real size was at
 * hand, so the floor is that of the CTC families.
 */
const UNKNOWN_BELOW = 0.6;

/** TDT and RNN-T models of NeMo, such as Parakeet. They are deterministic: the same audio gives the same text. */
export const nemoTdtFamily: ModelFamily = {
  name: NAME,
  title: "NeMo TDT",
  engine: "ggml-tdt",
  keys: { tuning: "tdt", decoding: {}, languages: {} },
  mayUseGpu: false,
  canQuantise: true,
  imports: /\.nemo$/i,
  canTimeWords: () => true,
  given: givenGguf,
  check: (files) => void checkTdtFile(fileOf(files, "weights")),
  describe: (files, said) => describeTdt(NAME, files, said),
  needs: tdtNeeds,
  trial: { hasLanguageParts: false, knowsEnglish: false },
  windowMs: LINEAR_MS,
  maxChunkMs: MAX_CHUNK_MS,
  normalizesChunks: true,
  unknownBelow: UNKNOWN_BELOW,
  settingsFor: ({ language }, model) => ({ language: modelLanguageOf(model, language) }),
  singlePass: (settings) => settings,
};
