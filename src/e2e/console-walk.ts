import type { Page } from "playwright-core";
import { VIEWS } from "../console/lib/admin-views.ts";
import { type ConsoleBrowser, openConsoleBrowser, signInWith } from "../testing/console/console-browser.ts";
import { madeTranscript, SCRIPTS, showMade } from "../testing/console/console-transcripts.ts";
import { type Installation, install, type RunningServer } from "./kit.ts";
import { samplePath } from "./samples.ts";

/** What the browser asked for while every view was shown. */
export type Walk = {
  views: string[];
  requests: number;
  /** Addresses of other hosts. */
  outside: string[];
  /** Requests without an answer, and answers that are errors. */
  failed: string[];
  errors: string[];
  /** What the network says to a connection to another machine. */
  elsewhere: string;
};

/** An address of TEST-NET-2 (RFC 5737), which no machine has. */
const ANOTHER_MACHINE = "http://198.51.100.1/";

/**
 * Starts an executable and a browser, and shows every view of the console.
 *
 * @param browserArguments of the command line of Chromium
 */
export async function walkConsole(browserArguments: readonly string[] = []): Promise<Walk> {
  const installation = await install();
  const browser = await openConsoleBrowser({ arguments: browserArguments });
  try {
    const server = await (await installation.serve()).ready();
    const failed: string[] = [];
    browser.context.on("requestfailed", (request) => {
      const why = request.failure()?.errorText ?? "";
      // A browser gives up parts of a recording that it does not need any more, and the icon of a page that it leaves.
      const isGivenUp = request.resourceType() === "media" || /\/icon-\w+\.svg$/.test(request.url());
      if (why === "net::ERR_ABORTED" && isGivenUp) return;
      failed.push(`${request.url()}: ${why}`);
    });
    browser.context.on("response", (response) => {
      if (response.status() >= 400) failed.push(`${response.url()}: ${response.status()}`);
    });
    const views: string[] = [];
    const see = async (view: string, selector: string) => {
      await browser.page.locator(selector).first().waitFor();
      views.push(view);
    };
    await personsViews(browser, server, installation, see);
    await adminsViews(browser.page, server, installation, see);
    return {
      ...{ views, failed, errors: browser.errors, requests: browser.requests.length },
      outside: browser.requests.filter((url) => !url.startsWith(server.baseUrl) && !url.startsWith("blob:")),
      elsewhere: await tryElsewhere(),
    };
  } finally {
    await browser.close();
    await installation.remove();
  }
}

type See = (view: string, selector: string) => Promise<void>;

async function personsViews(
  { page }: ConsoleBrowser,
  server: RunningServer,
  installation: Installation,
  see: See,
): Promise<void> {
  await page.goto(`${server.baseUrl}/docs`);
  await see("documentation", "#app *, main, rapi-doc, h1");
  await page.goto(`${server.baseUrl}/console`);
  await see("sign in", "form");
  await signInWith(page, server.baseUrl, installation.key);
  await see("empty list", ".nothing button");
  await page.locator(".top button.primary").click();
  await page.locator("input[type=file][multiple]").setInputFiles(samplePath("12-en-long"));
  await see("upload", "dialog .price");
  await page.locator("dialog .numbers", { hasText: "₹" }).last().waitFor();
  await page.locator("dialog button[type=submit]").click();
  await see("list", ".entry .state-completed");
  await page.locator(".entry").first().click();
  await see("transcript", ".segment-row");
  await page.locator(".round:enabled").click();
  await see("sound", ".round .icon-pause");
  await page.keyboard.press("k");
  await page.locator(".segment-text").first().focus();
  await page.keyboard.press("e");
  await see("correcting", ".editor");
  await page.keyboard.press("Escape");
  await page.keyboard.press("/");
  await see("search", ".search-bar input");
  await page.keyboard.press("Escape");
  await page.locator(".top .wide-only").click();
  await see("keys", "dialog kbd");
  await page.keyboard.press("Escape");
  const scripts = madeTranscript(SCRIPTS);
  await showMade(page, [scripts]);
  await page.evaluate(`location.hash = "#/t/${scripts.one.id}"`);
  await see("all scripts", ".segment-text[lang=mni]");
  await page.evaluate("document.fonts.ready.then(() => undefined)");
}

async function adminsViews(
  page: Page,
  server: RunningServer,
  installation: Installation,
  see: See,
): Promise<void> {
  const secret = /#admin=\S+/.exec(await installation.output("console"))?.[0];
  await page.goto("about:blank");
  await page.goto(`${server.baseUrl}/console${secret}`);
  await see("overview", ".readiness");
  await see("charts", ".chart canvas");
  await page.getByRole("button", { name: "Last day", exact: true }).click();
  await see("charts of a day", ".chart canvas");
  // The first view is shown already.
  for (const view of VIEWS.slice(1)) {
    await page.evaluate(`location.hash = "#/admin/${view}"`);
    await see(view, ".admin-main > section h2");
  }
  await page.evaluate(`location.hash = "#/admin/organizations/${installation.organizationId}"`);
  await see("organization", ".chart canvas");
}

/** Asks for another machine's page, and returns why it does not come. */
async function tryElsewhere(): Promise<string> {
  const socket = await Bun.connect({
    ...{ hostname: new URL(ANOTHER_MACHINE).hostname, port: 80 },
    socket: { data: () => undefined },
  }).catch((error: { code?: string }) => String(error.code ?? error));
  if (typeof socket === "string") return socket;
  socket.end();
  return "connected";
}

if (import.meta.main) console.log(JSON.stringify(await walkConsole()));
