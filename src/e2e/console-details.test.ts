import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { findChromium } from "../testing/console/chromium.ts";
import { type ConsoleBrowser, openConsoleBrowser, signInWith } from "../testing/console/console-browser.ts";
import { madeTranscript, showMade } from "../testing/console/console-transcripts.ts";
import { type Installation, install, type RunningServer, until } from "./kit.ts";

/** What a transcript in the console does for people who listen, look and type in different ways, in a real browser. */

setDefaultTimeout(120_000);

const hasBrowser = findChromium() !== undefined;
if (!hasBrowser) console.warn("No Chromium is installed: details are not tested in a browser.");

const ROWS = 600;
const CONFIDENCES = [0.95, 0.7, 0.4];
const CALL = madeTranscript(
  Array.from({ length: ROWS }, (_, index) => ({
    text: `um sentence ${index} is um said`,
    language: "en",
    speaker: 1 + (index % 9),
    confidence: CONFIDENCES[index % 3] ?? 1,
  })),
  { gap: 4 },
);
const SHORT = madeTranscript([{ text: "good morning", language: "en" }], { number: 1, secondsEach: 40 });
/** Its two texts have 0.8 s between them. */
const MUFFLED = (() => {
  const texts = ["good morning", "good evening"].map((text) => ({ text, language: "en" }));
  const { result, ...made } = madeTranscript(texts, { number: 2 });
  const warnings = ["unrecognized_speech" as const];
  return { ...made, result: { ...result, warnings, unrecognized: [{ start: 3.4, end: 4.4 }] } };
})();
/** Its words have times: one begins every 5 s, and the third is doubtful. */
const WORDS = (() => {
  const { result, ...made } = madeTranscript([{ text: "good morning to you", language: "en" }], {
    ...{ number: 3, secondsEach: 20 },
  });
  const segments = result.segments.map((segment) => ({
    ...segment,
    words: segment.text.split(" ").map((text, index) => ({
      ...{ text, start: 5 * index + 0.3, end: 5 * index + 4 },
      confidence: index === 2 ? 0.3 : 0.95,
    })),
  }));
  return { ...made, result: { ...result, segments } };
})();
const AXE = readFileSync(join(import.meta.dir, "../../node_modules/axe-core/axe.min.js"), "utf8");

