import { afterAll, beforeAll, expect, spyOn, test } from "bun:test";
import type { Transcription, TranscriptionList } from "../../http/wire/schemas.ts";
import { loadAsPage } from "../../testing/console-page.ts";
import { madeTranscript } from "../../testing/console-transcripts.ts";

let list: typeof import("./transcriptions.ts");
/** How many transcriptions the server has. The newest one has this number. */
let count = 0;

const { one } = madeTranscript([{ text: "a call", language: "en" }]);
const idOf = (number: number) => `tr_${String(number).padStart(6, "0")}`;
/** IDs from a number down to another. */
const ids = (newest: number, oldest: number) =>
  Array.from({ length: newest - oldest + 1 }, (_, at) => idOf(newest - at));
const shown = () => list.items.value?.map(({ id }) => id);

function page(url: URL): TranscriptionList {
  const after = url.searchParams.get("after");
  const newest = after === null ? count : Number(after.slice(3)) - 1;
  const oldest = Math.max(1, newest - Number(url.searchParams.get("limit")) + 1);
  const data = ids(newest, oldest).map((id): Transcription => ({ ...one, id }));
  return { object: "list", data, next: oldest === 1 ? null : idOf(oldest) };
}

beforeAll(async () => {
  list = await loadAsPage(() => import("./transcriptions.ts"));
  const answer = (async (url: URL) => Response.json(page(url))) as unknown as typeof fetch;
  spyOn(globalThis, "fetch").mockImplementation(answer);
});
afterAll(() => spyOn(globalThis, "fetch").mockRestore());

test("more new ones than a page has leave no gap in the list", async () => {
  count = 60;
  await list.refreshList();
  expect(shown()).toEqual(ids(60, 11));
  count = 300;
  await list.refreshList();
  expect(shown()).toEqual(ids(300, 11));
  while (list.hasOlder.value) await list.loadOlder();
  expect(shown()).toEqual(ids(300, 1));
});
