import { afterAll, expect, test } from "bun:test";
import { lengthOfFile } from "./length-of-file.ts";

/** Media elements that have not told their length yet. */
const open: { duration: number; src: string; onloadedmetadata?: () => void; onerror?: () => void }[] = [];
const had = Object.getOwnPropertyDescriptor(globalThis, "document");
const createElement = () => {
  const media = { duration: 0, src: "", removeAttribute: () => undefined };
  open.push(media);
  return media;
};
Object.defineProperty(globalThis, "document", { value: { createElement }, configurable: true });
afterAll(() => {
  if (had) Object.defineProperty(globalThis, "document", had);
  else Reflect.deleteProperty(globalThis, "document");
});

test("many files are measured a few at a time, and all of them are", async () => {
  const lengths = Array.from({ length: 20 }, (_, index) => lengthOfFile(new File(["x"], `${index}.wav`)));
  await Bun.sleep(1);
  let most = 0;
  for (let done = 0; done < lengths.length; done += 1) {
    most = Math.max(most, open.length);
    const media = open.shift();
    if (!media) throw new Error(`nothing is measured after ${done} files`);
    media.duration = done + 1;
    // Every third one cannot be played.
    if (done % 3 === 2) media.onerror?.();
    else media.onloadedmetadata?.();
    await Bun.sleep(1);
  }
  expect(most).toBe(6);
  const found = await Promise.all(lengths);
  expect(found.filter((seconds) => seconds === undefined)).toHaveLength(6);
  expect(found[0]).toBe(1);
});
