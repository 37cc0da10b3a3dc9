import { useSignal } from "@preact/signals";
import { interfaceLanguage, type Theme, theme } from "../lib/preferences.ts";
import { words } from "../words/words.ts";

const THEMES: readonly Theme[] = ["system", "light", "dark"];

/** Language of the page, and its colours. */
export function PreferenceFields() {
  const t = words.value;
  // The letters of this one word are 50 kB. A page in English loads them when a person goes to the choice.
  const isNear = useSignal(false);
  const comeNear = () => {
    isNear.value = true;
  };
  const hasLetters = isNear.value || interfaceLanguage.value === "hi";
  return (
    <div class="preferences">
      <label>
        <span class="unseen">{t.languageOfInterface}</span>
        <select
          value={interfaceLanguage.value}
          onFocus={comeNear}
          onPointerEnter={comeNear}
          onChange={({ currentTarget }) => {
            interfaceLanguage.value = currentTarget.value === "hi" ? "hi" : "en";
          }}
        >
          <option value="en" lang="en">
            English
          </option>
          <option value="hi" lang={hasLetters ? "hi" : "en"}>
            {hasLetters ? "हिन्दी" : "Hindi"}
          </option>
        </select>
      </label>
      <label>
        <span class="unseen">{t.theme}</span>
        <select
          value={theme.value}
          onChange={({ currentTarget }) => {
            theme.value = THEMES.find((one) => one === currentTarget.value) ?? "system";
          }}
        >
          {THEMES.map((one) => (
            <option key={one} value={one}>
              {t.themes[one]}
            </option>
          ))}
        </select>
      </label>
    </div>
  );
}
