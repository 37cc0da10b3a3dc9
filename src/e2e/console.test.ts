import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Download, Page } from "playwright-core";
import { findChromium } from "../testing/console/chromium.ts";
import { ADMIN_VIEWS, showMadeAdmin } from "../testing/console/console-admin.ts";
import {
  type ConsoleBrowser,
  downloaded,
  openConsoleBrowser,
  signInWith,
} from "../testing/console/console-browser.ts";
import { CONVERSATION, madeTranscript, SCRIPTS, showMade } from "../testing/console/console-transcripts.ts";
import { type Installation, install, type RunningServer, until } from "./kit.ts";
import { formatOf, pcmOf, samplePath, utterancesIn, wavFile } from "./samples.ts";

/** The console in a real browser, on the compiled executable. */

setDefaultTimeout(120_000);

const hasBrowser = findChromium() !== undefined;
if (!hasBrowser) console.warn("No Chromium is installed: the console is not tested in a browser.");

const SAMPLE = "12-en-long";
const LARGE_BYTES = 30_000_000;
/** Bytes per second of the browser's connection while the server is killed. */
const SLOW = 12_000_000;

/** Returns an expression for the page: whether the browser keeps a correction with a text. */
const keeps = (text: string) => `new Promise((resolve, reject) => {
  const opening = indexedDB.open("shruti-console");
  opening.onerror = () => reject(opening.error);
  opening.onsuccess = () => {
    const reading = opening.result.transaction("corrections").objectStore("corrections").getAll();
    reading.onerror = () => reject(reading.error);
    reading.onsuccess = () => {
      opening.result.close();
      resolve(reading.result.some((correction) => correction.text === ${JSON.stringify(text)}));
    };
  };
})`;

/** An expression for the page: everything that the browser keeps, as one text. */
const KEPT = `new Promise((resolve, reject) => {
  const opening = indexedDB.open("shruti-console");
  opening.onerror = () => reject(opening.error);
  opening.onsuccess = async () => {
    const names = [...opening.result.objectStoreNames];
    const transaction = opening.result.transaction(names);
    const all = (request) => new Promise((done) => { request.onsuccess = () => done(request.result); });
    const found = names.map((name) => transaction.objectStore(name))
      .map(async (store) => [await all(store.getAllKeys()), await all(store.getAll())]);
    resolve(JSON.stringify(await Promise.all(found)));
    opening.result.close();
  };
})`;

