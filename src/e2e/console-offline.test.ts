import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { join } from "node:path";
import type { CDPSession } from "playwright-core";
import { LANGUAGES } from "../domain/languages.ts";
import { findChromium } from "../testing/console/chromium.ts";
import { openConsoleBrowser, signInWith } from "../testing/console/console-browser.ts";
import { madeTranscript, showMade } from "../testing/console/console-transcripts.ts";
import { type Walk, walkConsole } from "./console-walk.ts";
import { install } from "./kit.ts";

/** The console of the executable where there is no network, and no font but its own. */

setDefaultTimeout(240_000);

const hasBrowser = findChromium() !== undefined;
if (!hasBrowser) console.warn("No Chromium is installed: the console is not tested without a network.");

/** Every name but this machine's is unknown to the browser. */
const NO_NAMES = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1";

/** A shell that has a network of its own, with loopback alone, and runs its argument there. */
const CUT_OFF = ["unshare", "-rn", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"];
const canCutOff = Bun.which("unshare") !== null && Bun.spawnSync([...CUT_OFF, "true"]).success;
if (!canCutOff) console.warn("This machine allows no network namespaces: the network is not really cut.");

function expectNothingMissing({ views, requests, outside, failed, errors }: Walk): void {
  expect({ outside, failed, errors }).toEqual({ outside: [], failed: [], errors: [] });
  expect(views.length).toBeGreaterThan(15);
  expect(requests).toBeGreaterThan(50);
}

describe.skipIf(!hasBrowser)("every view of the console (needs Chromium)", () => {
  test("asks its own server alone where no other name is known", async () => {
    expectNothingMissing(await walkConsole([NO_NAMES]));
  });

  test.skipIf(!canCutOff)(
    "is whole where server and browser have no network but loopback (needs root and unshare)",
    async () => {
      const script = join(import.meta.dir, "console-walk.ts");
      const child = Bun.spawn([...CUT_OFF, process.execPath, script], { stdin: "ignore", stderr: "pipe" });
      const [out, problems, status] = await Promise.all([
        child.stdout.text(),
        child.stderr.text(),
        child.exited,
      ]);
      expect({ status, problems: status === 0 ? "" : problems }).toEqual({ status: 0, problems: "" });
      const walk = JSON.parse(out.trim().split("\n").at(-1) ?? "") as Walk;
      // The network is cut: nothing else would show it if it were not.
      expect(walk.elsewhere).not.toBe("connected");
      expectNothingMissing(walk);
    },
  );
});

/**
 * Letters of the languages that are written in Arabic script: Unicode CLDR's, the vowel signs, the digits and the stops.
 * Sindhi's `۽` and `۾` are words ("and", "in").
 */
const ARABIC: Record<string, string> = {
  ur: "ا ب پ ت ٹ ث ج چ ح خ د ڈ ذ ر ڑ ز ژ س ش ص ض ط ظ ع غ ف ق ک گ ل م ن و ہ ھ ء ی ے أ آ ں ؤ ۂ ۃ ئ ة ً ٌ ٍ َ ُ ِ ّ ْ ٔ ٖ ٗ ٘ ٰ ۰ ۱ ۲ ۳ ۴ ۵ ۶ ۷ ۸ ۹ ، ؛ ؟ ۔ ٫ ٬ ؍",
  sd: "ا ء آ ب ٻ پ ڀ ت ث ٺ ٽ ٿ ج ڃ ڄ چ ڇ ح خ د ذ ڊ ڌ ڍ ڏ ر ز ڙ س ش ص ض ط ظ ع غ ف ڦ ق ک ڪ گ ڱ ڳ ل م ن ڻ ه ھ و ي ئ ۽ ۾ َ ُ ِ ٰ ٠ ١ ٢ ٣ ٤ ٥ ٦ ٧ ٨ ٩ ، ؛ ؟ ٪",
  ks: "ا ء آ أ ٲ ٳ ؤ ب پ ت ث ٹ ج چ ح خ د ذ ڈ ر ز ڑ ژ س ش ص ض ط ظ ع غ ف ق ک گ ل م ن ں ھ ہ و ۄ ۆ ی ؠ ے ێ ۍ ئ َ ُ ِ ٔ ٕ ٟ ٖ ٗ ٚ ٛ ۰ ۹ ، ؟ ۔",
};
/** A letter that carries the signs, and the blocks of Unicode of the other scripts. */
const BLOCKS: Record<string, [carrier: string, ...blocks: [number, number][]]> = {
  hi: ["क", [0x0900, 0x097f]],
  bn: ["ক", [0x0980, 0x09fe]],
  pa: ["ਕ", [0x0a01, 0x0a76]],
  gu: ["ક", [0x0a81, 0x0aff]],
  or: ["କ", [0x0b01, 0x0b77]],
  ta: ["க", [0x0b82, 0x0bfa]],
  te: ["క", [0x0c00, 0x0c7f]],
  kn: ["ಕ", [0x0c80, 0x0cf2]],
  ml: ["ക", [0x0d00, 0x0d7f]],
  sat: ["ᱚ", [0x1c50, 0x1c7f]],
  mni: ["ꯀ", [0xabc0, 0xabf9], [0xaae0, 0xaaf6]],
};

/** Each letter as it is written: signs on a letter. */
function lettersOf(language: string): string[] {
  const named = ARABIC[language]?.split(" ");
  const [carrier = named?.[0] ?? "", ...blocks] = BLOCKS[language] ?? [];
  const all =
    named ??
    blocks.flatMap(([from, to]) =>
      Array.from({ length: to - from + 1 }, (_, index) => String.fromCodePoint(from + index)),
    );
  return all
    .filter((letter) => !/\p{Cn}/u.test(letter))
    .map((letter) => (/\p{M}/u.test(letter) ? carrier + letter : letter));
}

/** Puts each letter of each segment into an element of its own. */
const SPLIT = `for (const text of document.querySelectorAll(".segment-text")) {
  const letters = text.textContent.split(" ");
  text.replaceChildren(...letters.map((letter) => {
    const one = document.createElement("span");
    one.className = "letter";
    one.textContent = letter + " ";
    return one;
  }));
}`;

/** Waits until the fonts have come, and the page is drawn with them. */
const DRAWN = `document.fonts.ready.then(() => new Promise((done) =>
  requestAnimationFrame(() => requestAnimationFrame(done))))`;

type Drawn = { letter: string; fonts: { familyName: string; isCustomFont: boolean }[] };

/** Asks the browser with which fonts it has drawn each letter of a segment. */
async function fontsOf(session: CDPSession, language: string): Promise<Drawn[]> {
  const { root } = await session.send("DOM.getDocument", { depth: 0 });
  const selector = `.segment-text:lang(${language}) .letter`;
  const { nodeIds } = await session.send("DOM.querySelectorAll", { nodeId: root.nodeId, selector });
  const letters = lettersOf(language);
  expect([language, nodeIds.length]).toEqual([language, letters.length]);
  return Promise.all(
    nodeIds.map(async (nodeId, index) => {
      const { fonts } = await session.send("CSS.getPlatformFontsForNode", { nodeId });
      return { letter: letters[index] ?? "", fonts };
    }),
  );
}

test.skipIf(!hasBrowser)(
  "every letter of every language is drawn with a font of the page (needs Chromium)",
  async () => {
    const languages = [...Object.keys(ARABIC), ...Object.keys(BLOCKS)];
    const made = madeTranscript(
      languages.map((language) => ({ language, text: lettersOf(language).join(" ") })),
    );
    const installation = await install();
    // All segments are in the page at once.
    const { page, context, close } = await openConsoleBrowser({ height: 4000 });
    try {
      const server = await (await installation.serve()).ready();
      await showMade(page, [made]);
      await signInWith(page, server.baseUrl, installation.key);
      await page.evaluate(`location.hash = "#/t/${made.one.id}"`);
      await page.locator(".segment-text[lang=mni]").waitFor();
      await page.evaluate(SPLIT);
      // A name of a file may have letters of any language, and headings are bold.
      const names = LANGUAGES.map(({ nativeName }) => nativeName).join(" ");
      await page.evaluate(`document.querySelector("h1").textContent = ${JSON.stringify(names)}`);
      await page.evaluate(DRAWN);
      const session = await context.newCDPSession(page);
      await session.send("DOM.enable");
      await session.send("CSS.enable");
      const { root } = await session.send("DOM.getDocument", { depth: 0 });
      const { nodeId } = await session.send("DOM.querySelector", { nodeId: root.nodeId, selector: "h1" });
      const { fonts } = await session.send("CSS.getPlatformFontsForNode", { nodeId });
      expect(fonts.filter(({ isCustomFont }) => !isCustomFont)).toEqual([]);
      for (const language of languages) {
        const drawn = await fontsOf(session, language);
        const foreign = drawn.filter(
          ({ fonts }) => fonts.length === 0 || fonts.some(({ isCustomFont }) => !isCustomFont),
        );
        expect({ language, foreign }).toEqual({ language, foreign: [] });
        const families = new Set(drawn.flatMap(({ fonts }) => fonts.map(({ familyName }) => familyName)));
        // Urdu and Kashmiri are written in Nastaliq, Sindhi in Naskh.
        const isNastaliq = [...families].some((name) => name.includes("Nastaliq"));
        expect({ language, isNastaliq }).toEqual({
          language,
          isNastaliq: ["ur", "ks"].includes(language),
        });
      }
    } finally {
      await close();
      await installation.remove();
    }
  },
);
