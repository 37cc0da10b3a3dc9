import { computed, effect, signal } from "@preact/signals";

export type Theme = "system" | "light" | "dark";
export type InterfaceLanguage = "en" | "hi";

const THEME = "shruti-theme";
const LANGUAGE = "shruti-language";
const TYPING_PAUSE = "shruti-pause-while-typing";

/** Reads a choice that the browser keeps; undefined where it keeps none. */
function read(name: string): string | undefined {
  try {
    return localStorage.getItem(name) ?? undefined;
  } catch {
    return undefined;
  }
}

function write(name: string, value: string): void {
  try {
    localStorage.setItem(name, value);
  } catch {
    // The choice then lives as long as the page.
  }
}

const oneOf = <T extends string>(value: string | undefined, values: readonly T[]): T | undefined =>
  values.find((one) => one === value);

function browsersLanguage(): InterfaceLanguage {
  const known = navigator.languages.map((tag) =>
    oneOf<InterfaceLanguage>(tag.slice(0, 2).toLowerCase(), ["en", "hi"]),
  );
  return known.find((tag) => tag !== undefined) ?? "en";
}

/** Light, dark, or what the system has. */
export const theme = signal<Theme>(oneOf(read(THEME), ["light", "dark"]) ?? "system");
const darkSystem = matchMedia("(prefers-color-scheme: dark)");
const isSystemDark = signal(darkSystem.matches);
darkSystem.addEventListener("change", ({ matches }) => {
  isSystemDark.value = matches;
});
/** Whether the page is dark now. What is drawn with colours of its own is drawn again when this changes. */
export const isDark = computed(() =>
  theme.value === "system" ? isSystemDark.value : theme.value === "dark",
);
/** Language of the interface. */
export const interfaceLanguage = signal<InterfaceLanguage>(
  oneOf(read(LANGUAGE), ["en", "hi"]) ?? browsersLanguage(),
);

/** Whether the sound is silent while a person types a correction. */
export const pausesWhileTyping = signal(read(TYPING_PAUSE) === "yes");

effect(() => write(TYPING_PAUSE, pausesWhileTyping.value ? "yes" : "no"));
effect(() => {
  document.documentElement.dataset.theme = theme.value;
  write(THEME, theme.value);
});
effect(() => {
  document.documentElement.lang = interfaceLanguage.value;
  write(LANGUAGE, interfaceLanguage.value);
});