describe.skipIf(!hasBrowser)("the console (needs Chromium)", () => {
  const folder = mkdtempSync(join(tmpdir(), "shruti-console-files-"));
  let installation: Installation;
  let server: RunningServer;
  let browser: ConsoleBrowser;
  let page: Page;
  /** Where the page comes from. */
  let origin: string;

  beforeAll(async () => {
    // The page expects the server at the same address after a restart.
    const port = freePort();
    origin = `http://127.0.0.1:${port}`;
    installation = await install({
      environment: {
        SHRUTI_SERVER_LISTEN: `127.0.0.1:${port}`,
        // Others may reach the server by another name than this page: its requests stay where the page came from.
        SHRUTI_SERVER_BASE_URL: `http://localhost:${port}`,
      },
    });
    server = await (await installation.serve()).ready();
    browser = await openConsoleBrowser();
    ({ page } = browser);
  });
  afterAll(async () => {
    await browser?.close();
    await installation?.remove();
    rmSync(folder, { recursive: true, force: true });
  });

  /** Uploads files with the choices that the form shows. */
  async function upload(...paths: string[]): Promise<void> {
    await page.locator(".top button.primary").click();
    await page.locator("input[type=file][multiple]").setInputFiles(paths);
    await page.locator("dialog .numbers", { hasText: "₹" }).last().waitFor();
    await page.locator("dialog button[type=submit]").click();
  }

  test("refuses a wrong key, and keeps the right one in memory alone", async () => {
    await page.goto(`${origin}/`);
    expect(page.url()).toBe(`${origin}/console`);
    await page.getByLabel("Project key").fill("shr_wrong");
    await page.locator("form button[type=submit]").click();
    await page.getByText("The key is not valid.").waitFor();
    await signInWith(page, origin, installation.key);
    const stored = await page.evaluate(
      "JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie])",
    );
    expect(stored).not.toContain("shr_");
    await page.reload();
    await page.getByLabel("Project key").waitFor();
    expect(browser.errors.filter((error) => !error.includes("401"))).toEqual([]);
    browser.errors.length = 0;
  });

  test("keeps the key over a reload when asked to", async () => {
    await page.getByLabel("Keep it until I close this tab").check();
    await page.getByLabel("Project key").fill(installation.key);
    await page.locator("form button[type=submit]").click();
    await page.locator(".workplace").waitFor();
    await page.reload();
    await page.getByText("Nothing here yet.").waitFor();
  });

  test("a sample is uploaded, written down and shown", async () => {
    await upload(samplePath(SAMPLE));
    await page.locator(".state-completed").first().waitFor({ timeout: 60_000 });
    await page.locator(".entry", { hasText: SAMPLE }).click();
    await page.locator(".segment-row").first().waitFor();
    const shown = await page.locator(".segment-text").allTextContents();
    const { data } = await server.api().list();
    const result = await server.api().result(data[0]?.id ?? "");
    expect(shown).toEqual(result.segments.slice(0, shown.length).map(({ text }) => text));
    expect(shown.join(" ")).toContain(utterancesIn(SAMPLE)[0]?.text ?? "-");
    const credit = await page.locator(".credit strong").textContent();
    expect(credit).toBe("₹9,999.50");
  });

  test("a transcript is downloaded in every form", async () => {
    const { data } = await server.api().list();
    const id = data[0]?.id ?? "";
    for (const [name, format, ending] of [
      ["Subtitles (SRT)", "srt", "srt"],
      ["Subtitles (VTT)", "vtt", "vtt"],
      ["Text", "text", "txt"],
      ["JSON", "json", "json"],
    ] as const) {
      const file = await downloaded(page, () => page.getByRole("button", { name, exact: true }).click());
      expect(file.name).toBe(`${SAMPLE}.${ending}`);
      const answer = await fetch(`${origin}/v1/transcriptions/${id}/result?format=${format}`, {
        headers: { authorization: `Bearer ${installation.key}` },
      });
      expect(file.text).toBe(await answer.text());
    }
  });

  test("a correction survives a reload, is undone by key, and is in the downloads", async () => {
    const first = page.locator(".segment-text").first();
    const before = (await first.textContent()) ?? "";
    await first.focus();
    await page.keyboard.press("e");
    await page.getByLabel("Correct this text").fill("Corrected by hand");
    await page.keyboard.press("Control+Enter");
    // A reload may end what the browser has not stored yet.
    await until("the browser keeps the correction", () => page.evaluate(keeps("Corrected by hand")));
    await page.reload();
    await page.getByText("Corrected by hand").waitFor();
    const file = await downloaded(page, () =>
      page.getByRole("button", { name: "Text", exact: true }).click(),
    );
    expect(file.text).toStartWith("Corrected by hand");
    await page.getByRole("combobox", { name: "Download" }).selectOption("original");
    const original = await downloaded(page, () =>
      page.getByRole("button", { name: "Text", exact: true }).click(),
    );
    expect(original.text).toStartWith(before);
    await page.locator(".segment-text").nth(1).focus();
    await page.keyboard.press("e");
    await page.getByLabel("Correct this text").fill("A mistake");
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByText("A mistake").waitFor();
    await page.keyboard.press("Control+z");
    await page.getByText("A mistake").waitFor({ state: "detached" });
    expect(await first.textContent()).toBe("Corrected by hand");
    await page.keyboard.press("Control+Shift+z");
    await page.getByText("A mistake").waitFor();
    await page.keyboard.press("Control+z");
    await page.getByText("A mistake").waitFor({ state: "detached" });
  });

  test("the keyboard alone leads from the list to the sound and to a correction", async () => {
    await page.evaluate('location.hash = "#/"');
    await page.locator(".segment-row").first().waitFor({ state: "detached" });
    const isAt = (selector: string) => page.evaluate(`document.activeElement.matches("${selector}")`);
    const tabTo = async (selector: string) => {
      for (let presses = 0; presses < 40 && !(await isAt(selector)); presses++)
        await page.keyboard.press("Tab");
      expect({ selector, isAt: await isAt(selector) }).toEqual({ selector, isAt: true });
    };
    await tabTo(".entry");
    await page.keyboard.press("Enter");
    await page.locator(".play-bar .primary:enabled").waitFor();
    await page.locator(".skip").focus();
    await page.keyboard.press("Enter");
    await page.locator("#main:focus").waitFor();
    await tabTo(".round");
    await page.keyboard.press("Enter");
    await page.locator(".round .icon-pause").waitFor();
    await page.keyboard.press("k");
    await page.locator(".round .icon-play").waitFor();
    await page.keyboard.press("ArrowDown");
    await page.locator('[data-index="1"].heard').waitFor();
    await page.keyboard.press("k");
    await tabTo(".segment-text");
    await page.keyboard.press("Enter");
    await page.locator(".editor textarea:focus").waitFor();
    await page.keyboard.press("Escape");
    await page.locator(".editor").waitFor({ state: "detached" });
  });

  test("a click on a segment plays it from its start, and the text follows the sound", async () => {
    const { data } = await server.api().list();
    const { segments } = await server.api().result(data[0]?.id ?? "");
    await page.locator(".play-bar .primary:enabled").waitFor();
    const played = `new Promise((resolve) => {
      const play = HTMLMediaElement.prototype.play;
      HTMLMediaElement.prototype.play = function () {
        HTMLMediaElement.prototype.play = play;
        this.addEventListener("playing", () => resolve(this.currentTime), { once: true });
        window.sound = this;
        return play.call(this);
      };
    })`;
    for (const index of [5, 2]) {
      const [at] = await Promise.all([
        page.evaluate(played) as Promise<number>,
        page.waitForTimeout(50).then(() => page.locator(`[data-index="${index}"] .time`).click()),
      ]);
      expect(Math.abs(at - (segments[index]?.start ?? 0))).toBeLessThan(0.2);
      await page.locator(`[data-index="${index}"].heard`).waitFor();
    }
    // The fastest speed soon comes to the next segment.
    await page.getByTitle("Speed").selectOption("2");
    await page.locator('[data-index="3"].heard').waitFor();
    await page.evaluate("window.sound.pause()");
    const first = await page.locator(".time-now").textContent();
    await page.locator(".waveform-sound").click({ position: { x: 10, y: 20 } });
    await page.locator('[data-index="0"].focused').waitFor();
    // The browser first fetches the sound at the new position.
    await until(
      "the time is that of the click",
      async () => (await page.locator(".time-now").textContent()) !== first,
    );
  });

  test("a corrected transcript and its recording are a pair that shruti benchmark reads", async () => {
    const pair = join(folder, "pair");
    const files: Download[] = [];
    page.on("download", (download) => files.push(download));
    await page.getByRole("button", { name: "Recording and text, to measure models" }).click();
    await until("both files are saved", () => files.length === 2);
    for (const file of files) await file.saveAs(join(pair, file.suggestedFilename()));
    page.removeAllListeners("download");
    const score = await installation.json<{
      total: { files: number; words: { error_rate: number; total: number } };
    }>(...["benchmark", pair, "--language", "en"]);
    expect(score.total.files).toBe(1);
    expect(score.total.words.total).toBeGreaterThan(30);
    // The first segment was corrected to other words.
    expect(score.total.words.error_rate).toBeGreaterThan(0);
  });

  test("30 MB arrive whole although the server is killed and started again in the middle", async () => {
    const path = join(folder, "large.wav");
    writeFileSync(path, largeRecording());
    const session = await browser.context.newCDPSession(page);
    const conditions = { offline: false, latency: 0, downloadThroughput: -1, uploadThroughput: SLOW };
    await session.send("Network.enable");
    await session.send("Network.emulateNetworkConditions", conditions);
    await upload(path);
    const bar = page.locator(".upload [role=progressbar]");
    const share = async () => Number(await bar.getAttribute("aria-valuenow"));
    await until("a third is sent", async () => (await share()) > 33);
    await server.kill();
    await page.getByText("No connection; continues by itself").waitFor();
    expect(await share()).toBeLessThan(100);
    server = await (await installation.serve()).ready();
    await session.send("Network.emulateNetworkConditions", { ...conditions, uploadThroughput: -1 });
    await page.locator(".entry", { hasText: "large.wav" }).waitFor({ timeout: 60_000 });
    const { data } = await server.api().list();
    expect(data[0]?.duration_seconds).toBe(secondsOf(LARGE_BYTES));
    // The link to the sound ended with the server. The page gets another, and continues where it was.
    await page.locator('[data-index="12"] .time').click();
    await page.locator('[data-index="12"].heard').waitFor();
    await until("it plays", async () => (await page.locator(".round .icon-pause").count()) === 1);
    await page.keyboard.press("k");
    browser.errors.length = 0;
  });

  test("an upload continues after a reload once the file is picked again", async () => {
    const path = join(folder, "again.wav");
    writeFileSync(path, largeRecording(-1_000_000));
    const session = await browser.context.newCDPSession(page);
    const conditions = { offline: false, latency: 0, downloadThroughput: -1, uploadThroughput: SLOW };
    await session.send("Network.emulateNetworkConditions", conditions);
    await upload(path);
    const sent = async () =>
      Number(await page.locator(".upload [role=progressbar]").getAttribute("aria-valuenow"));
    await until("a part is sent", async () => (await sent()) > 20);
    await page.locator(".upload").getByRole("button", { name: "Pause" }).click();
    await page.getByText("Paused").waitFor();
    await page.getByRole("button", { name: "Go on" }).click();
    await until("more is sent", async () => (await sent()) > 40);
    // Slow enough that it is still being sent when the person is asked.
    await session.send("Network.emulateNetworkConditions", { ...conditions, uploadThroughput: SLOW / 20 });
    await page.locator("details.menu summary").click();
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.locator("dialog").getByText("A recording is still on its way").waitFor();
    await page.locator("dialog").getByRole("button", { name: "Cancel" }).click();
    await page.locator("dialog").waitFor({ state: "detached" });
    page.once("dialog", (dialog) => void dialog.accept());
    await page.reload();
    await page.getByText("Interrupted. Pick the same file to go on").waitFor();
    expect(await sent()).toBeGreaterThan(20);
    await session.send("Network.emulateNetworkConditions", { ...conditions, uploadThroughput: -1 });
    await page.locator(".upload input[type=file]").setInputFiles(samplePath("02-hi"));
    await page.getByText("That is another file.").waitFor();
    await page.locator(".upload input[type=file]").setInputFiles(path);
    await page.locator(".entry", { hasText: "again.wav" }).waitFor({ timeout: 60_000 });
  });

  test("the browser forgets what is deleted, also by a command, and everything when it is asked to", async () => {
    const kept = () => page.evaluate<string>(KEPT);
    const api = server.api();
    const path = join(folder, "secret.wav");
    writeFileSync(path, readFileSync(samplePath("01-en")));
    const correctOne = async (text: string): Promise<{ id: string; original: string }> => {
      const before = (await api.list()).data[0]?.id;
      await upload(path);
      const isNew = async () => (await api.list()).data[0]?.id !== before;
      await until("it is accepted", isNew);
      const id = (await api.list()).data[0]?.id ?? "";
      await page.locator(`a[href*="${id}"]`).first().click();
      const first = page.locator(".segment-text").first();
      await first.waitFor({ timeout: 60_000 });
      const original = (await first.textContent()) ?? "";
      await first.focus();
      await page.keyboard.press("e");
      await page.getByLabel("Correct this text").fill(text);
      await page.keyboard.press("Control+Enter");
      await until("the browser keeps the correction", () => page.evaluate(keeps(text)));
      return { id, original };
    };
    const one = await correctOne("my number is ABCDE1234F");
    expect(await kept()).not.toContain(one.original);
    await page.getByRole("button", { name: "Delete recording" }).click();
    await page.locator("dialog .danger").click();
    await until("it is forgotten", async () => !(await kept()).includes(one.id));
    expect(await kept()).not.toContain("ABCDE1234F");

    // Deleted elsewhere: the list shows it.
    const two = await correctOne("my number is FGHIJ5678K");
    await page.goto(`${origin}/console#/`);
    await installation.output("transcriptions", "delete", two.id);
    // The list looks every ten seconds, and at once after a reload.
    await page.reload();
    await until("it is forgotten", async () => !(await kept()).includes(two.id));
    expect(await kept()).not.toContain("FGHIJ5678K");

    const three = await correctOne("my number is LMNOP9012Q");
    expect(await kept()).toContain(three.id);
    await page.locator("details.menu summary").click();
    await page.getByRole("button", { name: "Forget what this browser keeps" }).click();
    await page.locator("dialog .danger").click();
    await until("nothing is kept", async () => /^(\[*\[\],\[\]\],?)*\]$/.test(await kept()));
    expect(await page.locator(".segment-text").first().textContent()).toBe(three.original);
    await page.keyboard.press("Escape");
  });

  test("no request left the server, and nothing violated the policy", () => {
    const outside = browser.requests.filter((url) => !url.startsWith(origin) && !url.startsWith("blob:"));
    expect(browser.requests.length).toBeGreaterThan(50);
    expect(outside).toEqual([]);
    // That the link of a server that has ended was refused may be reported late.
    expect(browser.errors.filter((error) => !error.includes("401"))).toEqual([]);
  });

  test("axe finds nothing serious in any view, light or dark, wide or narrow", async () => {
    const conversation = madeTranscript(CONVERSATION, { gap: 3 });
    const scripts = madeTranscript(SCRIPTS, { number: 1 });
    for (const options of [{}, { colours: "dark", width: 360, language: "hi-IN" }] as const) {
      const { page: other, close } = await openConsoleBrowser(options);
      const found: string[] = [];
      const look = async (view: string) => {
        // Fonts and colours are settled.
        await other.waitForTimeout(150);
        found.push(...(await seriousFindings(other)).map((finding) => `${view}: ${finding}`));
      };
      await other.goto(`${origin}/console`);
      await other.locator("form").waitFor();
      await look("sign in");
      await showMade(other, [conversation, scripts]);
      await signInWith(other, origin, installation.key);
      await other.locator(".entry").first().waitFor();
      await look("list");
      await other.locator(".top button.primary").click();
      await other.locator("input[type=file][multiple]").setInputFiles(samplePath("02-hi"));
      await look("upload");
      await other.keyboard.press("Escape");
      await other.locator("dialog").waitFor({ state: "detached" });
      await other.evaluate(`location.hash = "#/t/${conversation.one.id}"`);
      await other.locator(".segment-row").first().waitFor();
      await look("transcript");
      const facts = other.getByRole("button", { name: /Facts and downloads|डाउनलोड/ }).first();
      if (await facts.isVisible()) {
        await facts.click();
        await other.locator(".facts").waitFor();
        await look("facts");
        await facts.click();
        await other.locator(".facts").waitFor({ state: "hidden" });
      }
      await other.locator(".segment-text").first().focus();
      await other.keyboard.press("e");
      await other.locator(".editor").waitFor();
      await look("correcting");
      await other.keyboard.press("Escape");
      await other.evaluate(`location.hash = "#/t/${scripts.one.id}"`);
      await other.locator("[dir=rtl]").first().waitFor();
      await look("scripts");
      await showMadeAdmin(other);
      for (const view of ADMIN_VIEWS) {
        await other.evaluate(`location.hash = "#/admin/${view}"`);
        await other.locator(".admin-main > section").first().waitFor();
        await look(view);
        if (!view.includes("/")) continue;
        await other.locator(".section-head button.primary").last().click();
        await other.locator("dialog").waitFor();
        await look("new key");
        await other.keyboard.press("Escape");
      }
      await close();
      expect({ options, found }).toEqual({ options, found: [] });
    }
  });

  /** A sample, then silence: little work for the recognizer. */
  function largeRecording(more = 0): Uint8Array {
    const sample = pcmOf(SAMPLE);
    return wavFile([sample, new Uint8Array(LARGE_BYTES + more - sample.length)], formatOf(SAMPLE));
  }

  const secondsOf = (bytes: number) => bytes / (2 * formatOf(SAMPLE).rateHz);
});

const AXE = readFileSync(join(import.meta.dir, "../../node_modules/axe-core/axe.min.js"), "utf8");

/** Runs axe-core on the page as it is. Returns what it rates as serious or critical. */
async function seriousFindings(page: Page): Promise<string[]> {
  await page.evaluate(AXE);
  return page.evaluate(`axe.run({ resultTypes: ["violations"] }).then(({ violations }) => violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .map(({ id, nodes }) => id + " " + nodes.map(({ target }) => target.join(" ")).slice(0, 3).join(", ")))`);
}

function freePort(): number {
  const probe = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data: () => undefined } });
  const { port } = probe;
  probe.stop(true);
  return port;
}
