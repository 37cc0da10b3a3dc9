import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { findChromium } from "../testing/console/chromium.ts";
import { type ConsoleBrowser, openConsoleBrowser, signInWith } from "../testing/console/console-browser.ts";
import { type Installation, install, type RunningServer, until } from "./kit.ts";
import { samplePath } from "./samples.ts";

/** What a person sees of the console where something is refused, on the compiled executable. */

setDefaultTimeout(120_000);

const hasBrowser = findChromium() !== undefined;
if (!hasBrowser) console.warn("No Chromium is installed: refusals are not tested in a browser.");

describe.skipIf(!hasBrowser)("the console refuses (needs Chromium)", () => {
  const folder = mkdtempSync(join(tmpdir(), "shruti-console-refusals-"));
  let installation: Installation;
  let server: RunningServer;
  let browser: ConsoleBrowser;
  let page: Page;

  beforeAll(async () => {
    installation = await install({ creditPaise: 0 });
    server = await (await installation.serve()).ready();
    browser = await openConsoleBrowser();
    ({ page } = browser);
  });
  afterAll(async () => {
    await browser?.close();
    await installation?.remove();
    rmSync(folder, { recursive: true, force: true });
  });

  type Key = { id: string; key: string };
  const newKey = (name: string, ...more: string[]) =>
    installation.json<Key>("keys", "create", "--project", installation.projectId, "--name", name, ...more);

  /** Chooses files in the form for new recordings. */
  async function choose(...paths: string[]): Promise<void> {
    await page.locator(".top button.primary").click();
    await page.locator("input[type=file][multiple]").setInputFiles(paths);
    await page
      .locator(".drafts li")
      .nth(paths.length - 1)
      .waitFor();
  }
  const send = () => page.locator("dialog button[type=submit]").click();

  test("a key without a right that the page needs, and names the right", async () => {
    const { key } = await newKey("reads", "--scopes", "transcriptions:read");
    await page.goto(`${server.baseUrl}/console#/t/%E0%A4%A`);
    // An address that is cut in the middle of a letter leads here as well.
    await page.getByLabel("Project key").fill(key);
    await page.locator("form button[type=submit]").click();
    await page.getByText("This key may not do that.").waitFor();
    await page.getByText("models:read").waitFor();
  });

  test("to send for a key without the right, which sees the price all the same", async () => {
    const { key } = await newKey("looks", "--scopes", "transcriptions:read,models:read");
    await signInWith(page, server.baseUrl, key);
    await choose(samplePath("02-hi"));
    await page.locator(".price", { hasText: "₹30.00" }).waitFor();
    await page.locator(".foot-price", { hasText: "₹" }).waitFor();
    await send();
    await page.locator(".upload", { hasText: "uploads:write" }).waitFor();
    await page.getByRole("button", { name: "Remove" }).click();
    await page.locator(".upload").waitFor({ state: "detached" });
  });

  test("to begin without credit, and begins once there is some", async () => {
    await signInWith(page, server.baseUrl, installation.key);
    await choose(samplePath("02-hi"));
    await page.getByText("The credit does not cover this. Ask").waitFor();
    await send();
    await page.getByText("The credit does not cover this recording.").waitFor();
    expect((await server.api().list()).data).toEqual([]);
    await installation.output("credit", "grant", "--org", installation.organizationId, "--paise", "1000");
    await page.getByRole("button", { name: /^Start for/ }).click();
    await page.locator(".entry .state-completed").waitFor({ timeout: 60_000 });
    expect((await server.api().list()).data).toHaveLength(1);
  });

  test("files without sound with a sentence for each, and sends the others", async () => {
    const empty = join(folder, "empty.wav");
    writeFileSync(empty, "");
    const text = join(folder, "letter.txt");
    writeFileSync(text, "Dear reader, this is no recording. ".repeat(100));
    await choose(empty, text, samplePath("01-en"));
    await page.getByText("This file is empty, so it is not sent.").waitFor();
    await page.getByText("known after the upload; you are asked then").waitFor();
    await page.getByRole("button", { name: "Upload and transcribe 2 recordings" }).click();
    await page.getByText("The file has no sound that can be read.").waitFor();
    await page.locator(".entry", { hasText: "01-en" }).locator(".state-completed").waitFor();
    // Another try with the same file would end in the same way.
    expect(await page.getByRole("button", { name: "Try again" }).count()).toBe(0);
    await page.getByRole("button", { name: "Remove" }).click();
    await page.locator(".upload").waitFor({ state: "detached" });
    expect((await server.api().list()).data).toHaveLength(2);
  });

  test("a key that is revoked meanwhile, and asks for another", async () => {
    const { id, key } = await newKey("lost");
    await signInWith(page, server.baseUrl, key);
    await page.locator(".entry").first().waitFor();
    await installation.output("keys", "revoke", id, "--yes");
    // The server notices within a second what a command has changed.
    const ended = page.getByText("The key is not valid any more. Please sign in again.");
    await until("the page asks for another key", async () => {
      const filter = page.locator(".filters button").nth(1);
      await filter.click({ timeout: 1000 }).catch(() => undefined);
      return ended.isVisible();
    });
  });
});
