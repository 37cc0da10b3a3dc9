import { interfaceLanguage } from "../lib/preferences.ts";
import { words } from "./words.ts";

const LOCALES = { en: "en-IN", hi: "hi-IN-u-nu-latn" } as const;
const locale = () => LOCALES[interfaceLanguage.value];

/** Rupees with paise, grouped as in India: ₹1,23,456.50. */
export function money(paise: number): string {
  const format = new Intl.NumberFormat(locale(), { style: "currency", currency: "INR" });
  return format.format(paise / 100);
}

/** A whole number, grouped as in India. */
export const count = (value: number): string => new Intl.NumberFormat(locale()).format(value);

export const percent = (share: number): string => `${Math.floor(share * 100)} %`;

export function bytes(value: number): string {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let size = value;
  let unit = 0;
  while (size >= 1000 && unit < units.length - 1) {
    size /= 1000;
    unit++;
  }
  return `${unit === 0 || size >= 100 ? Math.round(size) : size.toFixed(1)} ${units[unit]}`;
}

/** A place in a recording: 0:04, 12:31, 2:05:09. */
export function clock(seconds: number): string {
  const whole = Math.floor(seconds);
  const two = (value: number) => String(value).padStart(2, "0");
  const hours = Math.floor(whole / 3600);
  const minutes = Math.floor((whole % 3600) / 60);
  return hours > 0 ? `${hours}:${two(minutes)}:${two(whole % 60)}` : `${minutes}:${two(whole % 60)}`;
}

/** A length as people say it: 2 h 5 min, 3 min 20 s, 4 s. */
export function length(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds));
  const t = words.value.units;
  if (whole < 60) return `${whole} ${t.seconds}`;
  const minutes = Math.floor(whole / 60);
  if (whole < 600 && whole % 60 > 0) return `${minutes} ${t.minutes} ${whole % 60} ${t.seconds}`;
  const rounded = Math.round(whole / 60);
  if (rounded < 60) return `${rounded} ${t.minutes}`;
  const rest = rounded % 60;
  const hours = `${Math.floor(rounded / 60)} ${t.hours}`;
  return rest === 0 ? hours : `${hours} ${rest} ${t.minutes}`;
}

/** How long ago something was, in words. */
export function ago(time: string | number, now: number): string {
  const seconds = Math.max(0, (now - new Date(time).getTime()) / 1000);
  if (seconds < 45) return words.value.justNow;
  const format = new Intl.RelativeTimeFormat(locale(), { numeric: "auto" });
  if (seconds < 2700) return format.format(-Math.max(1, Math.round(seconds / 60)), "minute");
  if (seconds < 79200) return format.format(-Math.max(1, Math.round(seconds / 3600)), "hour");
  if (seconds < 86400 * 7) return format.format(-Math.max(1, Math.round(seconds / 86400)), "day");
  return day(time);
}

export const day = (time: string | number): string =>
  new Intl.DateTimeFormat(locale(), { day: "numeric", month: "short", year: "numeric" }).format(
    new Date(time),
  );

/** Date and time to the second. */
export const moment = (time: string | number): string =>
  new Intl.DateTimeFormat(locale(), { dateStyle: "medium", timeStyle: "medium" }).format(new Date(time));

const NATIVE = new Map<string, Intl.DisplayNames>();

/** The name of a language, in the interface's language. */
export function languageName(code: string, fallback = code): string {
  try {
    const names = NATIVE.get(locale()) ?? new Intl.DisplayNames([locale()], { type: "language" });
    NATIVE.set(locale(), names);
    return names.of(code) ?? fallback;
  } catch {
    return fallback;
  }
}

/** Returns the name of what a text can be written in: `latin`, or a code of ISO 15924 in lower case. */
export function scriptName(script: string): string {
  const named = words.value.scripts[script];
  if (named !== undefined) return named;
  const code = script.charAt(0).toUpperCase() + script.slice(1);
  try {
    return new Intl.DisplayNames([locale()], { type: "script" }).of(code) ?? code;
  } catch {
    return code;
  }
}

const RIGHT_TO_LEFT = new Set(["ur", "sd", "ks", "ar", "fa"]);
const ARABIC_LETTERS = /\p{Script=Arabic}/u;

/** The direction of a segment. Sindhi and Kashmiri are also written in Devanagari, so the letters decide. */
export function directionOf(language: string, text: string): "rtl" | "ltr" {
  return RIGHT_TO_LEFT.has(language) && ARABIC_LETTERS.test(text) ? "rtl" : "ltr";
}
