import { expect, test } from "bun:test";
import { CATALOGUE, unverifiedFiles } from "./catalogue.ts";

test("every name and every known hash is there once, and addresses name a fixed commit where one is known", () => {
  const names = CATALOGUE.map(({ name }) => name);
  expect(new Set(names).size).toBe(names.length);
  const hashes = CATALOGUE.flatMap(({ files }) => files.flatMap(({ sha256 }) => sha256 ?? []));
  expect(new Set(hashes).size).toBe(hashes.length);
  for (const { name, files, size, form, licence, source } of CATALOGUE) {
    expect(name).toMatch(/^[a-z0-9][a-z0-9._-]+$/);
    expect(size.bytes).toBeGreaterThan(5e6);
    expect([licence, source].every((text) => text.length > 2)).toBe(true);
    for (const file of files) {
      expect(file.url).toStartWith("https://huggingface.co/");
      expect(file.url).toEndWith(`/${file.name}`);
      if (file.sha256 !== undefined) expect(file.sha256).toMatch(/^[0-9a-f]{64}$/);
    }
    // Weights are checked where their SHA-256 is published.
    expect(files.at(-1)?.sha256 !== undefined).toBe(!name.startsWith("indicconformer"));
    expect(form === "folder" || form === "punctuation" ? 1 : files.length).toBe(1);
  }
});

test("single files are known to the byte; of fine-tunes the files beside the weights cannot be checked", () => {
  for (const entry of CATALOGUE) {
    expect(unverifiedFiles(entry).length > 0).toBe(entry.form === "folder");
    if (entry.form !== "folder" && entry.form !== "punctuation")
      expect(entry.size).toEqual({ bytes: entry.files[0]?.bytes ?? 0, isRounded: false });
  }
});
