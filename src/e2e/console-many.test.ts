import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { copyFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Page } from "playwright-core";
import type { Transcription } from "../http/wire/schemas.ts";
import { findChromium } from "../testing/console/chromium.ts";
import { type ConsoleBrowser, openConsoleBrowser, signInWith } from "../testing/console/console-browser.ts";
import { madeTranscript } from "../testing/console/console-transcripts.ts";
import { type Installation, install, type RunningServer, until } from "./kit.ts";
import { samplePath } from "./samples.ts";

/** The console with many recordings at once, in a real browser, on the compiled executable. */

setDefaultTimeout(120_000);

const hasBrowser = findChromium() !== undefined;
if (!hasBrowser) console.warn("No Chromium is installed: many recordings are not tested in a browser.");

const FILES = 10;
const LISTED = 130;

describe.skipIf(!hasBrowser)("many recordings (needs Chromium)", () => {
  const folder = mkdtempSync(join(tmpdir(), "shruti-console-many-"));
  let installation: Installation;
  let server: RunningServer;
  let browser: ConsoleBrowser;
  let page: Page;

  beforeAll(async () => {
    installation = await install();
    await installation.output(...["orgs", "set", installation.organizationId, "--requests-per-second", "3"]);
    server = await (await installation.serve()).ready();
    browser = await openConsoleBrowser();
    ({ page } = browser);
    await signInWith(page, server.baseUrl, installation.key);
  });
  afterAll(async () => {
    await browser?.close();
    await installation?.remove();
    rmSync(folder, { recursive: true, force: true });
  });

  test("all begin without a click, although the server refuses many requests", async () => {
    let refused = 0;
    page.on("response", (response) => {
      if (response.status() === 429) refused++;
    });
    const paths = Array.from({ length: FILES }, (_, index) => join(folder, `call-${index}.wav`));
    for (const path of paths) copyFileSync(samplePath("01-en"), path);
    await page.locator(".top button.primary").click();
    await page.locator("input[type=file][multiple]").setInputFiles(paths);
    await page.locator("dialog .numbers", { hasText: "₹" }).last().waitFor();
    await page.locator("dialog button[type=submit]").click();
    await until("all have begun", async () => {
      expect(await page.locator(".upload-failed, .upload .failure").count()).toBe(0);
      return (await page.locator(".entry", { hasText: "call-" }).count()) === FILES;
    });
    await page.locator(".upload").first().waitFor({ state: "detached" });
    expect(refused).toBeGreaterThan(0);
  });

  test("are not shown to the next key, whether a person signs out or the key ends", async () => {
    const other = await installation.json<{ key: string; id: string }>(
      ...[
        "keys",
        "create",
        "--project",
        installation.projectId,
        "--name",
        "other",
        "--scopes",
        "models:read",
      ],
    );
    await page.evaluate(`window.isOfTheFormerKey = true; location.hash = "#/t/none"`);
    await page.locator("details.menu summary").click();
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByLabel("Project key").fill(other.key);
    await page.locator("form button[type=submit]").click();
    await page.locator(".workplace .failure").first().waitFor();
    expect(await page.locator(".entry").count()).toBe(0);
    expect(await page.evaluate("window.isOfTheFormerKey")).toBeUndefined();
    expect(page.url()).toBe(`${server.baseUrl}/console`);
    await installation.output("keys", "revoke", other.id);
    await page.getByText("The key is not valid any more.").first().waitFor();
    await page.getByLabel("Project key").waitFor();
  });

  test("all have their right state in the list, also below the newest page", async () => {
    const { one } = madeTranscript([{ text: "a call", language: "en" }]);
    const made = (state: Transcription["state"]) =>
      Array.from(
        { length: LISTED },
        (_, index): Transcription => ({
          ...one,
          id: `tr_01KAJ5M0X2V7Q4N8R6T3Y9Z${String(LISTED - index).padStart(3, "0")}`,
          state,
        }),
      );
    let now = made("queued");
    let lists = 0;
    await page.route(/\/v1\/transcriptions\?/, (route) => {
      lists++;
      const asked = new URL(route.request().url()).searchParams;
      const after = asked.get("after");
      const from = after === null ? 0 : now.findIndex(({ id }) => id === after) + 1;
      const data = now.slice(from, from + Number(asked.get("limit")));
      const next = from + data.length < now.length ? (data.at(-1)?.id ?? null) : null;
      return route.fulfill({ json: { object: "list", data, next } });
    });
    await signInWith(page, server.baseUrl, installation.key);
    for (const shown of [100, LISTED]) {
      await page.locator(".older").click();
      await until("more are shown", async () => (await page.locator(".entry").count()) === shown);
    }
    expect(await page.locator(".state-queued").count()).toBe(LISTED);
    now = made("completed");
    await until("all are done", async () => (await page.locator(".state-completed").count()) === LISTED);
    // Nothing runs, so the page seldom asks.
    const before = lists;
    await page.waitForTimeout(2500);
    expect(lists - before).toBeLessThanOrEqual(1);
  });
});
