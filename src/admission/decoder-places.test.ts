import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { createDecoderPlaces, type DecoderWork } from "./decoder-places.ts";

const NEVER = new AbortController().signal;

/** Opens places. The test ends their work by its name. */
function openBench(own = 2) {
  const places = createDecoderPlaces(own);
  const begun: string[] = [];
  const gates = new Map<string, () => void>();
  const done: Promise<unknown>[] = [];
  return {
    places,
    begun,
    /** Names of running work. */
    running: () => [...gates.keys()],
    ask(name: string, work: Partial<DecoderWork> = {}, signal = NEVER) {
      const organizationId = name.slice(0, 1);
      const asked = places.run({ organizationId, purpose: "upload", isLarge: false, ...work }, signal, () => {
        begun.push(name);
        return new Promise<void>((resolve) => gates.set(name, resolve));
      });
      done.push(asked.catch(() => undefined));
      return asked;
    },
    async end(name: string) {
      gates.get(name)?.();
      gates.delete(name);
      await Bun.sleep(0);
    },
    async endAll() {
      while (gates.size > 0) for (const name of [...gates.keys()]) await this.end(name);
      await Promise.all(done);
    },
  };
}

type Case = {
  title: string;
  own?: number;
  asked: (string | [string, Partial<DecoderWork>])[];
  /** The work that runs at first. */
  begins: string[];
  /** The work that ends, one after the other, and the work that then begins. */
  afterwards?: [string, string[]][];
};

const large = { isLarge: true };
const CASES: Case[] = [
  {
    title: "an organization gets its own places, and each of the next ones one",
    asked: ["a1", "a2", "a3", "a4", "b1", "b2", "c1", "d1"],
    begins: ["a1", "a2", "b1", "c1"],
    afterwards: [
      // An owner without a place goes before one that has fewer than its share.
      ["a1", ["d1"]],
      // One place stays free for owners that have none.
      ["d1", []],
      ["c1", ["a3"]],
    ],
  },
  {
    title: "who has the fewest is next, in turn",
    asked: ["a1", "a2", "b1", "c1", "d1", "e1", "d2", "e2", "a3"],
    begins: ["a1", "a2", "b1", "c1"],
    afterwards: [
      ["b1", ["d1"]],
      ["d1", ["e1"]],
      ["e1", ["d2"]],
      ["d2", ["e2"]],
      ["a1", []],
    ],
  },
  {
    title: "small work does not wait for large work of the same organization",
    asked: [["a1", large], ["a2", large], ["a3", large], "a4", "a5"],
    begins: ["a1", "a4"],
    afterwards: [
      ["a4", ["a5"]],
      ["a5", []],
      ["a1", ["a2"]],
    ],
  },
  {
    title: "large work of many organizations leaves half of the places",
    asked: [["a1", large], ["b1", large], ["c1", large], "d1", "e1"],
    begins: ["a1", "b1", "d1", "e1"],
    afterwards: [
      ["d1", []],
      ["a1", ["c1"]],
    ],
  },
  {
    title: "a synchronous request goes before its organization's other work, then what is to be transcribed",
    asked: [
      "a1",
      "a2",
      "a3",
      ["a4", { purpose: "transcription" }],
      ["a5", { purpose: "synchronous" }],
      ["a6", { purpose: "synchronous" }],
    ],
    begins: ["a1", "a2"],
    afterwards: [
      ["a1", ["a5"]],
      ["a2", ["a6"]],
      ["a5", ["a4"]],
      ["a6", ["a3"]],
    ],
  },
  {
    title: "with more cores one organization gets more",
    own: 8,
    asked: [..."123456789"].map((n) => `a${n}`),
    begins: [..."12345678"].map((n) => `a${n}`),
  },
];

describe("decoder places", () => {
  test.each(CASES.map((each) => [each.title, each] as const))(
    "%s",
    async (_title, { own, asked, begins, afterwards }) => {
      const bench = openBench(own);
      for (const each of asked) void (typeof each === "string" ? bench.ask(each) : bench.ask(...each));
      await Bun.sleep(0);
      expect(bench.begun).toEqual(begins);
      for (const [name, expected] of afterwards ?? []) {
        bench.begun.length = 0;
        await bench.end(name);
        expect([name, ...bench.begun]).toEqual([name, ...expected]);
      }
      await bench.endAll();
      expect(bench.places.status()).toMatchObject({ running: 0, waiting: 0 });
    },
  );

  test("work that is aborted while it waits never begins, and holds no place", async () => {
    const bench = openBench();
    const leaving = new AbortController();
    void bench.ask("a1");
    void bench.ask("a2");
    const left = bench.ask("a3", {}, leaving.signal);
    void bench.ask("a4");
    leaving.abort(new Error("gone"));
    await expect(left).rejects.toThrow("gone");
    await expect(bench.ask("a5", {}, leaving.signal)).rejects.toThrow("gone");
    await bench.end("a1");
    expect(bench.running()).toEqual(["a2", "a4"]);
    await bench.endAll();
    expect(bench.begun).not.toContain("a3");
    expect(bench.places.status()).toMatchObject({ running: 0, waiting: 0 });
  });

  test("work that fails returns its place", async () => {
    const places = createDecoderPlaces(2);
    const work = { organizationId: "a", purpose: "upload", isLarge: false } as const;
    const failing = Array.from({ length: 20 }, () =>
      places.run(work, NEVER, () => Promise.reject(new Error("no"))),
    );
    const ends = await Promise.allSettled(failing);
    expect(ends.filter(({ status }) => status === "rejected")).toHaveLength(20);
    expect(places.status()).toMatchObject({ running: 0, waiting: 0 });
  });

  test("whatever is requested and whatever order it ends in, all work is done, and never too much at once", async () => {
    const asked = fc.record({
      organizationId: fc.constantFrom("a", "b", "c", "d", "e"),
      purpose: fc.constantFrom("synchronous", "transcription", "upload" as const),
      isLarge: fc.boolean(),
      leaves: fc.boolean(),
    });
    await fc.assert(
      fc.asyncProperty(
        fc.array(asked, { maxLength: 60 }),
        fc.infiniteStream(fc.nat()),
        async (all, choices) => {
          const bench = openBench();
          const leaving = new AbortController();
          for (const [index, { leaves, ...work }] of all.entries()) {
            bench
              .ask(`${work.organizationId}${index}`, work, leaves ? leaving.signal : NEVER)
              .catch(() => {});
          }
          leaving.abort();
          await Bun.sleep(0);
          while (bench.running().length > 0) {
            const running = bench.running();
            expect(running.length).toBeLessThanOrEqual(4);
            for (const organization of "abcde") {
              const own = running.filter((name) => name.startsWith(organization)).length;
              expect(own).toBeLessThanOrEqual(2);
            }
            const chosen = running[(choices.next().value as number) % running.length];
            await bench.end(chosen ?? "");
          }
          expect(bench.places.status()).toMatchObject({ running: 0, waiting: 0 });
          const staying = all.filter(({ leaves }) => !leaves).length;
          expect(bench.begun.length).toBeGreaterThanOrEqual(staying);
        },
      ),
      { numRuns: 50 },
    );
  });
});
