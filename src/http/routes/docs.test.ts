import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { findChromium, visitPage } from "../../testing/console/chromium.ts";
import { openTestApp, type TestApp } from "../../testing/kits/open-test-app.ts";

const browser = findChromium();
if (browser === undefined)
  console.warn("No Chromium is installed: whether /docs stays offline is not tested.");

let testApp: TestApp;
beforeAll(async () => {
  testApp = await openTestApp({ listens: true });
});
afterAll(() => testApp.close());

describe("/docs", () => {
  test("needs no key, and forbids requests to every other host", async () => {
    const response = await testApp.fetch("/docs");
    expect(response.status).toBe(200);
    expect(response.headers.get("content-type")).toBe("text/html; charset=utf-8");
    const policy = response.headers.get("content-security-policy") ?? "";
    expect(policy).toContain("default-src 'none'");
    expect(policy).toContain("connect-src 'self'");
    expect(policy).not.toMatch(/https?:|\*/);
    expect(await response.text()).not.toMatch(/https?:\/\//);
  });

  test("serves the viewer compressed, and only once to a browser that has it", async () => {
    const response = await testApp.fetch("/docs/viewer.js", { headers: { "accept-encoding": "gzip" } });
    expect(response.headers.get("content-encoding")).toBe("gzip");
    expect((await response.arrayBuffer()).byteLength).toBeGreaterThan(1_000_000);
    const plain = await testApp.fetch("/docs/viewer.js", { headers: { "accept-encoding": "identity" } });
    expect(plain.headers.get("content-encoding")).toBeNull();
    expect((await plain.arrayBuffer()).byteLength).toBeGreaterThan(4_000_000);
    const known = await testApp.fetch("/docs/viewer.js", {
      headers: { "if-none-match": response.headers.get("etag") ?? "" },
    });
    expect(known.status).toBe(304);
  });

  test.skipIf(browser === undefined)(
    "shows the interface, and no request leaves the host (needs Chromium)",
    async () => {
      const { requests, text, errors } = await visitPage(
        browser ?? "",
        `${testApp.baseUrl()}/docs`,
        'document.body.innerText.includes("Start a transcription")',
      );
      const outside = requests.filter(
        (url) => !/^(data|blob|about):/.test(url) && !url.startsWith(testApp.baseUrl()),
      );
      expect(outside).toEqual([]);
      expect(requests).toContain(`${testApp.baseUrl()}/openapi.json`);
      expect(text).toContain("Shruti");
      expect(errors).toEqual([]);
    },
    60_000,
  );
});
