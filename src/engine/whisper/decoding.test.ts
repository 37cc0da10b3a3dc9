import { afterAll, describe, expect, test } from "bun:test";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { LANGUAGES } from "../../domain/languages.ts";
import { MODES } from "../../domain/transcription.ts";
import { samplePath } from "../../e2e/samples.ts";
import { makeWav, seededRandom } from "../../testing/makers/audio-makers.ts";
import { askWhisperChild } from "../../testing/programs/ask-whisper-child.ts";
import type { Effort, RandomText, Sound } from "../../testing/programs/decoding-test-child.ts";
import { manualPages, readDocument } from "../../testing/rules/documents.ts";

/** What bounds the decoder: characters byte by byte, loops, and the cost of a chunk. */

const DEMO = join(import.meta.dirname, "../../../models/demo.bin");
const LIMIT_MS = 900_000;
/** Documents whose sentences no loop is found in. */
const ORDINARY_TEXTS = ["README.md", ...manualPages()];
const ask = <T>(scenario: string, request: object) =>
  askWhisperChild<T>(scenario, request, LIMIT_MS, [], "decoding-test-child.ts");

test(
  "no tokens spell a letter of another script, whatever follows what, in every language and mode",
  async () => {
    const texts = await ask<RandomText[]>("randomTexts", { model: DEMO, tokens: 1_000_000 });
    expect(texts).toHaveLength(LANGUAGES.length * MODES.length);
    expect(texts.filter(({ foreign }) => foreign !== "")).toEqual([]);
    expect(texts.filter(({ characters }) => characters < 10_000)).toEqual([]);
  },
  LIMIT_MS,
);

type Loop = { begin: number; unit: number } | null;

