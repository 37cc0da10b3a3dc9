import { describe, expect, test } from "bun:test";
import { createTurns, type TurnCandidate } from "./turns.ts";

const CHUNK_MS = 30_000;

/** Work that takes turns of one chunk until nothing is left of it. */
function work(transcriptionId: string, chunks: number, more: Partial<TurnCandidate> = {}): TurnCandidate {
  const ids = { organizationId: "a", projectId: "main", transcriptionId };
  return { ...ids, weight: 1, remainingMs: chunks * CHUNK_MS, costMs: CHUNK_MS, ...more };
}

/** Takes turns until all work is done, and returns the transcriptions in the order of their turns. */
function order(waiting: TurnCandidate[], most = 10_000): string[] {
  const turns = createTurns();
  const left = waiting.map((candidate) => ({ ...candidate }));
  const seen: string[] = [];
  while (left.length > 0 && seen.length < most) {
    const chosen = turns.next(left);
    if (!chosen) break;
    turns.account(chosen);
    seen.push(chosen.transcriptionId);
    chosen.remainingMs -= CHUNK_MS;
    if (chosen.remainingMs <= 0) left.splice(left.indexOf(chosen), 1);
  }
  return seen;
}

const countOf = (seen: string[], id: string) => seen.filter((name) => name === id).length;

describe("turns within a project", () => {
  test("a short recording takes four of five turns beside eight long ones", () => {
    const long = Array.from({ length: 8 }, (_, index) => work(`1-long-${index}`, 360));
    const seen = order([...long, work("2-short", 8)], 10);
    expect(countOf(seen, "2-short")).toBe(8);
    expect(countOf(seen, "1-long-0")).toBe(2);
  });

  test("the oldest, long recording gets a fifth of the turns beside a stream of short ones, and ends", () => {
    const short = Array.from({ length: 400 }, (_, index) =>
      work(`2-short-${String(index).padStart(3, "0")}`, 1),
    );
    const seen = order([work("1-long", 50), ...short]);
    expect(seen).toHaveLength(450);
    expect(countOf(seen.slice(0, 250), "1-long")).toBe(50);
  });

  test("of two with as much work left, the older one ends first", () => {
    expect(order([work("2", 3), work("1", 3)])).toEqual(["1", "1", "1", "2", "2", "2"]);
  });

  test("an oldest recording that is the shortest as well saves no turns for later", () => {
    const turns = createTurns();
    const first = work("1", 100);
    for (let turn = 0; turn < 50; turn++) {
      expect(turns.next([first])).toBe(first);
      turns.account(first);
    }
    const seen: (string | undefined)[] = [];
    for (let turn = 0; turn < 5; turn++) {
      const chosen = turns.next([first, work("2", 5)]);
      if (chosen) turns.account(chosen);
      seen.push(chosen?.transcriptionId);
    }
    expect(seen).toEqual(["2", "2", "2", "2", "1"]);
  });
});

describe("turns of projects and organizations", () => {
  test("projects of an organization share its part equally, whatever they have waiting", () => {
    const many = Array.from({ length: 40 }, (_, index) => work(`many-${String(index).padStart(2, "0")}`, 2));
    const seen = order([...many, work("one", 10, { projectId: "other" })], 20);
    expect(countOf(seen, "one")).toBe(10);
  });

  test("time spent idle earns no advantage", () => {
    const turns = createTurns();
    const a = work("1", 1000);
    const b = work("2", 1000, { organizationId: "b", projectId: "b-main" });
    for (let turn = 0; turn < 100; turn++) {
      expect(turns.next([a])).toBe(a);
      turns.account(a);
    }
    const seen: (string | undefined)[] = [];
    for (let turn = 0; turn < 6; turn++) {
      const chosen = turns.next([a, b]);
      if (chosen) turns.account(chosen);
      seen.push(chosen?.organizationId);
    }
    expect(seen.filter((id) => id === "a").length).toBeGreaterThanOrEqual(2);
  });

  test("many small clocks fall out of memory before they are used up", () => {
    const turns = createTurns();
    for (let index = 0; index < 20_000; index++) turns.account(work("1", 1, { organizationId: `o${index}` }));
    expect(turns.next([work("1", 1), work("2", 1, { organizationId: "b" })])?.organizationId).toBe("a");
  });
});
