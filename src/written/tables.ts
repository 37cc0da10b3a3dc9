import { ASSAMESE } from "./languages/as.ts";
import { BENGALI } from "./languages/bn.ts";
import { BODO } from "./languages/brx.ts";
import { DOGRI } from "./languages/doi.ts";
import { ENGLISH } from "./languages/en.ts";
import { GUJARATI } from "./languages/gu.ts";
import { HINDI } from "./languages/hi.ts";
import { KANNADA } from "./languages/kn.ts";
import { KONKANI } from "./languages/kok.ts";
import { KASHMIRI } from "./languages/ks.ts";
import { MAITHILI } from "./languages/mai.ts";
import { MALAYALAM } from "./languages/ml.ts";
import { MANIPURI } from "./languages/mni.ts";
import { MARATHI } from "./languages/mr.ts";
import { NEPALI } from "./languages/ne.ts";
import { ODIA } from "./languages/or.ts";
import { PUNJABI } from "./languages/pa.ts";
import { SANSKRIT } from "./languages/sa.ts";
import { SANTALI } from "./languages/sat.ts";
import { SINDHI } from "./languages/sd.ts";
import { TAMIL } from "./languages/ta.ts";
import { TELUGU } from "./languages/te.ts";
import { URDU } from "./languages/ur.ts";
import type { WrittenTable } from "./types.ts";

/** The table of each language that can be written. Each is made ready when it is first asked for. */
export const TABLES: Readonly<Record<string, WrittenTable>> = {
  as: ASSAMESE,
  bn: BENGALI,
  en: ENGLISH,
  gu: GUJARATI,
  hi: HINDI,
  kn: KANNADA,
  mai: MAITHILI,
  ml: MALAYALAM,
  mr: MARATHI,
  ne: NEPALI,
  or: ODIA,
  pa: PUNJABI,
  ta: TAMIL,
  te: TELUGU,
  brx: BODO,
  doi: DOGRI,
  kok: KONKANI,
  ks: KASHMIRI,
  mni: MANIPURI,
  sa: SANSKRIT,
  sat: SANTALI,
  sd: SINDHI,
  ur: URDU,
};
