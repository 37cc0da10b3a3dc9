/** Says what is wrong with a value of a manifest, as the end of a sentence that begins with its key; undefined: nothing. */
export type Check = (value: unknown) => string | undefined;

export const trueOrFalse: Check = (value) =>
  typeof value === "boolean" ? undefined : "must be true or false";

/** Accepts a text of one line, of at most 1,000 characters. */
export const text: Check = (value) =>
  typeof value === "string" && value.trim() !== "" && value.length <= 1000 && !/\p{Cc}/u.test(value)
    ? undefined
    : "must be a text of one line";

/** @param words what the pattern accepts, for people */
export const matching =
  (pattern: RegExp, words: string): Check =>
  (value) =>
    typeof value === "string" && pattern.test(value) ? undefined : `must be ${words}`;

/** Accepts numbers within bounds. TOML's whole numbers may be `bigint`. */
export const within =
  (min: number, max: number, isWhole: boolean): Check =>
  (value) => {
    const number = typeof value === "bigint" ? Number(value) : value;
    const isRight = typeof number === "number" && number >= min && number <= max;
    if (isRight && (!isWhole || Number.isInteger(number))) return undefined;
    return `must be a ${isWhole ? "whole " : ""}number from ${min} to ${max}`;
  };

export const oneOf =
  (names: readonly string[]): Check =>
  (value) =>
    names.some((name) => name === value) ? undefined : `must be one of ${names.join(", ")}`;
