import { describe, expect, test } from "bun:test";
import { lineTexts } from "./line-texts.ts";

async function* piecesOf(bytes: Uint8Array, size: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.slice(at, at + size);
}

async function linesOf(bytes: Uint8Array, size = 7): Promise<string[]> {
  const lines: string[] = [];
  for await (const line of lineTexts(piecesOf(bytes, size))) lines.push(line);
  return lines;
}

const utf8 = (text: string) => new TextEncoder().encode(text);

describe("lines of an input", () => {
  test("are the same in pieces of any size", async () => {
    const text = "\ufeffपहली पंक्ति\r\n\nदूसरी\nlast";
    for (const size of [1, 2, 3, 5, 100]) {
      expect(await linesOf(utf8(text), size)).toEqual(["पहली पंक्ति", "", "दूसरी", "last"]);
    }
  });

  test("are refused by their number where they are not in UTF-8 or too long", async () => {
    await expect(linesOf(new Uint8Array([0x61, 0x0a, 0xff, 0x0a]))).rejects.toThrow("line 2 is not in UTF-8");
    await expect(linesOf(new Uint8Array(1_100_000).fill(0x61), 65_536)).rejects.toThrow("line 1 is longer");
  });
});
