import { afterAll, expect, test } from "bun:test";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { checkKenlmFile, isKenlmFile } from "../lib/kenlm-file.ts";
import { wordListArpa } from "../testing/makers/arpa-maker.ts";
import { convertArpa } from "./arpa.ts";

const folder = mkdtempSync(join(tmpdir(), "shruti-arpa-"));
afterAll(() => rmSync(folder, { recursive: true }));
const source = join(folder, "words.arpa");
const target = join(folder, "words.klm");
const whole = wordListArpa(["one", "two", "तीन"]);

async function converted(text: string): Promise<string> {
  rmSync(target, { force: true });
  writeFileSync(source, text);
  await convertArpa(source, target);
  return target;
}

test("an ARPA file becomes a binary model of KenLM", async () => {
  expect(isKenlmFile(await converted(whole))).toBe(true);
  expect(checkKenlmFile(target)).toBe(2);
  expect(isKenlmFile(source)).toBe(false);
  expect(() => checkKenlmFile(source)).toThrow("not a binary model of KenLM");
});

test("a binary model that is cut, of another kind or damaged is refused", async () => {
  const bytes = readFileSync(await converted(whole));
  const at = 88;
  const changes: [(copy: Buffer) => Buffer, string][] = [
    [(copy) => copy.subarray(0, -1), "shorter than its head says"],
    [(copy) => copy.subarray(0, 100), "shorter than its head says"],
    [(copy) => copy.fill(2, at + 8, at + 9), "build_binary probing"],
    [(copy) => copy.fill(9, at, at + 1), "up to 9 words"],
    [(copy) => copy.fill(0, at + 4, at + 8), "its head is damaged"],
    [(copy) => copy.fill(0xff, at + 20, at + 25), "shorter than its head says"],
  ];
  for (const [change, reason] of changes) {
    writeFileSync(target, change(Buffer.from(bytes)));
    expect(() => checkKenlmFile(target)).toThrow(reason);
  }
});

test.each([
  ["", "not a complete ARPA file"],
  ["\n".repeat(1_001), "line 1000: there are no numbers of n-grams"],
  [whole.replace("\\end\\", ""), "not a complete ARPA file"],
  [whole.replace("ngram 2=4", "ngram 3=4"), "the number of 3-grams is out of order"],
  [whole.replace("ngram 2=4\n", ""), "up to 1 words, and may have 2 to 6"],
  [whole.replace("ngram 2=4", "ngram 2=5"), "1 2-grams are missing"],
  [whole.replace("ngram 2=4", "ngram 2=3"), "there are more 2-grams than the head says"],
  [whole.replace("ngram 2=4", "ngram 2=400000000"), "too large to be converted here"],
  [whole.replace("\\2-grams:", "\\1-grams:"), "the 1-grams are out of order"],
  [whole.replace("\\end\\", `${whole.slice(whole.indexOf("\\2-grams:"))}`), "the 2-grams are out of order"],
  [whole.replace("\\1-grams:", "\\2-grams:"), "the 2-grams are out of order"],
  [whole.replace("<s> two", "<s> four"), '"four" is not among the words'],
  [whole.replace("\ttwo\t0", "\tone\t0"), '"one" is there twice'],
  [whole.replace(/-[0-9.]+\t<s> two/, "0.5\t<s> two"), "is not a 2-gram with its probability"],
  [whole.replace(/-[0-9.]+\t<s> two/, "x\t<s> two"), "is not a 2-gram with its probability"],
])("refused: %#", async (text, reason) => {
  await expect(converted(text)).rejects.toThrow(reason);
  expect(existsSync(target)).toBe(false);
});