describe.skipIf(!hasBrowser)("a transcript (needs Chromium)", () => {
  let installation: Installation;
  let server: RunningServer;
  let browser: ConsoleBrowser;
  let page: Page;

  beforeAll(async () => {
    installation = await install();
    server = await (await installation.serve()).ready();
    browser = await openConsoleBrowser();
    ({ page } = browser);
    page.setDefaultTimeout(20_000);
    await showMade(page, [CALL, SHORT, MUFFLED, WORDS]);
    await page.goto(`${server.baseUrl}/console`);
    await page.getByLabel("Keep it until I close this tab").check();
    await page.getByLabel("Project key").fill(installation.key);
    await page.locator("form button[type=submit]").click();
    await page.locator(".workplace").waitFor();
  });
  afterAll(async () => {
    await browser?.close();
    await installation?.remove();
  });

  const row = (index: number) => page.locator(`[data-index="${index}"]`);
  async function open({ one }: typeof CALL): Promise<void> {
    await page.evaluate(`location.hash = "#/t/${one.id}"`);
    await page.locator(".facts code", { hasText: one.id }).waitFor();
    await row(0).waitFor();
    await page.locator(".play-bar .primary:enabled").waitFor();
  }
  const isPlaying = async () => (await page.locator(".round .icon-pause").count()) === 1;
  const focusIsIn = (selector: string) =>
    page.evaluate<boolean>(`document.activeElement.matches(${JSON.stringify(selector)})`);

  /** A property of all elements, as it is computed. */
  const stylesOf = (selector: string, property: string) =>
    page.evaluate<string[]>(`[...document.querySelectorAll(${JSON.stringify(selector)})]
      .map((one) => getComputedStyle(one).getPropertyValue(${JSON.stringify(property)}))`);

  test("has one heading of the first level and leaves out none, and so has the list", async () => {
    await page.evaluate(AXE);
    const findings = () =>
      page.evaluate<string[]>(`axe.run({ runOnly: ["page-has-heading-one", "heading-order"] })
        .then(({ violations }) => violations.map(({ id }) => id))`);
    expect(await findings()).toEqual([]);
    await open(CALL);
    expect(await findings()).toEqual([]);
    expect(await page.locator("h1").count()).toBe(1);
  });

  test("has a place for speech that the result calls unrecognized", async () => {
    await open(MUFFLED);
    await row(1).getByText("1 s of sound without words").waitFor();
    expect(await row(0).textContent()).toContain("good morning");
    expect(await row(2).textContent()).toContain("good evening");
    await page.getByText("1 place to check").waitFor();
  });

  test("marks the word that is heard, plays a word that is clicked, and shades a doubtful one", async () => {
    await open(WORDS);
    const word = (text: string) => row(0).locator(".word", { hasText: text });
    expect(await row(0).locator(".word.doubt-strong").allTextContents()).toEqual(["to"]);
    await word("you").click();
    await word("you").and(page.locator(".spoken")).waitFor();
    expect(await row(0).locator(".word.spoken").count()).toBe(1);
    await until("it plays", isPlaying);
    await word("morning").click();
    await word("morning").and(page.locator(".spoken")).waitFor();
    await page.locator(".round").click();
    await until("it is silent", async () => !(await isPlaying()));
    // A word that was corrected has the time of the one that it replaces, and the others keep theirs.
    await row(0).locator(".segment-text").dblclick();
    await page.getByLabel("Correct this text").fill("good evening to you");
    await page.keyboard.press("Control+Enter");
    expect(await word("evening").getAttribute("data-start")).toBe("5.3");
    expect(await word("you").getAttribute("data-start")).toBe("15.3");
    await page.keyboard.press("Control+z");
    await word("morning").waitFor();
  });

  test("tells nine speakers apart", async () => {
    await open(CALL);
    const looks = await stylesOf(".speakers .swatch", "background");
    expect(new Set(looks).size).toBe(9);
  });

  test("frees the rows that have left the window", async () => {
    await open(CALL);
    const session = await browser.context.newCDPSession(page);
    const counters = async () => {
      for (let left = 2; left > 0; left -= 1) await session.send("HeapProfiler.collectGarbage");
      const { nodes, jsEventListeners } = await session.send("Memory.getDOMCounters");
      return { nodes, jsEventListeners };
    };
    await row(0).locator(".segment-text").focus();
    const down = async (times: number) => {
      for (let left = times; left > 0; left -= 1) await page.keyboard.press("ArrowDown");
    };
    // Views that the list has drawn again keep what they had before.
    const redraw = () => page.locator(".filters button").first().click();
    await redraw();
    await down(50);
    await redraw();
    await row(50).locator(".segment-text").focus();
    const before = await counters();
    await down(250);
    await row(300).and(page.locator(".focused")).waitFor();
    const after = await counters();
    // Each row has 11 nodes and 4 listeners; 250 have come and gone.
    expect(after.nodes - before.nodes).toBeLessThan(250);
    expect(after.jsEventListeners - before.jsEventListeners).toBeLessThan(100);
    await page.keyboard.press("k");
    await session.detach();
  });

  test("says what is current, doubtful and where, in colours that the system forces", async () => {
    await open(SHORT);
    await open(CALL);
    await page.emulateMedia({ forcedColors: "active" });
    const style = async (selector: string, property: string) => (await stylesOf(selector, property))[0];
    const canvas = await style("body", "background-color");
    const background = (selector: string) => style(selector, "background-color");
    expect(await background(".entry[aria-current]")).not.toBe(await background(".entry:not([aria-current])"));
    expect(await background("[aria-pressed=true]")).not.toBe(await background("[aria-pressed=false]"));
    expect(await background(".doubt-strong")).not.toBe(await background(".doubt-none"));
    // No row but the one that is heard has a line.
    await row(1).locator(".time").click();
    await row(1).and(page.locator(".heard")).waitFor();
    await page.locator(".round").click();
    expect(await style(".segment-row:not(.heard)", "border-left-color")).toBe(canvas);
    expect(await style(".segment-row.heard", "border-left-color")).not.toBe(canvas);
    expect(new Set(await stylesOf(".speakers .swatch", "background")).size).toBe(9);
    const borders = await stylesOf(".key", "border");
    const fills = await stylesOf(".key", "background");
    expect(new Set(fills.map((fill, index) => `${fill} ${borders[index]}`)).size).toBe(4);
    // The lane is a picture: speakers, words, doubt and a gap have colours of their own.
    const colours = await page.evaluate<number>(`(() => {
      const lane = document.querySelector("canvas.lane");
      const { data } = lane.getContext("2d").getImageData(0, 0, lane.width, lane.height);
      const found = new Map();
      for (let at = 0; at < data.length; at += 4)
        if (data[at + 3] === 255) found.set(data.slice(at, at + 3).join(), 1 + (found.get(data.slice(at, at + 3).join()) ?? 0));
      return [...found.values()].filter((pixels) => pixels > 20).length;
    })()`);
    expect(colours).toBeGreaterThan(5);
    await page.emulateMedia({ forcedColors: "none" });
  });

  test("has a menu that Escape, a click elsewhere, and a keyboard elsewhere close", async () => {
    const menu = page.locator("details.menu");
    const isOpen = async () => (await page.locator("details.menu[open]").count()) === 1;
    await menu.locator("summary").click();
    // Documentation is another page: the key may be in the memory of this one alone.
    expect(await menu.getByRole("link", { name: "API" }).getAttribute("target")).toBe("_blank");
    await page.keyboard.press("Escape");
    expect([await isOpen(), await focusIsIn(".menu summary")]).toEqual([false, true]);
    await page.keyboard.press("Enter");
    expect(await isOpen()).toBe(true);
    await page.locator("h1").click();
    expect(await isOpen()).toBe(false);
    await menu.locator("summary").click();
    await page.locator(".entry").first().focus();
    expect(await isOpen()).toBe(false);
    // A question of the menu is not elsewhere, and Escape closes it alone.
    await menu.locator("summary").click();
    await page.getByRole("button", { name: "Forget what this browser keeps" }).click();
    await page.locator("dialog").waitFor();
    await page.keyboard.press("Escape");
    await page.locator("dialog").waitFor({ state: "detached" });
    expect(await isOpen()).toBe(true);
    await page.keyboard.press("Escape");
  });

  test("gives the keyboard back after a search, and replaces by nothing", async () => {
    await open(CALL);
    await page.keyboard.press("/");
    await page.keyboard.type("sentence 7 ");
    await row(7).and(page.locator(".focused")).waitFor();
    await page.keyboard.press("Escape");
    expect(await focusIsIn('[data-index="7"] .segment-text')).toBe(true);
    await page.keyboard.press("/");
    await page.keyboard.type("um");
    await page.getByRole("button", { name: /^Remove \d+$/ }).click();
    await page.keyboard.press("Escape");
    await row(7).getByText("sentence 7 is said", { exact: true }).waitFor();
    await page.keyboard.press("Control+z");
    await row(7).getByText("um sentence 7 is um said", { exact: true }).waitFor();
  });

  test("has a slider with all keys of one", async () => {
    await open(SHORT);
    const slider = page.locator(".waveform-sound");
    const at = async () => Number(await slider.getAttribute("aria-valuenow"));
    await slider.focus();
    for (const [key, seconds] of [
      ["End", 40],
      ["PageDown", 30],
      ["Home", 0],
      ["PageUp", 10],
    ] as const) {
      await page.keyboard.press(key);
      await until(`${key} leads to ${seconds} s`, async () => (await at()) === seconds);
    }
  });

  test("has a name again after its name was emptied", async () => {
    await open(SHORT);
    const name = page.getByLabel("Name", { exact: true });
    const heading = page.locator("h1");
    await name.fill("A call");
    await page.keyboard.press("Tab");
    await heading.getByText("A call").waitFor();
    await name.fill(" ");
    await page.keyboard.press("Tab");
    await heading.getByText("English recording").waitFor();
    expect(await name.inputValue()).toBe("English recording");
  });

  test("is silent while a person types, where that is wished", async () => {
    await open(SHORT);
    await row(0).locator(".segment-text").dblclick();
    await page.getByLabel("Pause while I type").check();
    await row(0).locator(".time").click();
    await until("it plays", isPlaying);
    await page.getByLabel("Correct this text").focus();
    await page.keyboard.type("x");
    await until("it is silent", async () => !(await isPlaying()));
    await until("it plays on by itself", isPlaying);
    await page.locator(".round").click();
    await until("a person has stopped it", async () => !(await isPlaying()));
    await page.getByLabel("Correct this text").focus();
    await page.keyboard.type("y");
    // Longer than the silence: nothing plays that a person has stopped.
    await page.waitForTimeout(2500);
    expect(await isPlaying()).toBe(false);
    await page.getByLabel("Pause while I type").uncheck();
    await page.getByLabel("Correct this text").focus();
    await page.keyboard.press("Escape");
  });

  test("plays nothing after it was left", async () => {
    await open(SHORT);
    await page.evaluate(`window.played = 0;
      HTMLMediaElement.prototype.play = ((play) => function () {
        window.played += 1;
        return play.call(this);
      })(HTMLMediaElement.prototype.play)`);
    await row(0).locator(".segment-text").click();
    await page.evaluate(`location.hash = "#/"`);
    await page.waitForTimeout(800);
    expect(await page.evaluate<number>("window.played")).toBe(0);
  });

  test("takes acts back after a reload, and forgets them in all tabs", async () => {
    await page.reload();
    await open(SHORT);
    const text = row(0).locator(".segment-text");
    await text.dblclick();
    await page.getByLabel("Correct this text").fill("good evening");
    await page.keyboard.press("Control+Enter");
    await row(0).getByText("good evening").waitFor();
    const other = await browser.context.newPage();
    await showMade(other, [CALL, SHORT]);
    await signInWith(other, server.baseUrl, installation.key);
    await other.evaluate(`location.hash = "#/t/${SHORT.one.id}"`);
    await other.getByText("good evening").waitFor();
    await page.bringToFront();
    await page.reload();
    await open(SHORT);
    await row(0).getByText("good evening").waitFor();
    await page.keyboard.press("Control+z");
    await row(0).getByText("good morning").waitFor();
    await other.getByText("good morning").waitFor();
    await page.keyboard.press("Control+y");
    await other.getByText("good evening").waitFor();
    await page.locator(".menu summary").click();
    await page.getByRole("button", { name: "Forget what this browser keeps" }).click();
    await page.locator("dialog .danger").click();
    await other.getByText("good morning").waitFor();
    await other.keyboard.press("Control+z");
    expect(await other.locator(".segment-text").first().textContent()).toBe("good morning");
    await other.close();
  });
});