describe("a loop", () => {
  const bytes = (text: string) => Buffer.byteLength(text);
  /** Words that are not the same, in each script. */
  const WORDS = {
    Latin: "the river runs past seven old houses before it reaches a quiet lake under tall green hills again",
    Devanagari: "नदी सात पुराने घरों के पास से बहती हुई शांत झील तक पहाड़ियों नीचे जाती और रुकती है फिर वहाँ",
    Tamil: "ஆறு ஏழு பழைய வீடுகளைக் கடந்து அமைதியான ஏரியை அடைகிறது மீண்டும் பச்சை மலைகளின் கீழே ஓடி வந்து நின்றது",
    Arabic: "دریا سات پرانے گھروں کے پاس سے بہتا ہوا خاموش جھیل تک پہاڑیوں نیچے جاتا اور رکتا ہے پھر وہاں",
  };

  test("of any length in any script is found before it has been written four times or with twelve words", async () => {
    const cases = Object.values(WORDS).flatMap((sentence) => {
      const words = sentence.split(" ");
      const before = ` ${words.slice(0, 5).join(" ")}`;
      return words.map((_, last) => {
        const unit = ` ${words.slice(0, last + 1).join(" ")}.`;
        return { before: before.slice(0, -3), unit, times: Math.max(4, Math.ceil(13 / (last + 1))) };
      });
    });
    const texts = cases.map(({ before, unit, times }) => before + unit.repeat(times));
    const loops = await ask<Loop[]>("loops", { texts });
    for (const [at, loop] of loops.entries()) {
      const { before, unit } = cases[at] ?? { before: "", unit: "" };
      expect({ text: texts[at], unit: loop?.unit }).toEqual({ text: texts[at], unit: bytes(unit) });
      // The text before may end as the unit does.
      expect(loop?.begin ?? -1).toBeWithin(bytes(before) - bytes(unit) + 1, bytes(before) + 1);
    }
  });

  test("of letters without spaces is found, also in the middle of a character", async () => {
    const random = seededRandom(3);
    const letters = ["अ", "ா", "ab", "哈", "🙂", "..", "ह्", "é-"];
    const texts = letters.map((unit) => `so${unit.repeat(24 + Math.floor(random() * 20))}`);
    expect((await ask<Loop[]>("loops", { texts })).filter((loop) => loop === null)).toEqual([]);
  });

  test("is not what people repeat on purpose, nor ordinary text", async () => {
    const ordinary = ORDINARY_TEXTS.map((path) => readDocument(path)).join("\n");
    const texts = [
      " no no no no no no, I said no",
      " zero zero zero zero zero zero",
      " बहुत बहुत बहुत धन्यवाद",
      " ha ha ha ha ha",
      " aaaaaaaaaah",
      " 100000000000000000000000",
      " Row, row, row your boat. Row, row, row your boat.",
      ...Object.values(WORDS).map((words) => ` ${words} ${words}`),
      ...(ordinary.match(/[A-Z][^.|`#]{40,400}\./gu) ?? []),
    ];
    const loops = await ask<Loop[]>("loops", { texts });
    expect(texts.filter((_, at) => loops[at] !== null)).toEqual([]);
  });
});

const dir = mkdtempSync(join(tmpdir(), "shruti-decoding-"));
afterAll(() => rmSync(dir, { recursive: true, force: true }));

/** Writes sounds on which models go wrong, and returns the path of each by its name. */
function worstSounds(): Record<string, string> {
  const random = seededRandom(5);
  const sound = (name: string, seconds: number, at: (t: number) => number) => {
    const path = join(dir, `${name}.wav`);
    writeFileSync(path, makeWav({ seconds, sample: at }));
    return path;
  };
  const tone = (hertz: number, t: number) => Math.sin(2 * Math.PI * hertz * t);
  return {
    ring: sound("ring", 28, (t) => (t % 6 < 2 ? 0.2 * (tone(440, t) + tone(480, t)) : 0)),
    // A voice's harmonics that glide between notes.
    singing: sound("singing", 20, (t) => {
      const note = 220 * 2 ** ((Math.floor(t * 2) % 5) / 12) * (1 + 0.01 * tone(6, t));
      return [1, 2, 3, 4, 5].reduce((sum, n) => sum + (0.15 / n) * tone(n * note, t), 0);
    }),
    noise: sound("noise", 5, () => 0.2 * (random() - 0.5)),
    silence: sound("silence", 5, () => 0),
    click: sound("click", 1, (t) => (t < 0.01 ? 0.9 : 0)),
  };
}

/** The bound of src/pipeline/chunk-effort.ts. */
const MOST_EFFORT = 2.5;

/** Speech of synthetic voices, from models/samples. */
const VOICES = ["01-en", "02-hi", "03-mixed", "13-hi-noise"];
const TESTED = [...["ring", "singing", "noise", "silence", "click"], ...VOICES];

/**
 * A real model takes longer, and fails in fewer ways: speech in other languages, tones, noise, and languages that it cannot
 * write. Under three minutes on two free cores.
 */
const WORST_OF_REAL = [
  ...["ring hi", "ring ta", "singing gu", "noise en", "noise hi", "silence hi", "click en"],
  ...["01-en en", "01-en gu", "02-hi hi", "03-mixed en", "03-mixed hi", "13-hi-noise ta"],
];

describe.each([
  ["the demonstration model", DEMO, TESTED.flatMap((sound) => [`${sound} en`, `${sound} hi`])],
  ["Whisper base (SHRUTI_REAL_MODEL)", process.env.SHRUTI_REAL_MODEL ?? "", WORST_OF_REAL],
])("with %s", (_, model, cases) => {
  test.skipIf(!existsSync(model))(
    "a chunk costs at most two and a half times as much as clear speech, whatever is in it (needs SHRUTI_REAL_MODEL)",
    async () => {
      const worst = worstSounds();
      const sounds: Sound[] = cases.map((one) => {
        const [name = "", language = ""] = one.split(" ");
        return { name, language, wav: worst[name] ?? samplePath(name) };
      });
      const efforts = await ask<Effort[]>("efforts", { model, sounds });
      expect(efforts).toHaveLength(sounds.length);
      for (const { name, language, effort } of efforts) {
        expect({ name, language, effort: effort <= MOST_EFFORT ? "bounded" : effort }).toEqual({
          ...{ name, language },
          effort: "bounded",
        });
        expect(effort).toBeGreaterThan(0);
      }
      // The unit is the cost of clear speech.
      const clear = efforts.find(({ name, language }) => name === "01-en" && language === "en");
      expect(clear?.text).not.toBe("");
      expect(clear?.effort).toBeWithin(0.4, 1.3);
    },
    LIMIT_MS,
  );
});
