import { expect, test } from "bun:test";
import { loadAsPage } from "../../testing/console/console-page.ts";
import { en } from "./en.ts";
import { hi } from "./hi.ts";

/** Names that are the same in both languages. */
const NAMES = new Set(["API", "JSON", "CSV", ""]);

/** Lists all texts of a table with their places. */
function textsOf(table: unknown, place = ""): [string, string][] {
  if (typeof table === "string") return [[place, table]];
  if (typeof table !== "object" || table === null) return [];
  return Object.entries(table).flatMap(([name, value]) => textsOf(value, `${place}.${name}`));
}

test("every text of the page in Hindi is in Hindi", () => {
  const left = textsOf(hi).filter(([, text]) => !/\p{Script=Devanagari}/u.test(text) && !NAMES.has(text));
  // Keys of the keyboard are what is printed on them.
  expect(left.filter(([place]) => !/^\.keys\.list\.\d+\.0$/.test(place))).toEqual([]);
  expect(textsOf(hi).map(([place]) => place)).toEqual(
    expect.arrayContaining(textsOf(en).map(([place]) => place)),
  );
});

test("words that a person could confuse have one meaning", () => {
  // A project key is not a key of the keyboard, and dropping a file does not give an upload up.
  for (const words of [en, hi]) {
    expect([words.header.help, words.keys.title]).not.toContain(words.admin.keys);
    expect(words.upload.drop_it.slice(0, 3)).not.toBe(words.upload.dropNow.slice(0, 3));
  }
  expect(textsOf(hi).filter(([, text]) => /बोली (?!गई)/.test(text))).toEqual([]);
});

test("a refusal names the right that a key lacks, and no field of a request as a right", async () => {
  const { failureWords } = await loadAsPage(() => import("./words.ts"));
  expect(failureWords("forbidden", "uploads:write").advice).toBe(
    "Ask for a key with the right to send recordings (uploads:write).",
  );
  // The server names the field in which another project's upload is.
  for (const detail of [undefined, "audio.upload_id"])
    expect(failureWords("forbidden", detail).what).toBe("This belongs to another project.");
});
