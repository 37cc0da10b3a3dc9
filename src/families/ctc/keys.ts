import type { ModelDecoding, TokenSpan } from "../../domain/model.ts";
import { oneOf } from "../checks.ts";
import type { FamilyKeys } from "../contract.ts";
import { CTC_FEATURES, type CtcFeatures } from "./settings.ts";

/** Settings of recognition for particular CTC models. */
export type CtcTuning = {
  /** Left out: `nemo`. */
  features?: CtcFeatures;
};

/** Returns the settings that a manifest has for CTC models. */
export const ctcTuning = ({ tuning }: ModelDecoding): CtcTuning => tuning?.ctc ?? {};

/** Largest number of a token. */
const MAX_TOKEN = 9_999_999;

/** Reads first and last token, in this order; undefined for anything else. */
function toSpan(value: unknown): TokenSpan | undefined {
  if (!Array.isArray(value) || value.length !== 2) return undefined;
  const [first, last] = value.map(Number);
  const isToken = (number: number | undefined) =>
    number !== undefined && Number.isInteger(number) && number >= 0 && number <= MAX_TOKEN;
  if (first === undefined || last === undefined || !isToken(first) || !isToken(last) || first > last) {
    return undefined;
  }
  return { first, last };
}

export const ctcKeys: FamilyKeys = {
  tuning: "ctc",
  decoding: {
    features: {
      field: "features",
      check: oneOf(CTC_FEATURES),
      option: {
        flags: "--features <kind>",
        help: "of a CTC model: how its features are computed",
        choices: CTC_FEATURES,
      },
    },
  },
  languages: {
    token_span: {
      field: "tokenSpan",
      check: (value) => (toSpan(value) ? undefined : "must be the numbers of its first and last token"),
      read: toSpan,
      write: (value) => {
        const { first, last } = value as TokenSpan;
        return [first, last];
      },
    },
  },
};
