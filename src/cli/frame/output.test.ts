import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import { csvLine } from "../../lib/csv.ts";
import { startOfDay } from "./arguments.ts";
import { renderFields, renderTable, rupees } from "./output.ts";

describe("tables", () => {
  test("columns line up, also in Devanagari, and numbers are right-aligned", () => {
    const [head, first, second] = renderTable(
      ["NAME", "N"],
      [
        ["श्रुति श्रुति", 5],
        ["b", 10],
      ],
    ).split("\n");
    expect(head).toMatch(/^NAME +N$/);
    expect(first).toMatch(/^श्रुति श्रुति {3}5$/);
    expect(second).toMatch(/^b +10$/);
    expect(new Set([head, first, second].map((line) => Bun.stringWidth(line ?? ""))).size).toBe(1);
  });

  test("control characters are escaped, so that they cannot control the terminal", () => {
    expect(renderTable(["A"], [["\u001b[2J"]])).toBe("A\n?[2J\n");
    expect(renderFields([["Name", "a\nb"]])).toBe("Name  a?b\n");
  });

  test("a long text is cut at the width of the terminal, between letters with their marks, and an ID is not", () => {
    const id = "tr_01KAJ5M0X2V7Q4N8R6T3Y9ZB1C";
    const rows = [[id, "बहुत लंबा नाम ".repeat(10), 7]];
    const table = renderTable(["ID", "NAME", "N"], rows, 60);
    const [head, row] = table.split("\n");
    expect(Bun.stringWidth(row ?? "")).toBeLessThanOrEqual(60);
    expect(row).toStartWith(id);
    expect(row).toMatch(/…\s+7$/);
    expect(head).toMatch(/^ID +NAME +N$/);
    expect(renderTable(["ID", "NAME", "N"], rows)).toContain("बहुत लंबा नाम ".repeat(10).trim());
  });

  test("a table that cannot be cut to the width becomes a block for each row", () => {
    const id = "tr_01KAJ5M0X2V7Q4N8R6T3Y9ZB1C";
    expect(
      renderTable(
        ["ID", "OF", "N"],
        [
          [id, id, 7],
          [id, id, 8],
        ],
        50,
      ),
    ).toBe(`ID  ${id}\nOF  ${id}\nN   7\n\nID  ${id}\nOF  ${id}\nN   8\n`);
  });

  test("a table without rows shows its heading", () => {
    expect(renderTable(["A", "B"], [])).toBe("A  B\n");
  });
});

describe("CSV", () => {
  const cells: [string | number | null, string][] = [
    ["plain", "plain"],
    ['say "so"', '"say ""so"""'],
    ["a,b", '"a,b"'],
    ["a\nb", '"a\nb"'],
    ["=1+1", "'=1+1"],
    ["+1", "'+1"],
    ["-1", "'-1"],
    ["@x", "'@x"],
    ["\t=1", "'\t=1"],
    ["\r=1", `"'\r=1"`],
    [-1, "-1"],
    [null, ""],
  ];
  for (const [cell, expected] of cells) {
    test(`writes ${JSON.stringify(cell)}`, () => expect(csvLine([cell, 1])).toBe(`${expected},1\r\n`));
  }
});

describe("rupees", () => {
  const amounts: [number, string][] = [
    [0, "₹0.00"],
    [5, "₹0.05"],
    [-5, "-₹0.05"],
    [12_345_678, "₹1,23,456.78"],
    [Number.MAX_SAFE_INTEGER, "₹9,00,71,99,25,47,409.91"],
  ];
  for (const [paise, expected] of amounts) test(expected, () => expect(rupees(paise)).toBe(expected));
});

describe("days", () => {
  test("start at midnight of their time zone, also when clocks change or the day starts at 1:00", () => {
    const iso = (zone: string, day: string) => new Date(startOfDay(zone, day)).toISOString();
    expect(iso("Asia/Kolkata", "2026-11-21")).toBe("2026-11-20T18:30:00.000Z");
    expect(iso("UTC", "2026-11-21")).toBe("2026-11-21T00:00:00.000Z");
    expect(iso("Pacific/Kiritimati", "2026-11-21")).toBe("2026-11-20T10:00:00.000Z");
    expect(iso("America/New_York", "2026-03-09")).toBe("2026-03-09T04:00:00.000Z");
    expect(iso("Asia/Beirut", "2026-03-29")).toBe("2026-03-28T22:00:00.000Z");
  });
});

describe("standard output", () => {
  const MAIN = join(import.meta.dir, "../../main.ts");
  const run = (redirection: string) => {
    const script = `"$0" "$1" config defaults ${redirection}`;
    const { exitCode, stderr } = Bun.spawnSync(["bash", "-c", script, process.execPath, MAIN]);
    return { exitCode, err: stderr.toString() };
  };

  test("on a full disk ends the command with a reason: a new key would be lost without a word", () => {
    const { exitCode, err } = run("> /dev/full");
    expect(exitCode).toBe(1);
    expect(err).toMatch(/^error: standard output cannot be written: .*ENOSPC.*\n$/);
  });

  test("that a reader such as head does not read to its end is not a failure", () => {
    expect(run("| head -n 1 > /dev/null; exit $PIPESTATUS")).toEqual({ exitCode: 0, err: "" });
  });
});
