import { describe, expect, test } from "bun:test";
import { openLog } from "../lib/log.ts";
import { createRefusalLog } from "./refusal-log.ts";

type Line = { msg: string; client?: string; count: number; seconds: number; level: string };

function open() {
  const lines: Line[] = [];
  const clock = { ms: 0 };
  const log = openLog("info", "json", (line) => void lines.push(JSON.parse(line) as Line));
  return { lines, clock, refusals: createRefusalLog(log, () => clock.ms) };
}

const times = (count: number, work: () => boolean) =>
  Array.from({ length: count }, work).filter(Boolean).length;

describe("requests without a valid key", () => {
  test("have their own log lines while they are few, and no summary line", () => {
    const { lines, clock, refusals } = open();
    expect(times(5, () => refusals.hasOwnLine("10.0.0.1"))).toBe(5);
    expect(times(5, () => refusals.hasOwnLine("10.0.0.2"))).toBe(5);
    clock.ms = 60_000;
    expect(refusals.hasOwnLine("10.0.0.1")).toBe(true);
    refusals.flush();
    expect(lines).toEqual([]);
  });

  test("are counted by address in a flood, and have lines again in the next interval", () => {
    const { lines, clock, refusals } = open();
    expect(times(10_000, () => refusals.hasOwnLine("10.0.0.1"))).toBe(5);
    expect(refusals.hasOwnLine("10.0.0.2")).toBe(true);
    clock.ms = 60_000;
    expect(times(100, () => refusals.hasOwnLine("10.0.0.1"))).toBe(5);
    refusals.flush();
    expect(lines.map(({ level, client, count, seconds }) => ({ level, client, count, seconds }))).toEqual([
      { level: "warn", client: "10.0.0.1", count: 9_995, seconds: 60 },
      { level: "warn", client: "10.0.0.1", count: 95, seconds: 1 },
    ]);
  });

  test("from very many addresses take bounded memory and few lines, and each is counted", () => {
    const { lines, refusals } = open();
    let own = 0;
    for (let address = 0; address < 5_000; address++)
      own += times(7, () => refusals.hasOwnLine(`2001:db8::${address.toString(16)}`));
    refusals.flush();
    expect(own).toBe(5 * 1_000);
    expect(lines).toHaveLength(21);
    expect(lines.reduce((sum, { count }) => sum + count, own)).toBe(35_000);
  });
});
