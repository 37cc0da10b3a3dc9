import { readFileSync } from "node:fs";
import { join } from "node:path";

const DEMO = join(import.meta.dirname, "../../../models/demo.bin");
const BYTES_OF_NUMBER = 4;
/** Numbers of the head, and those of one row of the filters behind it (whisper.cpp's `whisper_model_load`). */
const NUMBERS_OF_HEAD = 12;
const MELS_AT = 10;

/**
 * Makes the demonstration model write other words. Its tokens are whole words with a space before them, so it can write any script.
 *
 * @param other returns what is in the place of a word, with the space before it where the script has one
 * @returns the file of weights
 */
export function demoWriting(other: (word: string) => string): Uint8Array {
  const file = readFileSync(DEMO);
  const numberAt = (at: number) => file.readInt32LE(at);
  let at = NUMBERS_OF_HEAD * BYTES_OF_NUMBER;
  const [rows, columns] = [numberAt(at), numberAt(at + BYTES_OF_NUMBER)];
  if (rows !== numberAt(MELS_AT * BYTES_OF_NUMBER))
    throw new Error("the demonstration model has another form");
  at += (2 + rows * columns) * BYTES_OF_NUMBER;
  const count = numberAt(at);
  at += BYTES_OF_NUMBER;
  const parts = [file.subarray(0, at)];
  for (let token = 0; token < count; token++) {
    const end = at + BYTES_OF_NUMBER + numberAt(at);
    const text = file.toString("utf8", at + BYTES_OF_NUMBER, end);
    const written = Buffer.from(/^ \S/u.test(text) ? other(text.slice(1)) : text);
    const length = Buffer.alloc(BYTES_OF_NUMBER);
    length.writeInt32LE(written.length);
    parts.push(length, written);
    at = end;
  }
  return Buffer.concat([...parts, file.subarray(at)]);
}
