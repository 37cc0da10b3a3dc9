import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { readFileSync } from "node:fs";
import type { Page } from "playwright-core";
import { SCOPES } from "../domain/api-key.ts";
import { findChromium } from "../testing/console/chromium.ts";
import { type ConsoleBrowser, openConsoleBrowser } from "../testing/console/console-browser.ts";
import { type Receiver, startReceiver } from "../testing/kits/webhook-kit.ts";
import { type Installation, install, type RunningServer, until } from "./kit.ts";
import { sampleBytes } from "./samples.ts";

/** The admin's views in a real browser, on the compiled executable. */

setDefaultTimeout(120_000);

const hasBrowser = findChromium() !== undefined;
if (!hasBrowser) console.warn("No Chromium is installed: the admin's views are not tested in a browser.");

describe.skipIf(!hasBrowser)("the console of an admin (needs Chromium)", () => {
  let installation: Installation;
  let server: RunningServer;
  let browser: ConsoleBrowser;
  let page: Page;
  let link: string;
  let receiver: Receiver;
  /** What the receiver of webhooks answers. */
  let status = 410;

  beforeAll(async () => {
    receiver = startReceiver(() => new Response(null, { status }));
    installation = await install({
      environment: {
        SHRUTI_WEBHOOKS_ALLOW_HTTP: "true",
        SHRUTI_WEBHOOKS_ALLOWED_NETWORKS: "127.0.0.0/8",
        // Most of the time it is another day there than in the browser.
        SHRUTI_BILLING_TIMEZONE: "Pacific/Kiritimati",
      },
    });
    server = await (await installation.serve()).ready();
    browser = await openConsoleBrowser();
    ({ page } = browser);
    link = await newLink();
  });
  afterAll(async () => {
    await browser?.close();
    await installation?.remove();
    await receiver?.stop();
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
    await other.page.getByText("This link does not work any more.").waitFor();
    await other.close();
  });

  test("opens by a link in the tab that waits for it", async () => {
    const { page: waiting, close } = await openConsoleBrowser();
    await waiting.goto(`${server.baseUrl}/console#/admin`);
    await waiting.getByText("There is no admin session here").waitFor();
    await waiting.evaluate(`location.assign(${JSON.stringify(await newLink())})`);
    await waiting.getByText("Ready", { exact: true }).waitFor();
    expect(waiting.url()).toBe(`${server.baseUrl}/console#/admin`);
    await close();
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

  test("grants no part of a paisa, and takes back no more than there is", async () => {
    const show = () => installation.output("credit", "show", "--org", installation.organizationId);
    const before = await show();
    await page.getByRole("button", { name: "Grant credit" }).click();
    await page.getByLabel("Amount in rupees").fill("1.234");
    await page.locator("dialog button[type=submit]").click();
    // The browser marks the field, and sends nothing.
    await page.locator("dialog input:invalid").waitFor();
    await page.getByLabel("Amount in rupees").fill("-99999.99");
    await page.getByLabel("Note").fill("a mistake");
    await page.locator("dialog button[type=submit]").click();
    await page.getByText("More than the credit that is left cannot be taken back.").waitFor();
    expect(await show()).toBe(before);
    await page.keyboard.press("Escape");
  });

  test("creates a key that is shown once, and revokes it", async () => {
    await page.getByRole("button", { name: "New key" }).click();
    await page.getByLabel("Name").fill("from the console");
    await page.locator("dialog button[type=submit]").click();
    const key = (await page.locator(".new-key").textContent()) ?? "";
    expect(key).toStartWith("shr_");
    // As on a page that came over plain HTTP from another machine.
    await page.evaluate(`Object.defineProperty(navigator, "clipboard", { value: undefined, configurable: true });
      window.copies = [];
      document.addEventListener("copy", () => window.copies.push(document.activeElement.value))`);
    // A browser may refuse that way, too.
    await page.evaluate("document.execCommand = () => false");
    await page.locator("dialog").getByRole("button", { name: "Copy" }).click();
    await page.locator("dialog").getByText("Not copied: select and copy it yourself").waitFor();
    await page.evaluate("delete document.execCommand");
    await page.locator("dialog").getByRole("button", { name: "Copy", exact: true }).click();
    await page.locator("dialog").getByText("Copied", { exact: true }).waitFor();
    expect(await page.evaluate<string[]>("window.copies")).toEqual([key]);
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

  test("chooses the rights of a key; one without any is refused, and nothing is stored", async () => {
    const keys = () => installation.json<{ name: string; scopes: string[] }[]>("keys", "list");
    const before = (await keys()).length;
    await page.getByRole("button", { name: "New key" }).click();
    await page.getByLabel("Name").fill("accounts");
    expect(await page.locator("dialog .check code").allTextContents()).toEqual([...SCOPES]);
    for (const scope of SCOPES) {
      expect(await page.getByLabel(scope).isChecked()).toBe(true);
      await page.getByLabel(scope).uncheck();
    }
    await page.locator("dialog button[type=submit]").click();
    await page.getByText("A key needs at least one scope").waitFor();
    expect(await keys()).toHaveLength(before);
    await page.getByLabel("usage:read").check();
    await page.locator("dialog button[type=submit]").click();
    const key = (await page.locator(".new-key").textContent()) ?? "";
    await page.keyboard.press("Escape");
    const row = page.locator("tr", { hasText: "accounts" });
    await row.getByText("usage:read", { exact: true }).waitFor();
    expect((await keys()).find(({ name }) => name === "accounts")?.scopes).toEqual(["usage:read"]);
    const ask = (path: string) =>
      fetch(`${server.baseUrl}/v1/${path}`, { headers: { authorization: `Bearer ${key}` } });
    expect((await ask("usage")).status).toBe(200);
    expect((await ask("models")).status).toBe(403);
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

  test("downloads the usage as the file that the command line writes", async () => {
    await view("Organizations");
    await page.locator("td a").first().click();
    await page.getByText("Usage by day").waitFor();
    const [download] = await Promise.all([
      page.waitForEvent("download"),
      page.getByRole("link", { name: "CSV" }).click(),
    ]);
    expect(download.suggestedFilename()).toBe(`${installation.organizationId}-usage.csv`);
    const text = readFileSync(await download.path(), "utf8");
    expect(text).toBe(await installation.output("usage", "export", "--org", installation.organizationId));
    expect(text.trim().split("\r\n")).toHaveLength(2);
    // The same day as a chart.
    await page.getByText("2 s of sound").waitFor();
    const days = page.locator("input[type=date]");
    const today = new Intl.DateTimeFormat("en-CA", { timeZone: "Pacific/Kiritimati" }).format(new Date());
    expect(await days.last().inputValue()).toBe(today);
    await days.last().fill("2026-01-31");
    await page.getByText("2 s of sound").waitFor({ state: "detached" });
    await days.last().fill(today);
    await page.getByText("2 s of sound").waitFor();
  });

  test("colours follow the system until they are chosen, in charts as well", async () => {
    const looks = () =>
      page.evaluate(
        "[getComputedStyle(document.body).backgroundColor, document.querySelector('.chart canvas').toDataURL()]",
      ) as Promise<[string, string]>;
    // The page draws a chart after it has shown the text beside it.
    await page.locator(".chart canvas").first().waitFor();
    const [paper, chart] = await looks();
    await page.emulateMedia({ colorScheme: "dark" });
    await until("the chart is drawn for the dark", async () => (await looks())[1] !== chart);
    expect((await looks())[0]).not.toBe(paper);
    await page.locator(".top summary").click();
    await page.getByLabel("Colours").selectOption("light");
    await until("the chart is as before", async () => (await looks())[1] === chart);
    expect((await looks())[0]).toBe(paper);
    await page.getByLabel("Colours").selectOption("system");
    await page.emulateMedia({ colorScheme: "light" });
    await page.locator(".top summary").click();
  });

  test("switches an endpoint on again that was off, and sends failed events again until they arrive", async () => {
    const made = await server
      .api()
      .call<{ id: string }>("POST", "/v1/webhook_endpoints", { url: receiver.url });
    const { id: upload_id } = await server.api().upload(sampleBytes("02-hi"));
    const endpoint = { webhook_endpoint_id: made.body.id };
    const started = await server.api().start({ audio: { upload_id }, language: "hi", ...endpoint });
    await view("Webhooks");
    // The receiver wants no more events.
    const off = page.getByText("off · the receiver answered 410");
    await off.waitFor();
    const row = page.locator("tr", { hasText: started.body.id });
    await row.getByRole("button", { name: "Send again" }).click();
    await page.getByText("This is not possible in its present state.").waitFor();
    expect(receiver.received).toHaveLength(1);
    await page.getByRole("button", { name: "Switch on" }).click();
    await off.waitFor({ state: "detached" });
    await row.getByRole("button", { name: "Send again" }).click();
    await off.waitFor();
    expect(receiver.received).toHaveLength(2);
    status = 204;
    await page.getByRole("button", { name: "Switch on" }).click();
    await off.waitFor({ state: "detached" });
    await page.getByRole("button", { name: "Send all failed again" }).click();
    await page.getByText("Every event has arrived, or is still tried.").waitFor();
    await until("the event has arrived", () => receiver.received.length === 3);
    expect(new Set(receiver.received.map(({ id }) => id)).size).toBe(1);
    expect(JSON.parse(receiver.received[2]?.body ?? "")).toMatchObject({ data: { id: started.body.id } });
    await row.waitFor({ state: "detached" });
    // Off again, by hand: the page asks first.
    await page.getByRole("button", { name: "Switch off" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Switch off" }).click();
    await page.getByText("off · switched off by hand").waitFor();
    await page.getByRole("button", { name: "Switch on" }).click();
    await page.getByRole("button", { name: "Switch off" }).waitFor();
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
