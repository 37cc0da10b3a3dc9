import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import type { Page } from "playwright-core";
import { findChromium } from "../testing/console/chromium.ts";
import { type ConsoleBrowser, openConsoleBrowser } from "../testing/console/console-browser.ts";
import { madeTranscript, showMade } from "../testing/console/console-transcripts.ts";
import { type Installation, install, type RunningServer, until } from "./kit.ts";

/** What a person types in the console is not lost, in a real browser, on the compiled executable. */

setDefaultTimeout(120_000);

const hasBrowser = findChromium() !== undefined;
if (!hasBrowser) console.warn("No Chromium is installed: typing is not tested in a browser.");

const SPOKEN = Array.from({ length: 120 }, (_, index) => ({
  text: `sentence number ${index}`,
  language: "en",
}));
const MADE = [0, 1].map((number) => madeTranscript(SPOKEN, { number, secondsEach: 2 }));
const TYPED = "is this what was said";

describe.skipIf(!hasBrowser)("a correction that is being typed (needs Chromium)", () => {
  let installation: Installation;
  let server: RunningServer;
  let browser: ConsoleBrowser;
  let page: Page;

  beforeAll(async () => {
    installation = await install();
    server = await (await installation.serve()).ready();
    browser = await openConsoleBrowser();
    ({ page } = browser);
    page.setDefaultTimeout(10_000);
    await showMade(page, MADE);
    await page.goto(`${server.baseUrl}/console`);
    await page.getByLabel("Keep it until I close this tab").check();
    await page.getByLabel("Project key").fill(installation.key);
    await page.locator("form button[type=submit]").click();
    await show(0);
  });
  afterAll(async () => {
    await browser?.close();
    await installation?.remove();
  });

  async function show(number: number): Promise<void> {
    await page.evaluate(`location.hash = "#/t/${MADE[number]?.one.id}"`);
    await page.locator("h1", { hasText: "English recording" }).waitFor();
    await page.locator('[data-index="0"]').waitFor();
    await page.locator(".play-bar .primary:enabled").waitFor();
  }
  const row = (index: number) => page.locator(`[data-index="${index}"]`);
  const field = (index: number) => row(index).locator("textarea");
  const wheel = async (pixels: number) => {
    await page.locator(".segments").hover();
    await page.mouse.wheel(0, pixels);
  };
  const isPlaying = async () => (await page.locator(".round .icon-pause").count()) === 1;

  test("begins with a double-click, which starts no sound; a single click does", async () => {
    await row(2).locator(".segment-text").dblclick();
    await field(2).waitFor();
    // Longer than a click waits for the second one.
    await page.waitForTimeout(500);
    expect(await isPlaying()).toBe(false);
    await page.keyboard.press("Escape");
    await row(1).locator(".segment-text").click();
    await until("it plays", isPlaying);
    await page.locator(".round").click();
    await until("it is silent", async () => !(await isPlaying()));
  });

  test("takes a question mark as a letter", async () => {
    await row(2).locator(".segment-text").dblclick();
    await field(2).fill("");
    await page.keyboard.type(`${TYPED}?`);
    expect(await page.locator("dialog").count()).toBe(0);
    expect(await field(2).inputValue()).toBe(`${TYPED}?`);
  });

  test("stays when the text is scrolled, with the keyboard in it", async () => {
    await wheel(20_000);
    await row(SPOKEN.length - 1).waitFor();
    await page.keyboard.type("!");
    await wheel(-20_000);
    await row(0).waitFor();
    expect(await field(2).inputValue()).toBe(`${TYPED}?!`);
    expect(await field(2).evaluate((element) => element === element.ownerDocument.activeElement)).toBe(true);
  });

  test("is not led away by the sound", async () => {
    await row(3).locator(".time").click();
    await field(2).focus();
    await page.getByTitle("Speed").selectOption("2");
    await page.evaluate("document.querySelector('.play-bar').scrollIntoView()");
    await row(5).and(page.locator(".heard")).waitFor();
    expect(await row(5).and(page.locator(".focused")).count()).toBe(0);
    await page.locator(".round").click();
    expect(await field(2).inputValue()).toBe(`${TYPED}?!`);
  });

  test("stays when another segment is opened, or another recording", async () => {
    await row(4).locator(".segment-text").dblclick();
    await field(4).fill("a second one");
    expect(await field(2).inputValue()).toBe(`${TYPED}?!`);
    await show(1);
    expect(await page.locator("textarea").count()).toBe(0);
    await show(0);
    await field(2).waitFor();
    expect(await field(2).inputValue()).toBe(`${TYPED}?!`);
    expect(await field(4).inputValue()).toBe("a second one");
  });

  test("stays when the page is loaded again, which asks before", async () => {
    let asked = "";
    page.once("dialog", (dialog) => {
      asked = dialog.type();
      void dialog.accept();
    });
    await page.reload();
    await field(2).waitFor();
    expect(asked).toBe("beforeunload");
    expect(await field(2).inputValue()).toBe(`${TYPED}?!`);
    await field(4).focus();
    await page.keyboard.press("Escape");
    // The text takes the keyboard back.
    await row(4).locator(".segment-text:focus").waitFor();
    await field(2).focus();
    await page.keyboard.press("Control+Enter");
    await row(2).getByText(`${TYPED}?!`).waitFor();
    // Nothing is open now, so nothing is asked; the correction is kept, and the one that was given up is not.
    await page.reload();
    await row(2).getByText(`${TYPED}?!`).waitFor();
    expect(await row(4).locator(".segment-text").textContent()).toBe("sentence number 4");
    expect(await page.locator("textarea").count()).toBe(0);
  });
});
