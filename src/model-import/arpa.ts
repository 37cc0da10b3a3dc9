import { createReadStream, writeFileSync } from "node:fs";
import { createInterface } from "node:readline";
import {
  KENLM_ENTRY,
  KENLM_MAGIC,
  KENLM_MAGIC_BYTES,
  KENLM_TEST_BYTES,
  type KenlmLayout,
  kenlmHeadBytes,
  kenlmLayout,
} from "../lib/kenlm-file.ts";
import { openRegularFile } from "../lib/regular-file.ts";

/** KenLM's own default: how many buckets a table has for each entry. */
const MULTIPLIER = 1.5;
/** Larger models would need too much memory here; KenLM's own program builds them on the disk. */
const MOST_BYTES = 2 ** 31;
const MOST_ORDER = 6;
/** Log₁₀ of the probability of words that the model does not know, where the file names none. */
const NO_UNKNOWN = -100;
const MASK = (1n << 64n) - 1n;

/** A model that is being built. */
type Building = { bytes: Buffer; layout: KenlmLayout; counts: number[]; words: Map<string, number> };

/**
 * Makes a binary model of KenLM of an ARPA file. A line has a log₁₀ probability, the words, and except for the longest
 * n-grams a log₁₀ back-off weight.
 *
 * @throws Error with the line and the reason why it cannot be used
 */
export async function convertArpa(source: string, target: string): Promise<void> {
  const lines = createInterface({
    input: createReadStream(source, { fd: openRegularFile(source), encoding: "utf8" }),
    crlfDelay: Number.POSITIVE_INFINITY,
  });
  const counts: number[] = [];
  let building: Building | undefined;
  let order = 0;
  let left = 0;
  let number = 0;
  let isEnded = false;
  const fail = (reason: string): never => {
    throw new Error(`line ${number}: ${reason}`);
  };
  for await (const line of lines) {
    number++;
    const text = line.trim();
    if (number === 1_000 && counts.length === 0)
      fail("there are no numbers of n-grams: it is not an ARPA file");
    if (text === "" || text === "\\data\\" || isEnded) continue;
    const [, length, count] = /^ngram (\d+)=\s*(\d+)$/.exec(text) ?? [];
    const [, section] = /^\\(\d+)-grams:$/.exec(text) ?? [];
    if (length !== undefined && !building) {
      if (Number(length) !== counts.length + 1) fail(`the number of ${length}-grams is out of order`);
      counts.push(Number(count));
    } else if (section !== undefined || text === "\\end\\") {
      if (left > 0) fail(`${left} ${order}-grams are missing`);
      if (text === "\\end\\") isEnded = true;
      else {
        building ??= begin(counts);
        // A section that is there twice would fill a table without end.
        if (Number(section) !== order + 1) fail(`the ${section}-grams are out of order`);
        order++;
        left = counts[order - 1] ?? fail(`the number of ${order}-grams is missing`);
      }
    } else if (building) {
      if (left-- === 0) fail(`there are more ${order}-grams than the head says`);
      addLine(building, line, order, fail);
    } else if (counts.length > 0) fail(`${JSON.stringify(text.slice(0, 40))} is not part of an ARPA file`);
  }
  if (!building || !isEnded || order !== counts.length) throw new Error("it is not a complete ARPA file");
  finish(building);
  writeFileSync(target, building.bytes);
}

function begin(counts: number[]): Building {
  if (counts.length < 2 || counts.length > MOST_ORDER) {
    throw new Error(`its n-grams have up to ${counts.length} words, and may have 2 to ${MOST_ORDER}`);
  }
  const layout = kenlmLayout(counts, MULTIPLIER);
  if (layout.bytes > MOST_BYTES) {
    throw new Error(
      "it is too large to be converted here: give what `build_binary probing` of KenLM makes of it",
    );
  }
  const bytes = Buffer.alloc(layout.bytes);
  bytes.writeFloatLE(NO_UNKNOWN, layout.unigrams.at);
  return { bytes, layout, counts, words: new Map() };
}

