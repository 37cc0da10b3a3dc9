import { BENGALI } from "./languages/bn.ts";
import { ENGLISH } from "./languages/en.ts";
import { GUJARATI } from "./languages/gu.ts";
import { HINDI } from "./languages/hi.ts";
import { KANNADA } from "./languages/kn.ts";
import { MALAYALAM } from "./languages/ml.ts";
import { MARATHI } from "./languages/mr.ts";
import { PUNJABI } from "./languages/pa.ts";
import { TAMIL } from "./languages/ta.ts";
import { TELUGU } from "./languages/te.ts";
import type { WrittenTable } from "./types.ts";

/** The table of each language that can be written. Each is made ready when it is first asked for. */
export const TABLES: Readonly<Record<string, WrittenTable>> = {
  bn: BENGALI,
  en: ENGLISH,
  gu: GUJARATI,
  hi: HINDI,
  kn: KANNADA,
  ml: MALAYALAM,
  mr: MARATHI,
  pa: PUNJABI,
  ta: TAMIL,
  te: TELUGU,
};
