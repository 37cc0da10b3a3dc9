/** What `config.yaml` of a model says. */
export type PcsConfig = {
  /** Codes of the languages that it was made for. */
  languages: string[];
  /** Tokens that the net reads at once, those that begin and end the text among them. */
  maxLength: number;
  /** Labels of marks before and behind a token by their numbers; undefined: no mark. */
  preLabels: (string | undefined)[];
  postLabels: (string | undefined)[];
};

const MAX_LABELS = 256;
const MAX_LABEL_LENGTH = 32;
const LEAST_LENGTH = 16;
const MOST_LENGTH = 4_096;
const NULL_LABEL = "<NULL>";
/** Codes are printed on terminals. */
const LANGUAGE = /^[A-Za-z0-9_-]+$/;

/**
 * Reads `config.yaml` as the package `punctuators` publishes it.
 *
 * @throws Error with the setting at fault
 */
export function readPcsConfig(text: string): PcsConfig {
  const config = parsed(text);
  if (typeof config !== "object" || config === null) throw new Error("it has no settings");
  const at = (name: string): unknown => (config as Record<string, unknown>)[name];
  const maxLength = at("max_length");
  if (
    typeof maxLength !== "number" ||
    !Number.isInteger(maxLength) ||
    maxLength < LEAST_LENGTH ||
    maxLength > MOST_LENGTH
  )
    throw new Error(`max_length is not a whole number from ${LEAST_LENGTH} to ${MOST_LENGTH}`);
  const nothing = at("null_token") ?? NULL_LABEL;
  const labels = (name: string) =>
    textsOf(at(name), name).map((label) => (label === nothing ? undefined : label));
  const languages = textsOf(at("languages"), "languages");
  if (!languages.every((code) => LANGUAGE.test(code)))
    throw new Error("languages has something that is no code");
  return { languages, maxLength, preLabels: labels("pre_labels"), postLabels: labels("post_labels") };
}

function parsed(text: string): unknown {
  try {
    return Bun.YAML.parse(text);
  } catch (error) {
    throw new Error("it is not valid YAML", { cause: error });
  }
}

function textsOf(value: unknown, name: string): string[] {
  const isList =
    Array.isArray(value) &&
    value.length > 0 &&
    value.length <= MAX_LABELS &&
    value.every((each) => typeof each === "string" && each.length <= MAX_LABEL_LENGTH);
  if (!isList) throw new Error(`${name} is not a list of short texts`);
  return value as string[];
}
