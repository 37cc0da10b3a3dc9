import { computed } from "@preact/signals";
import { route } from "../lib/address.ts";
import { interfaceLanguage } from "../lib/preferences.ts";
import { en, type FailureWords, type Words } from "./en.ts";
import { hi } from "./hi.ts";

const TABLES: Record<"en" | "hi", Words> = { en, hi };

/** The texts in the chosen language. */
export const words = computed<Words>(() => TABLES[interfaceLanguage.value]);

/**
 * The words for a failure's code. Some codes mean something else to an admin than to a person with a recording.
 *
 * @param detail as the server gives it: for `forbidden` the scope that the key lacks; otherwise the thing is another project's
 */
export function failureWords(code: string, detail?: string): FailureWords {
  const { failures, admin, rightNeeded } = words.value;
  const isAdmin = route.value[0] === "admin";
  const found =
    (isAdmin ? wordsOf(admin.failures, code) : undefined) ?? wordsOf(failures, code) ?? failures.other;
  if (isAdmin || code !== "forbidden") return found;
  const [scope, right] = Object.entries(admin.scopeHelp).find(([one]) => one === detail) ?? [];
  if (scope === undefined || right === undefined) return failures.foreign;
  return { ...found, advice: rightNeeded(right, scope) };
}

function wordsOf(table: Partial<Record<string, FailureWords>>, code: string): FailureWords | undefined {
  return table[code];
}
