import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import type { Page } from "playwright-core";
import { findChromium } from "../testing/console/chromium.ts";
import {
  type ConsoleBrowser,
  downloaded,
  openConsoleBrowser,
  signInWith,
} from "../testing/console/console-browser.ts";
import { madeTranscript, showMade } from "../testing/console/console-transcripts.ts";
import { type Installation, install, type RunningServer } from "./kit.ts";
import { samplePath } from "./samples.ts";

/** Downloads with corrections have the form of those of the server, in a real browser, on the compiled executable. */

setDefaultTimeout(120_000);

const hasBrowser = findChromium() !== undefined;
if (!hasBrowser) console.warn("No Chromium is installed: downloads are not tested in a browser.");

const FORMS = [
  ["Subtitles (SRT)", "srt"],
  ["Subtitles (VTT)", "vtt"],
  ["Text", "text"],
  ["JSON", "json"],
] as const;
const CORRECTED = "one word";

describe.skipIf(!hasBrowser)("a download with a correction (needs Chromium)", () => {
  let installation: Installation;
  let server: RunningServer;
  let browser: ConsoleBrowser;
  let page: Page;

  beforeAll(async () => {
    installation = await install();
    server = await (await installation.serve()).ready();
    browser = await openConsoleBrowser();
    ({ page } = browser);
  });
  afterAll(async () => {
    await browser?.close();
    await installation?.remove();
  });

  const download = (form: string) =>
    downloaded(page, () => page.getByRole("button", { name: form, exact: true }).click());

  test("of a call with a channel for each side is the server's, with another text", async () => {
    await signInWith(page, server.baseUrl, installation.key);
    await page.locator(".top button.primary").click();
    await page.locator("input[type=file][multiple]").setInputFiles(samplePath("10-en-stereo"));
    await page.getByText("Each on its own").click();
    await page.locator("dialog .numbers", { hasText: "₹" }).last().waitFor();
    await page.locator("dialog button[type=submit]").click();
    await page.locator(".state-completed").first().waitFor({ timeout: 60_000 });
    await page.locator(".entry").first().click();
    await page.locator(".segment-row").first().waitFor();
    const { data } = await server.api().list();
    const id = data[0]?.id ?? "";
    const { segments } = await server.api().result(id);
    // The shortest text is one cue, before and after.
    const chosen = segments.toSorted((a, b) => a.text.length - b.text.length)[0];
    const { index = 0, text: original = "" } = chosen ?? {};
    expect(segments.filter(({ text }) => text === original)).toHaveLength(1);
    expect(new Set(segments.map(({ channel }) => channel))).toEqual(new Set([0, 1]));
    // Each channel has the number that files have.
    const shown = await page.locator(".who").allTextContents();
    expect(shown.slice(0, 2).toSorted()).toEqual(["Channel 0", "Channel 1"]);
    await page.locator(`[data-index="${index}"] .segment-text`).dblclick();
    await page.getByLabel("Correct this text").fill(CORRECTED);
    await page.keyboard.press("Control+Enter");
    await page.getByText(CORRECTED, { exact: true }).waitFor();
    const found: Record<string, string> = {};
    const expected: Record<string, string> = {};
    for (const [form, format] of FORMS) {
      const answer = await fetch(`${server.baseUrl}/v1/transcriptions/${id}/result?format=${format}`, {
        headers: { authorization: `Bearer ${installation.key}` },
      });
      expected[format] = (await answer.text()).replaceAll(original, CORRECTED);
      found[format] = (await download(form)).text;
    }
    expect(found).toEqual(expected);
    expect(found.srt).toContain("\n[channel 0] ");
    expect(found.vtt).toContain("\n[channel 1] ");
  });

  test("and with names has them as voices of WebVTT", async () => {
    const made = madeTranscript([
      { text: "good morning", language: "en", speaker: 1 },
      { text: "how are you", language: "en", speaker: 2 },
    ]);
    await showMade(page, [made]);
    await page.evaluate(`location.hash = "#/t/${made.one.id}"`);
    await page.locator(".speakers input[type=text]").first().fill("Asha");
    await page.keyboard.press("Tab");
    await page.locator('[data-index="1"] .segment-text').dblclick();
    await page.getByLabel("Correct this text").fill("who are you");
    await page.keyboard.press("Control+Enter");
    await page.getByText("who are you", { exact: true }).waitFor();
    const { text } = await download("Subtitles (VTT)");
    expect(text.match(/<v .*/g)).toEqual(["<v Asha>good morning</v>", "<v speaker_2>who are you</v>"]);
    expect((await download("Text")).text).toBe("Asha: good morning\nspeaker_2: who are you\n");
  });
});
