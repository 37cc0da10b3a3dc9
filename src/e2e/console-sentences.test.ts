import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { findChromium } from "../testing/console/chromium.ts";
import { showMadeAdmin } from "../testing/console/console-admin.ts";
import { type ConsoleBrowser, openConsoleBrowser, signInWith } from "../testing/console/console-browser.ts";
import { type Installation, install, type RunningServer, until } from "./kit.ts";
import { samplePath } from "./samples.ts";

/** What the console says is true where it says it, and in the language of the page, in a real browser. */

setDefaultTimeout(120_000);

const hasBrowser = findChromium() !== undefined;
if (!hasBrowser) console.warn("No Chromium is installed: sentences are not tested in a browser.");

/** A device without anything that can drag a file: `any-hover` is `none`. */
const PHONE = "--blink-settings=availableHoverTypes=1,primaryHoverType=1";

describe.skipIf(!hasBrowser)("the console says (needs Chromium)", () => {
  const folder = mkdtempSync(join(tmpdir(), "shruti-console-sentences-"));
  const letter = join(folder, "letter.txt");
  let installation: Installation;
  let server: RunningServer;
  let browsers: ConsoleBrowser[] = [];

  beforeAll(async () => {
    writeFileSync(letter, "Dear reader, this is no recording. ".repeat(100));
    installation = await install();
    server = await (await installation.serve()).ready();
  });
  afterAll(async () => {
    for (const browser of browsers) await browser.close();
    await installation?.remove();
    rmSync(folder, { recursive: true, force: true });
  });

  async function open(options: Parameters<typeof openConsoleBrowser>[0] = {}) {
    const browser = await openConsoleBrowser(options);
    browsers = [...browsers, browser];
    browser.page.setDefaultTimeout(30_000);
    return browser;
  }

  /** Makes a project of its own, and returns a key of it. */
  async function newKey(name: string): Promise<string> {
    const organization = ["--org", installation.organizationId];
    const project = await installation.json<{ id: string }>("projects", "create", ...organization, name);
    const made = await installation.json<{ key: string }>(
      ...["keys", "create", "--project", project.id, "--name", name],
    );
    return made.key;
  }

  test("at the sign-in what a wrong key and a lost network mean there, and no more", async () => {
    const { page, context } = await open();
    await page.goto(`${server.baseUrl}/console`);
    const tryKey = async () => {
      await page.getByLabel("Project key").fill("shr_wrong");
      await page.locator("form button[type=submit]").click();
    };
    const failure = page.locator(".failure");
    await tryKey();
    await failure.getByText("The key is not valid. It may be incomplete, expired or revoked.").waitFor();
    expect(await failure.textContent()).not.toContain("lost");
    await context.setOffline(true);
    await tryKey();
    await failure.getByText("The server does not answer.").waitFor();
    expect(await failure.textContent()).not.toContain("again by itself");
    await context.setOffline(false);
  });

  test("that a recording is another project's, that another choice has a mode, and what has no price yet", async () => {
    const { page } = await open();
    const key = await newKey("other");
    await signInWith(page, server.baseUrl, installation.key);
    await page.locator(".top button.primary").click();
    await page.locator("input[type=file][multiple]").setInputFiles([samplePath("02-hi"), letter]);
    // The demonstration model mixes Hindi with English, and not English with itself.
    const mixed = page.locator("dialog label", { hasText: "Mixed" });
    await page.getByLabel("Language spoken").selectOption("en");
    await mixed.getByText("Not for this language and this model.").waitFor();
    await page.getByLabel("Language spoken").selectOption("hi");
    await mixed.getByText("English words stay in English letters.").waitFor();
    const price = page.locator(".foot-price", { hasText: "and 1 recording of unknown length" });
    await price.getByText("₹").waitFor();
    await page.getByRole("button", { name: `Remove letter.txt` }).click();
    await page.locator("dialog button[type=submit]").click();
    await page.locator(".entry .state-completed").waitFor({ timeout: 60_000 });
    const { data } = await server.api().list();
    await signInWith(page, server.baseUrl, key);
    await page.evaluate(`location.hash = "#/t/${data[0]?.id}"`);
    await page.getByText("This belongs to another project.").waitFor();
    expect(await page.locator("main").textContent()).not.toContain("right");
  });

  test("before the page is closed that something is on its way, also while the server checks it", async () => {
    const { page } = await open();
    await signInWith(page, server.baseUrl, installation.key);
    const { promise: isAllowed, resolve: allow } = Promise.withResolvers<void>();
    await page.route("**/complete", async (route) => {
      await isAllowed;
      await route.continue();
    });
    await page.locator(".top button.primary").click();
    await page.locator("input[type=file][multiple]").setInputFiles(samplePath("01-en"));
    await page.locator("dialog .numbers", { hasText: "₹" }).last().waitFor();
    await page.locator("dialog button[type=submit]").click();
    await page.getByText("The server checks it").waitFor();
    let asked = "";
    page.once("dialog", (dialog) => {
      asked = dialog.type();
      void dialog.dismiss();
    });
    await page.evaluate("location.reload()");
    await until("the browser asks", () => Promise.resolve(asked === "beforeunload"));
    await page.locator("details.menu summary").click();
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByText("A recording is still on its way").waitFor();
    await page.getByRole("button", { name: "Cancel" }).click();
    allow();
    await page
      .locator(".entry", { hasText: "01-en" })
      .locator(".state-completed")
      .waitFor({ timeout: 60_000 });
    // Now nothing is asked.
    await page.reload();
    await page.getByLabel("Project key").waitFor();
  });

  test("nothing of dropping on a device that cannot drag", async () => {
    const key = await newKey("empty");
    const seen: string[] = [];
    for (const options of [{ arguments: [PHONE] }, {}]) {
      const { page } = await open(options);
      await signInWith(page, server.baseUrl, key);
      await page.getByText("Nothing here yet.").waitFor();
      await page.locator(".top button.primary").click();
      await page.locator(".drop-zone").waitFor();
      seen.push((await page.locator("body").textContent()) ?? "");
    }
    const [phone = "", desktop = ""] = seen;
    expect(phone).not.toMatch(/\bdrop/i);
    expect(phone).toContain("Choose a recording");
    expect(desktop).toContain("Drop recordings here");
  });

  test("in Hindi what the server says in English only to those who open it", async () => {
    const { page } = await open({ language: "hi-IN" });
    await signInWith(page, server.baseUrl, installation.key);
    await page.locator(".top button.primary").click();
    await page.locator("input[type=file][multiple]").setInputFiles(letter);
    // The notice of a model is shown, below a heading in Hindi.
    await page.locator(".model-notice details[open] summary").waitFor();
    await page.locator("dialog button[type=submit]").click();
    const failure = page.locator(".upload .failure");
    await failure.getByText("इस फ़ाइल में ऐसी आवाज़ नहीं जो पढ़ी जा सके।").waitFor();
    const said = failure.locator("details [lang=en]");
    expect(await said.isVisible()).toBe(false);
    await failure.locator("summary").click();
    await said.waitFor();
    expect(await said.textContent()).toMatch(/[a-z]{3}/);
    // Languages have names, not codes.
    await showMadeAdmin(page);
    for (const view of ["models", "transcriptions"]) {
      await page.evaluate(`location.hash = "#/admin/${view}"`);
      const table = page.locator("table", { hasText: "हिन्दी" });
      await table.waitFor();
      expect(await table.locator("td", { hasText: /^(hi|en|ta|hi en)$/ }).count()).toBe(0);
    }
    await page.evaluate(`location.hash = "#/admin/overview"`);
    await page.locator("td", { hasText: "तैयार" }).waitFor();
    expect(await page.locator("td", { hasText: /^(ready|stopped)$/ }).count()).toBe(0);
  });
});
