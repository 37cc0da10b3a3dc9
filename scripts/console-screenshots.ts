import { mkdirSync } from "node:fs";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import type { Page } from "playwright-core";
import { install, type RunningServer } from "../src/e2e/kit.ts";
import { samplePath } from "../src/e2e/samples.ts";
import { ADMIN_VIEWS, showMadeAdmin } from "../src/testing/console/console-admin.ts";
import {
  type BrowserOptions,
  openConsoleBrowser,
  signInWith,
} from "../src/testing/console/console-browser.ts";
import {
  CONVERSATION,
  madeTranscript,
  SCRIPTS,
  showMade,
} from "../src/testing/console/console-transcripts.ts";

/**
 * Makes pictures of every view of the console: light, dark, in Hindi, on a telephone of 360 pixels, on a tablet, and at 200 %. Real recordings are uploaded
 * and transcribed; what the demonstration model cannot write (speakers, gaps, all scripts) is made up.
 *
 * Usage: `bun scripts/console-screenshots.ts [--output FOLDER] [--only NAME]`
 */

const { values } = parseArgs({ options: { output: { type: "string" }, only: { type: "string" } } });
const OUTPUT = resolve(values.output ?? join(import.meta.dirname, "../build/screenshots"));

/** A way to look at the page. */
const LOOKS: Record<string, BrowserOptions> = {
  light: {},
  dark: { colours: "dark" },
  hindi: { language: "hi-IN" },
  phone: { width: 360, height: 740, scale: 2 },
  tablet: { width: 1000, height: 800 },
  // A window of 1280 by 800 at 200 %.
  zoom: { width: 640, height: 400, scale: 2 },
};

const conversation = madeTranscript(
  Array.from(
    { length: 60 },
    (_, index) => CONVERSATION[index % CONVERSATION.length] ?? { text: "", language: "hi" },
  ),
  { gap: 6 },
);
const scripts = madeTranscript(SCRIPTS, { number: 1 });

type Shot = (name: string) => Promise<unknown>;

async function person(page: Page, server: RunningServer, key: string, shot: Shot): Promise<void> {
  await page.goto(`${server.baseUrl}/console`);
  await page.locator("form").waitFor();
  await shot("1-sign-in");
  await signInWith(page, server.baseUrl, key);
  await page.locator(".list").waitFor();
  await page.waitForTimeout(500);
  await shot("2-list");
  await page.locator(".top button.primary").click();
  const files = [samplePath("02-hi"), samplePath("12-en-long")];
  await page.locator("input[type=file][multiple]").setInputFiles(files);
  await page.waitForTimeout(800);
  await shot("3-upload");
  await page.keyboard.press("Escape");
  await page.locator(".list .entry").first().click();
  await page.locator(".segment-row").first().waitFor();
  await page.waitForTimeout(1500);
  await shot("4-sample");
}

async function madeViews(page: Page, server: RunningServer, shot: Shot): Promise<void> {
  await showMade(page, [conversation, scripts]);
  await page.goto(`${server.baseUrl}/console#/t/${conversation.one.id}`);
  await page.locator(".segment-row .time").nth(2).click();
  await page.waitForTimeout(1500);
  await shot("5-transcript");
  await page.keyboard.press("k");
  await page.keyboard.press("e");
  await page.waitForTimeout(300);
  await shot("6-correcting");
  await page.keyboard.press("Escape");
  await page.keyboard.press("/");
  await page.keyboard.type("मौसम");
  await page.waitForTimeout(300);
  await shot("7-search");
  await page.keyboard.press("Escape");
  const facts = page.locator(".facts-button");
  if (await facts.isVisible()) {
    await facts.click();
    await shot("5-transcript-facts");
    await facts.click();
  }
  await page.goto(`${server.baseUrl}/console#/t/${scripts.one.id}`);
  await page.waitForTimeout(2000);
  await shot("8-scripts");
}

async function adminViews(page: Page, server: RunningServer, shot: Shot): Promise<void> {
  await showMadeAdmin(page);
  await page.goto(`${server.baseUrl}/console#/admin`);
  for (const [index, view] of ADMIN_VIEWS.entries()) {
    await page.evaluate(`location.hash = "#/admin/${view}"`);
    await page.waitForTimeout(700);
    const isOrganization = view.split("/").length > 1;
    await shot(`9-admin-${index + 1}-${isOrganization ? "organization" : view}`);
    if (!isOrganization) continue;
    await page.locator(".section-head button.primary").last().click();
    await page.waitForTimeout(300);
    await shot("9-admin-7-new-key");
    await page.keyboard.press("Escape");
  }
}

async function main(): Promise<void> {
  mkdirSync(OUTPUT, { recursive: true });
  const installation = await install();
  try {
    const server = await (await installation.serve()).ready();
    await firstRecordings(server, installation.key);
    for (const [look, options] of Object.entries(LOOKS)) {
      if (values.only !== undefined && values.only !== look) continue;
      const browser = await openConsoleBrowser(options);
      const shot: Shot = (name) => browser.page.screenshot({ path: join(OUTPUT, `${name}-${look}.png`) });
      await person(browser.page, server, installation.key, shot);
      await madeViews(browser.page, server, shot);
      await adminViews(browser.page, server, shot);
      await browser.close();
      for (const error of browser.errors) console.error(`${look}: ${error}`);
    }
  } finally {
    await installation.remove();
  }
  console.log(OUTPUT);
}

/** Uploads two samples in a browser, as a person does it. */
async function firstRecordings(server: RunningServer, key: string): Promise<void> {
  const { page, close } = await openConsoleBrowser();
  await signInWith(page, server.baseUrl, key);
  await page.locator(".top button.primary").click();
  await page.locator("input[type=file][multiple]").setInputFiles([samplePath("12-en-long")]);
  await page.locator("dialog button[type=submit]").click();
  await page.locator(".state-completed").first().waitFor({ timeout: 60_000 });
  await close();
}

await main();
