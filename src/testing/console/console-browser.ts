import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type BrowserContext, chromium, type Download, type Page } from "playwright-core";
import { findChromium } from "./chromium.ts";

/** A browser of its own, and what its pages did that they must not do. */
export type ConsoleBrowser = {
  context: BrowserContext;
  page: Page;
  /** Every address that was asked for. */
  requests: string[];
  /** Errors on the console, uncaught exceptions, and violations of the page's policy. */
  errors: string[];
  close(): Promise<void>;
};

const ARGUMENTS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
  "--disable-dev-shm-usage",
  "--autoplay-policy=no-user-gesture-required",
];

/** Longest wait for anything that a page shows; a busy machine is slow. */
const PATIENCE_MS = 60_000;

export type BrowserOptions = {
  width?: number;
  height?: number;
  colours?: "light" | "dark";
  language?: string;
  scale?: number;
  /** More arguments for the browser's command line. */
  arguments?: readonly string[];
};

/** Opens Debian's Chromium with an empty profile. @throws Error where there is none */
export async function openConsoleBrowser(options: BrowserOptions = {}): Promise<ConsoleBrowser> {
  const executablePath = findChromium();
  if (executablePath === undefined) throw new Error("there is no Chromium on this machine");
  const profile = mkdtempSync(join(tmpdir(), "shruti-console-"));
  const { width = 1280, height = 800, colours = "light", language = "en-IN", scale = 1 } = options;
  const context = await chromium.launchPersistentContext(profile, {
    executablePath,
    headless: true,
    args: [...ARGUMENTS, ...(options.arguments ?? [])],
    viewport: { width, height },
    deviceScaleFactor: scale,
    colorScheme: colours,
    locale: language,
    acceptDownloads: true,
  });
  context.setDefaultTimeout(PATIENCE_MS);
  const requests: string[] = [];
  const errors: string[] = [];
  context.on("request", (request) => requests.push(request.url()));
  context.on("weberror", (error) => errors.push(String(error.error())));
  context.on("console", (message) => {
    if (message.type() === "error") errors.push(message.text());
  });
  return {
    context,
    page: context.pages()[0] ?? (await context.newPage()),
    requests,
    errors,
    async close() {
      await context.close();
      rmSync(profile, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 });
    },
  };
}

/** Does something that begins a download, and reads the file. */
export async function downloaded(
  page: Page,
  act: () => Promise<void>,
): Promise<{ name: string; text: string }> {
  const [download] = await Promise.all([page.waitForEvent("download"), act()] as [
    Promise<Download>,
    Promise<void>,
  ]);
  return { name: download.suggestedFilename(), text: readFileSync(await download.path(), "utf8") };
}

/** Signs in with a project key. */
export async function signInWith(page: Page, baseUrl: string, key: string): Promise<void> {
  await page.goto(`${baseUrl}/console`);
  await page.getByLabel(/Project key|कुंजी/).fill(key);
  await page.locator("form button[type=submit]").click();
  await page.locator(".workplace").waitFor();
}
