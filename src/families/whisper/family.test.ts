import { afterAll, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { whisperFamily, whisperSettings } from "./family.ts";

const folder = mkdtempSync(join(tmpdir(), "shruti-whisper-family-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

type Shape = { vocab: number; width: number; audioLayers: number; textLayers: number; mels: number };

/** Writes the head of a ggml file; nothing follows. */
function headOf({ vocab, width, audioLayers, textLayers, mels }: Shape): string {
  const heads = width / 64;
  const path = join(folder, `${vocab}-${width}-${audioLayers}-${textLayers}.bin`);
  const sizes = [vocab, 1500, width, heads, audioLayers, 448, width, heads, textLayers, mels, 1];
  writeFileSync(path, new Uint8Array(Uint32Array.from([0x67676d6c, ...sizes]).buffer));
  return path;
}

test.each<[string, Shape, boolean]>([
  ["tiny", { vocab: 51865, width: 384, audioLayers: 4, textLayers: 4, mels: 80 }, true],
  ["base", { vocab: 51865, width: 512, audioLayers: 6, textLayers: 6, mels: 80 }, true],
  ["large-v3", { vocab: 51866, width: 1280, audioLayers: 32, textLayers: 32, mels: 128 }, true],
  ["large-v3-turbo", { vocab: 51866, width: 1280, audioLayers: 32, textLayers: 4, mels: 128 }, false],
  ["distil-large-v3", { vocab: 51866, width: 1280, audioLayers: 32, textLayers: 2, mels: 128 }, false],
  ["base.en", { vocab: 51864, width: 512, audioLayers: 6, textLayers: 6, mels: 80 }, false],
])("%s can translate by its shape, unless its manifest says otherwise", (_, shape, can) => {
  const files = { weights: headOf(shape) };
  const canTranslate = (translates?: boolean) =>
    whisperFamily.canTranslate?.({
      files,
      decoding: translates === undefined ? {} : { tuning: { whisper: { translates } } },
    });
  expect([canTranslate(), canTranslate(false), canTranslate(true)]).toEqual([can, false, true]);
});

test("a file that cannot be read translates nothing", () => {
  expect(whisperFamily.canTranslate?.({ files: { weights: join(folder, "none") }, decoding: {} })).toBe(
    false,
  );
});

test("a translation is written as English, of the sound of the language", () => {
  const languages = [{ code: "hi", name: "Hindi", modes: ["native" as const], letters: "prompted" as const }];
  const model = { languages, decoding: {} };
  const translated = whisperSettings({ language: "hi", mode: "native", task: "translate" }, model);
  const english = whisperSettings({ language: "en", mode: "native" }, model);
  expect(translated).toEqual({ ...english, language: "hi", translates: true });
  expect(whisperSettings({ language: "en", mode: "native", task: "translate" }, model)).toEqual(english);
  expect(Object.keys(whisperSettings({ language: "hi", mode: "native" }, model))).not.toContain("translates");
});
