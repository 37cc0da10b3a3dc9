import { expect, test } from "bun:test";
import { isId, newId, pathOfId } from "./ids.ts";

const NOW = Date.UTC(2026, 10, 21);

test("later identifiers sort after earlier ones, also within a millisecond and when the clock is set back a little", () => {
  const ids = [NOW, NOW, NOW, NOW - 5_000, NOW + 1].map((now) => newId("event", now));
  expect(ids.toSorted()).toEqual(ids);
  expect(new Set(ids).size).toBe(ids.length);
});

test("when the clock was far in the future and is set back, identifiers follow it", () => {
  newId("event", NOW + 30 * 86_400_000);
  expect(newId("event", NOW) < newId("event", NOW + 60_000)).toBe(true);
  expect(newId("event", NOW).slice(4, 14)).toBe(newId("upload", NOW).slice(3, 13));
});

test("identifiers have the documented form", () => {
  expect(isId("transcription", newId("transcription", NOW))).toBe(true);
  for (const text of [
    "",
    "tr_",
    "up_01M7Z264T4TTAH2641C86TA4C1",
    "tr_01m7z264t4ttah2641c86ta4c1",
    "tr_8ZZZZZZZZZZZZZZZZZZZZZZZZZ",
  ]) {
    expect(isId("transcription", text)).toBe(false);
  }
});

test("only an identifier of the right kind can become a path", () => {
  const id = newId("upload", NOW);
  expect(pathOfId("/data/uploads", "upload", id)).toBe(`/data/uploads/${id}`);
  for (const other of [
    "../../evil",
    "",
    ".",
    `${id}/..`,
    `${id}\0`,
    `${id}\n`,
    id.toLowerCase(),
    newId("project", NOW),
  ])
    expect(() => pathOfId("/data/uploads", "upload", other)).toThrow("is not an identifier");
});
