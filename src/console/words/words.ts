import { computed } from "@preact/signals";
import { route } from "../lib/address.ts";
import { interfaceLanguage } from "../lib/preferences.ts";
import { en, type FailureWords, type Words } from "./en.ts";
import { hi } from "./hi.ts";

const TABLES: Record<"en" | "hi", Words> = { en, hi };

/** The texts in the chosen language. */
export const words = computed<Words>(() => TABLES[interfaceLanguage.value]);

/** The words for a failure's code. Some codes mean something else to an admin than to a person with a recording. */
export function failureWords(code: string): FailureWords {
  const { failures, admin } = words.value;
  const isAdmin = route.value[0] === "admin";
  return (isAdmin ? admin.failures[code] : undefined) ?? failures[code] ?? (failures.other as FailureWords);
}
