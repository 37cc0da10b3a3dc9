import { statSync } from "node:fs";
import { join } from "node:path";
import type { CDPSession } from "playwright-core";
import { install } from "../../src/e2e/kit.ts";
import { openConsoleBrowser, signInWith } from "../../src/testing/console/console-browser.ts";
import { CONVERSATION, madeTranscript, showMade } from "../../src/testing/console/console-transcripts.ts";
import { buildConsole } from "../console.ts";

/**
 * Measures the console: what is transferred before the first paint, and a recording of 3 hours with 5000 segments: the time
 * until its transcript is shown, and the longest task of the page's main thread while a person scrolls through it.
 *
 * Usage: `bun scripts/bench/console.ts`
 */

const SEGMENTS = 5000;
const SECONDS_EACH = (3 * 3600) / SEGMENTS;
const SCROLLS = 200;
const FOLDER = join(import.meta.dirname, "../../build/console");

type TraceEvent = {
  name: string;
  ph: string;
  ts: number;
  dur?: number;
  tdur?: number;
  pid: number;
  tid: number;
  args?: { name?: string };
};

async function main(): Promise<void> {
  await printSizes();
  const long = madeTranscript(
    Array.from(
      { length: SEGMENTS },
      (_, index) => CONVERSATION[index % CONVERSATION.length] ?? { text: "", language: "hi" },
    ),
    { secondsEach: SECONDS_EACH, gap: 100 },
  );
  const installation = await install();
  const browser = await openConsoleBrowser();
  try {
    const server = await (await installation.serve()).ready();
    const { page, context } = browser;
    await showMade(page, [long]);
    await signInWith(page, server.baseUrl, installation.key);
    await page.locator(".entry").first().waitFor();
    const trace = await context.newCDPSession(page);
    for (const round of [1, 2, 3, 4, 5]) {
      await page.evaluate('location.hash = ""');
      await page.locator(".segment-row").first().waitFor({ state: "detached" });
      const shownMs = await page.evaluate(openAndTime(long.one.id));
      await page.locator(".lane").waitFor();
      await page.waitForTimeout(1500);
      const tasks = await tasksDuring(trace, async () => {
        const box = await page.locator(".segments").boundingBox();
        await page.mouse.move((box?.x ?? 0) + 300, (box?.y ?? 0) + 100);
        for (let index = 0; index < SCROLLS; index++) {
          await page.mouse.wheel(0, 400 + (index % 7) * 300);
          await page.waitForTimeout(16);
        }
      });
      const top = await page.evaluate("document.querySelector('.segments').scrollTop");
      const longest = Math.max(...tasks.map(({ ms }) => ms));
      const longestCpu = Math.max(...tasks.map(({ cpuMs }) => cpuMs));
      console.log(
        `round ${round}: transcript shown after ${Number(shownMs).toFixed(0)} ms; scrolled ${top} px; longest task ${longest.toFixed(1)} ms, of processor time ${longestCpu.toFixed(1)} ms`,
      );
    }
  } finally {
    await browser.close();
    await installation.remove();
  }
}

/** Bytes of the page, its scripts and styles as gzip and brotli. */
async function printSizes(): Promise<void> {
  const { files } = await buildConsole();
  for (const coding of ["gzip", "br"] as const) {
    const sizes = files.flatMap(({ name, codings }) => {
      const path = codings[coding];
      return path === undefined ? [] : [{ name, bytes: statSync(join(FOLDER, path)).size }];
    });
    console.log(`${coding}: ${sizes.map(({ name, bytes }) => `${name} ${bytes}`).join(", ")}`);
  }
  const fonts = files.flatMap(({ codings: { identity } }) => (identity === undefined ? [] : [identity]));
  const bytes = fonts.reduce((sum, name) => sum + statSync(join(FOLDER, name)).size, 0);
  console.log(`fonts: ${fonts.length} files, ${bytes} bytes`);
}

/** Shows the transcription, and returns the milliseconds until its first row is painted. */
const openAndTime = (id: string) => `new Promise((resolve) => {
  const startedAt = performance.now();
  new MutationObserver((_, observer) => {
    if (!document.querySelector(".segment-row")) return;
    observer.disconnect();
    requestAnimationFrame(() => requestAnimationFrame(() => resolve(performance.now() - startedAt)));
  }).observe(document.body, { childList: true, subtree: true });
  location.hash = "#/t/${id}";
})`;

/** Lists the tasks of the page's main thread during some work: time by the clock, and processor time. */
async function tasksDuring(
  session: CDPSession,
  work: () => Promise<void>,
): Promise<{ ms: number; cpuMs: number }[]> {
  const events: TraceEvent[] = [];
  const collect = ({ value }: { value: object[] }) => events.push(...(value as TraceEvent[]));
  session.on("Tracing.dataCollected", collect);
  const ended = new Promise<void>((resolve) => session.once("Tracing.tracingComplete", () => resolve()));
  await session.send("Tracing.start", {
    transferMode: "ReportEvents",
    traceConfig: { includedCategories: ["toplevel", "disabled-by-default-devtools.timeline", "__metadata"] },
  });
  await work();
  await session.send("Tracing.end");
  await ended;
  session.off("Tracing.dataCollected", collect);
  const mains = events.filter(({ name, args }) => name === "thread_name" && args?.name === "CrRendererMain");
  const isMain = ({ pid, tid }: TraceEvent) => mains.some((main) => main.pid === pid && main.tid === tid);
  return events
    .filter((event) => event.ph === "X" && /RunTask$/.test(event.name) && isMain(event))
    .map(({ dur = 0, tdur = 0 }) => ({ ms: dur / 1000, cpuMs: tdur / 1000 }));
}

await main();