function addLine(
  { bytes, layout, words }: Building,
  line: string,
  order: number,
  fail: (reason: string) => never,
) {
  const parts = line.trim().split(/[ \t]+/);
  const probability = Number(parts[0]);
  const backoff = parts.length > order + 1 ? Number(parts[order + 1]) : 0;
  if (
    parts.length < order + 1 ||
    parts.length > order + 2 ||
    !(probability <= 0) ||
    !Number.isFinite(backoff)
  ) {
    fail(`it is not a ${order}-gram with its probability`);
  }
  const names = parts.slice(1, order + 1);
  if (order === 1) {
    const [name = ""] = names;
    if (words.has(name)) fail(`${JSON.stringify(name)} is there twice`);
    const id = name === "<unk>" ? 0 : words.size + (words.has("<unk>") ? 0 : 1);
    words.set(name, id);
    const at = layout.unigrams.at + id * KENLM_ENTRY.unigram;
    bytes.writeFloatLE(name === "<unk>" ? probability : Math.abs(probability), at);
    bytes.writeFloatLE(name === "<unk>" ? 0 : backoff, at + 4);
    return;
  }
  const ids = names.map((name) => words.get(name) ?? fail(`${JSON.stringify(name)} is not among the words`));
  const table = layout.tables[order - 2];
  if (!table) return fail("its order is not in the head");
  const at = placeOf(bytes, table, hashOf(ids));
  const isLongest = table.width === KENLM_ENTRY.longest;
  // A set sign means to KenLM that no longer n-gram ends with this one. It looks for them where it is not set.
  bytes.writeFloatLE(isLongest ? probability : Math.abs(probability), at);
  if (!isLongest) bytes.writeFloatLE(backoff, at + 4);
}

/** Returns the hash of an n-gram, from its last word to its first (`CombineWordHash`). */
function hashOf(ids: readonly number[]): bigint {
  let hash = BigInt(ids.at(-1) ?? 0);
  for (let n = ids.length - 2; n >= 0; n--) {
    const next = BigInt(1 + (ids[n] ?? 0)) * 17894857484156487943n;
    hash = ((hash * 8978948897894561157n) ^ next) & MASK;
  }
  return hash;
}

/** Enters a key into a table, and returns where its value is. */
function placeOf(bytes: Buffer, table: { at: number; buckets: number; width: number }, key: bigint): number {
  let bucket = Number(key % BigInt(table.buckets));
  let at = table.at + bucket * table.width;
  while (bytes.readBigUInt64LE(at) !== 0n) {
    bucket = (bucket + 1) % table.buckets;
    at = table.at + bucket * table.width;
  }
  bytes.writeBigUInt64LE(key, at);
  return at + 8;
}

function finish({ bytes, layout, counts, words }: Building): void {
  const vocabulary = { ...layout.vocabulary, width: KENLM_ENTRY.word };
  for (const [name, id] of words) {
    // KenLM hashes words with MurmurHash64A and seed 0.
    if (name !== "<unk>")
      bytes.writeUInt32LE(id, placeOf(bytes, vocabulary, BigInt(Bun.hash.murmur64v2(name, 0n))));
  }
  bytes.write(KENLM_MAGIC, 0, "latin1");
  let at = KENLM_MAGIC_BYTES;
  for (const value of [0, 1, -0.5]) at = bytes.writeFloatLE(value, at);
  for (const value of [1, 0xffffffff, 0]) at = bytes.writeUInt32LE(value, at);
  bytes.writeBigUInt64LE(1n, at);
  at = KENLM_MAGIC_BYTES + KENLM_TEST_BYTES;
  bytes.writeUInt8(counts.length, at);
  bytes.writeFloatLE(MULTIPLIER, at + 4);
  for (const [n, count] of counts.entries()) bytes.writeBigUInt64LE(BigInt(count), at + 20 + 8 * n);
  // The number of words, with the unknown one, follows the version of the vocabulary.
  bytes.writeUInt32LE(words.size + (words.has("<unk>") ? 0 : 1), kenlmHeadBytes(counts.length) + 4);
}
