import { expect, test } from "bun:test";
import { parseChecksums, renderChecksums } from "./checksums.ts";

const A = "a".repeat(64);
const B = "b".repeat(64);

test("a list is sorted, and read back", () => {
  const text = renderChecksums([
    { name: "shruti", sha256: B },
    { name: "docs/a b.txt", sha256: A },
  ]);
  expect(text).toBe(`${A}  docs/a b.txt\n${B}  shruti\n`);
  expect(parseChecksums(text)).toEqual([
    { name: "docs/a b.txt", sha256: A },
    { name: "shruti", sha256: B },
  ]);
});

test.each([
  ["an empty list", "", "line 1 is no checksum"],
  ["a line without name", `${A}\n`, "line 1 is no checksum"],
  ["an empty line between", `${A}  a\n\n${B}  b\n`, "line 2 is no checksum"],
  ["an absolute name", `${A}  /etc/passwd\n`, "line 1 names a file outside"],
  ["a name that climbs", `${A}  docs/../../x\n`, "line 1 names a file outside"],
  ["a control character", `${A}  a\u001b[2J\n`, "line 1 names a file outside"],
  ["a name that comes twice", `${A}  a\n${B}  a\n`, "line 2 names a file a second time"],
])("%s is refused", (_what, text, message) => {
  expect(() => parseChecksums(text)).toThrow(message);
});
