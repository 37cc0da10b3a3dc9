import { afterAll, expect, test } from "bun:test";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { removeAllScratch } from "../../lib/scratch.ts";
import { wordListArpa } from "../../testing/makers/arpa-maker.ts";
import { prepareNgrams } from "./models-ngram.ts";

const folder = mkdtempSync(join(tmpdir(), "shruti-models-ngram-"));
afterAll(() => rmSync(folder, { recursive: true }));
const path = join(folder, "words.arpa");
writeFileSync(path, wordListArpa(["one", "two"]));
const hindi = [{ code: "hi" }];

test("a converted ARPA file is removed at the end, and also where a signal ends the command", async () => {
  for (const endOf of [({ remove }: { remove: () => void }) => remove(), removeAllScratch]) {
    const prepared = await prepareNgrams([{ path }], hindi);
    const [file] = prepared.files;
    expect(file).toMatchObject({ role: "ngram", name: "ngram.hi.klm" });
    expect(existsSync(file?.path ?? "")).toBe(true);
    endOf(prepared);
    expect(existsSync(file?.path ?? "")).toBe(false);
  }
});

test("a folder is refused, and so are two models of one language", async () => {
  await expect(prepareNgrams([{ path: folder }], hindi)).rejects.toThrow("it is a directory");
  await expect(prepareNgrams([{ path }, { path }], hindi)).rejects.toThrow("given twice for hi");
});
