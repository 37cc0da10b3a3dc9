import { closeSync, fstatSync, readSync } from "node:fs";
import { openRegularFile } from "./regular-file.ts";

/**
 * The binary form of KenLM with hash tables (`build_binary probing`; lm/binary_format.cc, lm/search_hashed.hh, version 5).
 * n-gram models of words are kept in it, because it needs no loading: it is mapped into memory.
 */

export const KENLM_MAGIC = "mmap lm http://kheafield.com/code format version 5\n";
/** The magic with its zeros, then test values of 4 bytes each and one of 8. */
export const KENLM_MAGIC_BYTES = 56;
export const KENLM_TEST_BYTES = 32;
const PARAMETER_BYTES = 20;
const MOST_ORDER = 6;
/** Bytes of an entry of each table. */
export const KENLM_ENTRY = { word: 12, unigram: 8, middle: 16, longest: 12 } as const;

/** Where the tables of a file are. Hash tables have `buckets` entries. */
export type KenlmLayout = {
  vocabulary: { at: number; buckets: number };
  unigrams: { at: number };
  /** The tables of n-grams of two words and more. */
  tables: { at: number; buckets: number; width: number }[];
  bytes: number;
};

/** Returns where the tables of a model are, by the numbers of its n-grams. */
export function kenlmLayout(counts: readonly number[], multiplier: number): KenlmLayout {
  const bucketsOf = (count: number) =>
    Math.max(count + 1, Math.floor(Math.fround(Math.fround(multiplier) * Math.fround(count))));
  const [words = 0, ...more] = counts;
  let at = kenlmHeadBytes(counts.length) + 8;
  const vocabulary = { at, buckets: bucketsOf(words) };
  at += vocabulary.buckets * KENLM_ENTRY.word;
  const unigrams = { at };
  at += (words + 1) * KENLM_ENTRY.unigram;
  const tables = more.map((count, index) => {
    const width = index === more.length - 1 ? KENLM_ENTRY.longest : KENLM_ENTRY.middle;
    const table = { at, buckets: bucketsOf(count), width };
    at += table.buckets * width;
    return table;
  });
  return { vocabulary, unigrams, tables, bytes: at };
}

export const kenlmHeadBytes = (order: number): number =>
  Math.ceil((KENLM_MAGIC_BYTES + KENLM_TEST_BYTES + PARAMETER_BYTES + 8 * order) / 8) * 8;

/** Reports whether a file begins as those of KenLM do. */
export function isKenlmFile(path: string): boolean {
  return beginningOf(path).bytes.toString("latin1").startsWith("mmap lm http://kheafield.com/code");
}

/**
 * Checks the head of a model, and that the file is as long as it says.
 *
 * @returns the most words of an n-gram
 * @throws Error with the reason why it cannot be used
 */
export function checkKenlmFile(path: string): number {
  const { bytes, size } = beginningOf(path);
  if (!bytes.toString("latin1").startsWith(KENLM_MAGIC)) throw new Error("it is not a binary model of KenLM");
  const at = KENLM_MAGIC_BYTES + KENLM_TEST_BYTES;
  if (bytes.length < kenlmHeadBytes(MOST_ORDER)) throw new Error("it is shorter than its head says");
  const order = bytes.readUInt8(at);
  const type = bytes.readUInt32LE(at + 8);
  if (type !== 0) throw new Error("it was not built with hash tables: build it with `build_binary probing`");
  if (order < 2 || order > MOST_ORDER) {
    throw new Error(`its n-grams have up to ${order} words, and may have 2 to ${MOST_ORDER}`);
  }
  const multiplier = bytes.readFloatLE(at + 4);
  if (!(multiplier >= 1 && multiplier <= 100)) throw new Error("its head is damaged");
  const counts = Array.from({ length: order }, (_, n) =>
    Number(bytes.readBigUInt64LE(at + PARAMETER_BYTES + 8 * n)),
  );
  if (kenlmLayout(counts, multiplier).bytes > size) throw new Error("it is shorter than its head says");
  return order;
}

function beginningOf(path: string): { bytes: Buffer; size: number } {
  const descriptor = openRegularFile(path);
  try {
    const bytes = Buffer.alloc(kenlmHeadBytes(MOST_ORDER));
    const count = readSync(descriptor, bytes, 0, bytes.length, 0);
    return { bytes: bytes.subarray(0, count), size: fstatSync(descriptor).size };
  } finally {
    closeSync(descriptor);
  }
}
