import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import type { Page } from "playwright-core";
import { findChromium } from "../testing/chromium.ts";
import { type ConsoleBrowser, openConsoleBrowser } from "../testing/console-browser.ts";
import { type Installation, install, type RunningServer } from "./kit.ts";
import { sampleBytes } from "./samples.ts";

/** The admin's views in a real browser, on the compiled executable. */

setDefaultTimeout(120_000);

const hasBrowser = findChromium() !== undefined;
if (!hasBrowser) console.warn("No Chromium is installed: the admin's views are not tested in a browser.");

describe.skipIf(!hasBrowser)("the console of an admin", () => {
  let installation: Installation;
  let server: RunningServer;
  let browser: ConsoleBrowser;
  let page: Page;
  let link: string;

  beforeAll(async () => {
    installation = await install();
    server = await (await installation.serve()).ready();
    browser = await openConsoleBrowser();
    ({ page } = browser);
    link = await newLink();
  });
  afterAll(async () => {
    await browser?.close();
    await installation?.remove();
  });

  /** Asks for a link, and makes it one to the port that was chosen. */
  async function newLink(): Promise<string> {
    const printed = await installation.output("console");
    const secret = /#admin=\S+/.exec(printed)?.[0];
    if (secret === undefined) throw new Error(`shruti console printed no link: ${printed}`);
    return `${server.baseUrl}/console${secret}`;
  }

  const view = (name: string) =>
    page.getByRole("navigation").getByRole("link", { name, exact: true }).click();

  test("opens by a link, and the secret leaves the address", async () => {
    await page.goto(link);
    await page.getByText("Ready", { exact: true }).waitFor();
    expect(page.url()).toBe(`${server.baseUrl}/console#/admin`);
    await page.reload();
    await page.getByText("Ready", { exact: true }).waitFor();
    await page.locator(".chart canvas").first().waitFor();
  });

  test("does not open by the same link a second time", async () => {
    const other = await openConsoleBrowser();
    await other.page.goto(link);
    await other.page.getByText("There is no admin session here").waitFor();
    await other.close();
  });

  test("grants credit, which the command line sees", async () => {
    await view("Organizations");
    await page.locator("td a").first().click();
    await page.getByRole("button", { name: "Grant credit" }).click();
    await page.getByLabel("Amount in rupees").fill("12.34");
    await page.getByLabel("Note").fill("from the console");
    await page.locator("dialog button[type=submit]").click();
    await page.getByText("from the console").waitFor();
    const { balance_paise: balance } = await installation.json<{ balance_paise: number }>(
      ...["credit", "show", "--org", installation.organizationId],
    );
    expect(balance).toBe(1_000_000 + 1_234);
  });

  test("creates a key that is shown once, and revokes it", async () => {
    await page.getByRole("button", { name: "New key" }).click();
    await page.getByLabel("Name").fill("from the console");
    await page.locator("dialog button[type=submit]").click();
    const key = (await page.locator(".new-key").textContent()) ?? "";
    expect(key).toStartWith("shr_");
    expect((await server.api(key).list()).object).toBe("list");
    await page.keyboard.press("Escape");
    await page.locator(".new-key").waitFor({ state: "detached" });
    await page.reload();
    const row = page.locator("tr", { hasText: "from the console" }).first();
    await row.getByRole("button", { name: "Revoke" }).waitFor();
    expect(await page.content()).not.toContain(key);
    await row.getByRole("button", { name: "Revoke" }).click();
    await page.locator("dialog button.danger").click();
    await page.getByText("revoked").waitFor();
    const refused = await fetch(`${server.baseUrl}/v1/models`, {
      headers: { authorization: `Bearer ${key}` },
    });
    expect(refused.status).toBe(401);
  });

  test("sees transcriptions of all projects, and none of their words", async () => {
    const { id } = await server.api().upload(sampleBytes("02-hi"));
    await server.api().start({ audio: { upload_id: id }, language: "hi" });
    await view("Transcriptions");
    await page.locator(".state-completed").first().waitFor();
    const { data } = await server.api().list();
    await page.getByText(data[0]?.id ?? "-").waitFor();
    const { text } = await server.api().result(data[0]?.id ?? "");
    expect(await page.content()).not.toContain(text);
    for (const name of ["Models", "Webhooks", "Overview"]) {
      await view(name);
      await page.locator(".admin-main > section").first().waitFor();
      expect(await page.locator(".failure").count()).toBe(0);
    }
  });

  test("a page of another origin can neither read nor change anything with the session", async () => {
    const elsewhere = Bun.serve({
      hostname: "127.0.0.1",
      port: 0,
      fetch: () =>
        new Response("<!doctype html><title>x</title>", { headers: { "content-type": "text/html" } }),
    });
    const before = await installation.output("credit", "show", "--org", installation.organizationId);
    const stranger = await browser.context.newPage();
    // Another port is the same site: the browser sends the cookie, so the server itself has to refuse.
    await stranger.goto(`http://127.0.0.1:${elsewhere.port}/`);
    const path = `${server.baseUrl}/console/api/organizations/${installation.organizationId}/grants`;
    const outcome = await stranger.evaluate(`fetch("${path}", {
      method: "POST", mode: "no-cors", credentials: "include", body: '{"amount_paise": 100}',
    }).then(({ type }) => type, () => "refused")`);
    expect(["opaque", "refused"]).toContain(String(outcome));
    const read = await stranger.evaluate(
      `fetch("${server.baseUrl}/console/api/session", { credentials: "include" }).then(() => "read", () => "refused")`,
    );
    expect(read).toBe("refused");
    expect(await installation.output("credit", "show", "--org", installation.organizationId)).toBe(before);
    await stranger.close();
    elsewhere.stop(true);
  });

  test("ends for all browsers by a command; no request left the server", async () => {
    await installation.output("console", "--end-sessions");
    await page.reload();
    await page.getByText("There is no admin session here").waitFor();
    const outside = browser.requests.filter((url) => !/^http:\/\/127\.0\.0\.1:/.test(url));
    expect(outside).toEqual([]);
  });
});
