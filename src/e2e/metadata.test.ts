import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { appendFileSync, existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Evidence } from "../services/signed/evidence.ts";
import type { SignedDocument } from "../services/signed/signed-documents.ts";
import { findChromium } from "../testing/console/chromium.ts";
import { openConsoleBrowser, signInWith } from "../testing/console/console-browser.ts";
import { type Installation, install, type RunningServer, until } from "./kit.ts";
import { sampleBytes } from "./samples.ts";

/** Tests metadata of calls on the executable: from a watched folder to commands, evidence and the console, and their removal. */

setDefaultTimeout(120_000);

const hasBrowser = findChromium() !== undefined;
const CALL = "20261126_12_9820012345";

let installation: Installation;
let server: RunningServer;
let id = "";
const at = (name: string) => join(installation.folder, name);
const list = (...filter: string[]) =>
  installation.json<{ id: string }[]>("transcriptions", "list", ...filter);

beforeAll(async () => {
  installation = await install({ environment: { SHRUTI_CAPABILITIES_METADATA: "true" } });
  for (const name of ["in", "out"]) mkdirSync(at(name));
  const places = `path = "${at("in")}"\nresults = "${at("out")}"\nproject = "${installation.projectId}"`;
  const rest = 'complete = "rename"\npoll_seconds = 1\nlanguage = "en"\nafter = "delete"';
  const metadata =
    'metadata_pattern = "{date}_{agent}_{caller}.wav"\nsidecar = "json"\nmetadata_fields = ["queue=Queue"]';
  appendFileSync(installation.configPath, `\n[[intake.folder]]\n${places}\n${rest}\n${metadata}\n`);
  server = await (await installation.serve()).ready();
  writeFileSync(at(`in/.${CALL}.wav`), sampleBytes("01-en"));
  renameSync(at(`in/.${CALL}.wav`), at(`in/${CALL}.wav`));
  const waiting = async () => {
    const [folder] = await installation.json<{ now: { without_sidecar_files: string[] } | null }[]>(
      "folder",
      "status",
    );
    return folder?.now?.without_sidecar_files[0] === `${CALL}.wav`;
  };
  await until("the status says that its sidecar is not there", waiting, 30_000);
  writeFileSync(at("in/.sidecar"), '{"Queue": "बिक्री", "pin": "4711"}');
  renameSync(at("in/.sidecar"), at(`in/${CALL}.json`));
  await until("it is done", () => !existsSync(at(`in/${CALL}.json`)), 60_000);
  const [first] = await list();
  id = first?.id ?? "";
});
afterAll(() => installation?.remove());

const METADATA = { date: "20261126", agent: "12", caller: "9820012345", queue: "बिक्री" };

test("results and evidence have the metadata, and commands find by it", async () => {
  expect(JSON.parse(readFileSync(at(`out/${CALL}.json`), "utf8"))).toMatchObject({ metadata: METADATA });
  expect(await list("--metadata", "agent=12", "--metadata", "queue=बिक्री")).toMatchObject([{ id }]);
  expect(await list("--metadata", "agent=1")).toEqual([]);
  expect(await installation.command("transcriptions", "list", "--metadata", "agent")).toMatchObject({
    code: 2,
  });
  await installation.output("transcriptions", "evidence", id, "--output", at("evidence.json"));
  const { document } = JSON.parse(readFileSync(at("evidence.json"), "utf8")) as SignedDocument<Evidence>;
  expect(document.request).toMatchObject({ metadata: METADATA });
});

describe.skipIf(!hasBrowser)("the console (needs Chromium)", () => {
  test("shows metadata, and finds by it", async () => {
    const browser = await openConsoleBrowser();
    try {
      const { page } = browser;
      page.setDefaultTimeout(20_000);
      await signInWith(page, server.baseUrl, installation.key);
      const entries = page.locator(".list .entry");
      await entries.first().click();
      const value = page.locator(".fact-list.metadata", { hasText: "बिक्री" });
      await value.waitFor();
      await page.getByRole("button", { name: "9820012345" }).click();
      const field = page.getByLabel("Find by metadata");
      expect(await field.inputValue()).toBe("caller=9820012345");
      await entries.first().waitFor();
      await field.fill("agent=1");
      await page.getByRole("button", { name: "Find", exact: true }).click();
      await page.getByText("No recording has this in its metadata.").waitFor();
      await field.fill("");
      await entries.first().waitFor();
    } finally {
      await browser.close();
    }
  });
});

test("who deletes the transcript deletes its metadata, and the log never had them", async () => {
  await server.api().remove(id);
  expect(await list("--metadata", "agent=12")).toEqual([]);
  for (const each of [...Object.values(METADATA).slice(2), "4711"]) expect(server.log()).not.toContain(each);
  expect(await installation.output("transcriptions", "show", id)).not.toContain("बिक्री");
});
