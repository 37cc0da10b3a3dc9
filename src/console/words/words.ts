import { computed } from "@preact/signals";
import { interfaceLanguage } from "../lib/preferences.ts";
import { en, type FailureWords, type Words } from "./en.ts";
import { hi } from "./hi.ts";

const TABLES: Record<"en" | "hi", Words> = { en, hi };

/** The texts in the chosen language. */
export const words = computed<Words>(() => TABLES[interfaceLanguage.value]);

/** The words for a failure's code. */
export function failureWords(code: string): FailureWords {
  const { failures } = words.value;
  return failures[code] ?? (failures.other as FailureWords);
}
