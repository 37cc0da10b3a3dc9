import { type ErrorSource, PUBLISHED_MODELS, type PublishedModel } from "./published-models.ts";

/** A model that knows a language and fits, with what is published of it in that language. */
export type Candidate = {
  model: PublishedModel;
  /** Word error rate in per cent; left out: none was found. */
  rate?: number;
  source?: ErrorSource;
};

export type LanguageAdvice = {
  language: string;
  /** The lowest published error first; those without a figure last, in the order of the list. */
  candidates: Candidate[];
};

export type Advice = {
  languages: LanguageAdvice[];
  /** What to install: of the models that fit together those that know the most languages, with the fewest errors. */
  install: PublishedModel[];
  /** Asked languages that none of these knows. */
  unknown: string[];
};

/** Memory that a model needs at least: as measured here, else the size of its files. */
export const leastMemory = ({ measured, bytes }: PublishedModel): number => measured?.memoryBytes ?? bytes;

/**
 * Says which public models to install for some languages, from published figures alone.
 *
 * @param languages codes
 * @param memoryBytes what the models may need together
 */
export function adviseModels(
  languages: readonly string[],
  memoryBytes: number,
  models: readonly PublishedModel[] = PUBLISHED_MODELS,
): Advice {
  const fitting = models.filter((model) => leastMemory(model) <= memoryBytes);
  const advice = languages.map((language) => ({ language, candidates: candidatesFor(language, fitting) }));
  const known = advice.filter(({ candidates }) => candidates.length > 0);
  return {
    languages: advice,
    install: bestTogether(known, memoryBytes),
    unknown: advice.flatMap(({ language, candidates }) => (candidates.length > 0 ? [] : [language])),
  };
}

/** Goes after all rates. */
const NO_RATE = 1_000;

/** A model that is twice as large must make this share of the errors, or fewer, to go before the smaller one. */
const ERRORS_OF_TWICE_THE_SIZE = 0.9;

/**
 * Ranks a model for a first choice, by its published errors and by its size, which says how long it is fetched and how fast it
 * is: one of twice the size for hardly fewer errors is for those who ask for it. For a language without a figure, that
 * over all languages counts.
 *
 * @returns the lowest is the best; undefined: no figure was found
 */
export function firstChoiceCost(
  { errors, overallRate, bytes }: Pick<PublishedModel, "errors" | "overallRate" | "bytes">,
  language: string,
): number | undefined {
  const rate = errors.find(({ rates }) => rates[language] !== undefined)?.rates[language] ?? overallRate;
  return rate === undefined ? undefined : rate * (bytes / 1e9) ** -Math.log2(ERRORS_OF_TWICE_THE_SIZE);
}

function candidatesFor(language: string, models: readonly PublishedModel[]): Candidate[] {
  const found = models
    .filter((model) => model.languages.includes(language))
    .map((model): Candidate => {
      const errors = model.errors.find(({ rates }) => rates[language] !== undefined);
      const rate = errors?.rates[language];
      return { model, ...(errors && rate !== undefined ? { rate, source: errors.source } : {}) };
    });
  return found.sort((a, b) => (a.rate ?? NO_RATE) - (b.rate ?? NO_RATE));
}

/** Chooses the models that fit together, by their languages, then by their errors, then by their memory. */
function bestTogether(known: readonly LanguageAdvice[], memoryBytes: number): PublishedModel[] {
  const models = [...new Set(known.flatMap(({ candidates }) => candidates.map(({ model }) => model)))];
  let best = { models: [] as PublishedModel[], unknown: known.length, errors: 0, memory: 0 };
  // A list of this length has few sets.
  for (let set = 1; set < 2 ** models.length; set++) {
    const chosen = models.filter((_, at) => set & (1 << at));
    const memory = chosen.reduce((sum, model) => sum + leastMemory(model), 0);
    if (memory > memoryBytes) continue;
    const costs = known.map(({ candidates }) => costOf(candidates, chosen));
    const unknown = costs.filter((cost) => cost === undefined).length;
    const errors = costs.reduce((sum: number, cost) => sum + (cost ?? 0), 0);
    const difference = unknown - best.unknown || errors - best.errors || memory - best.memory;
    if (difference < 0) best = { models: chosen, unknown, errors, memory };
  }
  return best.models;
}

/** The error rate of the first candidate that is chosen; without a figure its place counts. Undefined: none is chosen. */
function costOf(candidates: readonly Candidate[], chosen: readonly PublishedModel[]): number | undefined {
  const place = candidates.findIndex(({ model }) => chosen.includes(model));
  return place < 0 ? undefined : (candidates[place]?.rate ?? NO_RATE + place);
}
