import type { Model, TranscriptionCreate } from "../../http/wire/schemas.ts";

/** What a person chooses for a recording. */
export type Choices = {
  language: string;
  mode: "native" | "codemix" | "verbatim";
  /** Undefined: the server's choice for the language. */
  model: string | undefined;
  isDiarized: boolean;
  /** Undefined: the server finds the number. */
  speakers: number | undefined;
  channelMode: "mix" | "separate";
  /** The text is in English. Left out: in the language that is spoken. */
  isTranslated?: boolean;
  /** Left out: as they were said. */
  numerals?: "spoken" | "written";
  /** Left out: the script of the language. */
  script?: string;
};

const MS_PER_HOUR = 3_600_000;

/** A language that can be chosen, and what the models call it. */
export type LanguageChoice = { code: string; name: string };

/** Lists the languages of all models, or of one. */
export function languagesOf(models: readonly Model[], modelId: string | undefined): LanguageChoice[] {
  const found = new Map<string, string>();
  for (const { id, languages } of models) {
    if (modelId !== undefined && id !== modelId) continue;
    for (const { code, name } of languages) if (!found.has(code)) found.set(code, name);
  }
  return [...found].map(([code, name]) => ({ code, name }));
}

/** Returns the model that a request will use, by the rules of docs/decisions/models.md. */
export function modelFor(models: readonly Model[], { model, language }: Choices): Model | undefined {
  if (model !== undefined) return models.find(({ id }) => id === model);
  const speaks = (one: Model) => one.languages.some(({ code }) => code === language);
  return (
    models.find((one) => one.default_languages.includes(language)) ??
    models.find((one) => one.default && speaks(one)) ??
    models.find(speaks)
  );
}

/** Lists the modes of a language in a model. */
export function modesOf(model: Model | undefined, language: string): Choices["mode"][] {
  return model?.languages.find(({ code }) => code === language)?.modes ?? [];
}

/** Returns the forms of text of a language in a model; undefined: the server offers none but the usual one. */
export function formsOf(
  model: Model | undefined,
  language: string,
): { numerals: readonly string[]; scripts: readonly string[] } | undefined {
  const { numerals, scripts } = model?.languages.find(({ code }) => code === language) ?? {};
  return numerals && scripts ? { numerals, scripts } : undefined;
}

export const can = (model: Model | undefined, capability: keyof Model["capabilities"]): boolean =>
  model?.capabilities[capability] === "available";

/** Lists the modes that a text can have: a translation is in English, in which nothing is mixed. */
export function modesOfText(
  model: Model | undefined,
  { language, isTranslated }: Choices,
): Choices["mode"][] {
  return modesOf(model, language).filter((mode) => !isTranslated || mode !== "codemix");
}

/** Returns the language of the text that was chosen. */
export const textLanguageOf = ({ language, isTranslated }: Choices): string =>
  isTranslated ? "en" : language;

/** Changes choices so that the model offers all of them. */
export function fitted(models: readonly Model[], wanted: Choices): Choices {
  const languages = languagesOf(models, wanted.model);
  const language = languages.some(({ code }) => code === wanted.language)
    ? wanted.language
    : (languages[0]?.code ?? "");
  const model = modelFor(models, { ...wanted, language });
  const isTranslated = wanted.isTranslated === true && can(model, "task.translate");
  const chosen = { ...wanted, language, isTranslated };
  const modes = modesOfText(model, chosen);
  const forms = formsOf(model, textLanguageOf(chosen));
  const { numerals = "spoken", script = "native" } = wanted;
  return {
    ...chosen,
    numerals: forms?.numerals.includes(numerals) ? numerals : "spoken",
    script: forms?.scripts.includes(script) ? script : "native",
    mode: modes.includes(wanted.mode) ? wanted.mode : (modes[0] ?? "native"),
    isDiarized: wanted.isDiarized && can(model, "diarization"),
    channelMode: can(model, "channel_mode.separate") ? wanted.channelMode : "mix",
  };
}

/**
 * The charge of a recording, by the rule of docs/decisions/money.md.
 *
 * @param seconds its length
 * @param channels billed channels
 */
export function priceOf(pricePaisePerHour: number, seconds: number, channels: number): number {
  return Math.ceil((pricePaisePerHour * Math.round(seconds * 1000) * channels) / MS_PER_HOUR);
}

/** The body of the request that starts a transcription. */
export function requestOf(
  uploadId: string,
  choices: Choices,
  models: readonly Model[] = [],
): TranscriptionCreate {
  const { language, mode, model, isDiarized, speakers, channelMode, numerals, script } = choices;
  const isTranslated = choices.isTranslated === true;
  return {
    audio: { upload_id: uploadId },
    language,
    mode,
    channel_mode: channelMode,
    diarization: isDiarized && speakers !== undefined ? { speakers } : isDiarized,
    ...(model === undefined ? {} : { model }),
    // A server that does not offer them does not know the fields.
    ...(isTranslated ? { task: "translate" as const } : {}),
    ...(numerals === "written" ? { numerals } : {}),
    ...(script === undefined || script === "native" ? {} : { script }),
    ...(!isTranslated && can(modelFor(models, choices), "timestamps.word") ? { timestamps: "word" } : {}),
  };
}
