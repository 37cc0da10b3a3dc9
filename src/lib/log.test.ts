import { expect, test } from "bun:test";
import { openLog } from "./log.ts";

function lines(format: "json" | "text", fields: Record<string, unknown>): string {
  let written = "";
  openLog("info", format, (line) => {
    written += line;
  }).info(fields, "done");
  return written;
}

test("a text of a client or a decoder makes neither a line of its own nor an escape for the terminal", () => {
  const reason = "bad\n2026-11-22T00:00:00.000Z ERROR forged\u001b[2J\u009b31m";
  const line = lines("text", { reason, file: "a b.wav" });
  expect(line.split("\n")).toHaveLength(2);
  expect(line).toContain(String.raw`reason="bad\n2026-11-22T00:00:00.000Z ERROR forged\u001b[2J\u009b31m"`);
  expect(line).toContain("file=a b.wav");
  expect(JSON.parse(lines("json", { reason }))).toMatchObject({ reason, msg: "done" });
});

test("fields that could hold a secret or a transcript are left out", () => {
  const line = lines("json", { token: "a", key: "b", text: "c", upload: { secret: "d", bytes: 5 } });
  expect(JSON.parse(line)).toMatchObject({ upload: { bytes: 5 } });
  expect(line).not.toMatch(/"[abcd]"/);
});
