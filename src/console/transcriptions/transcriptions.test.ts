import { afterAll, beforeAll, expect, spyOn, test } from "bun:test";
import type { Transcription, TranscriptionList, Usage } from "../../http/wire/schemas.ts";
import { loadAsPage } from "../../testing/console/console-page.ts";
import { madeTranscript } from "../../testing/console/console-transcripts.ts";

let list: typeof import("./transcriptions.ts");
/** How many transcriptions the server has. The newest one has this number. */
let count = 0;
/** How many pages the server gives until it refuses one. */
let left = Number.POSITIVE_INFINITY;
const PAGES_AT_ONCE = 2;
const asked: string[] = [];
/** The value of metadata that was asked for last. */
let searched: string | null = null;
let spies: { mockRestore(): void }[] = [];

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

/** As a search that has looked at many transcriptions and found one, further down. */
function rarePage(after: string | null): TranscriptionList {
  const data = after === idOf(200) ? [{ ...one, id: idOf(150) }] : [];
  return { object: "list", data, next: after === null ? idOf(200) : idOf(100) };
}

beforeAll(async () => {
  list = await loadAsPage(() => import("./transcriptions.ts"));
  const answer = (async (url: URL) => {
    asked.push(url.pathname);
    searched = url.searchParams.get("metadata[agent]");
    if (url.pathname === "/v1/usage") return Response.json({ credit: { available_paise: 2 } });
    if (searched === "rare") return Response.json(rarePage(url.searchParams.get("after")));
    if (left-- > 0) return Response.json(page(url));
    left = PAGES_AT_ONCE;
    const body = { error: { code: "rate_limited", message: "" } };
    return Response.json(body, { status: 429, headers: { "retry-after": "0.01" } });
  }) as unknown as typeof fetch;
  spies = [
    spyOn(globalThis, "fetch").mockImplementation(answer),
    // What the server refuses is tried again as soon as it says.
    spyOn(Math, "random").mockReturnValue(0),
  ];
});
afterAll(() => {
  for (const spy of spies) spy.mockRestore();
});

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

test("pages that the server refuses for a moment do not stop the list", async () => {
  count = 600;
  left = PAGES_AT_ONCE;
  await list.refreshList();
  expect(list.listFailure.value).toBeUndefined();
  expect(shown()).toEqual(ids(600, 1));
});

test("credit that is granted meanwhile is seen, and a key that may not see it is not refused again and again", async () => {
  const session = await import("../session.ts");
  const had = Object.getOwnPropertyDescriptor(globalThis, "document");
  Object.defineProperty(globalThis, "document", { value: { hidden: false }, configurable: true });
  spies.push({
    mockRestore: () =>
      had
        ? Object.defineProperty(globalThis, "document", had)
        : Reflect.deleteProperty(globalThis, "document"),
  });
  const usage = () => asked.filter((path) => path === "/v1/usage").length;
  let clock = 1_000_000;
  spies.push(spyOn(performance, "now").mockImplementation(() => clock));
  left = Number.POSITIVE_INFINITY;
  session.account.value = undefined;
  const look = async () => {
    const before = asked.length;
    list.lookNow();
    for (let tries = 100; tries > 0 && asked.length === before; tries -= 1) await Bun.sleep(5);
    await Bun.sleep(20);
  };
  await look();
  expect(usage()).toBe(0);
  session.account.value = { credit: { available_paise: 1 } } as Usage;
  const before = usage();
  for (const seconds of [0, 10, 10, 15]) {
    clock += 1000 * seconds;
    await look();
  }
  expect(usage() - before).toBe(2);
});

test("a search of metadata keeps what it has found below pages without any", async () => {
  list.chooseMetadata(["agent", "rare"]);
  await list.refreshList();
  expect([shown(), list.hasOlder.value]).toEqual([[], true]);
  await list.loadOlder();
  await list.refreshList();
  expect([shown(), searched, list.hasOlder.value]).toEqual([[idOf(150)], "rare", true]);
  left = Number.POSITIVE_INFINITY;
  list.chooseMetadata(undefined);
  await list.refreshList();
  expect([shown()?.length, searched]).toEqual([50, null]);
});

const WRITTEN: [text: string, pair: [string, string] | undefined][] = [
  ["agent=12", ["agent", "12"]],
  [" agent = a = b ", ["agent", "a = b"]],
  ["agent=", ["agent", ""]],
  ["agent", undefined],
  ["=12", undefined],
  ["a b=12", undefined],
];
test.each(WRITTEN)("a person writes %p", (text, pair) => {
  expect(list.metadataPairOf(text)).toEqual(pair);
});
