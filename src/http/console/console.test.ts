import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { brotliDecompressSync } from "node:zlib";
import { openTestApp, type TestApp } from "../../testing/kits/open-test-app.ts";

/** What a browser may load before it shows the page, compressed, without fonts. */
const MAX_FIRST_BYTES = 250_000;

let testApp: TestApp;
beforeAll(async () => {
  testApp = await openTestApp();
  await testApp.fetch("/console");
}, 120_000);
afterAll(() => testApp.close());

const get = (path: string, coding = "gzip") =>
  testApp.fetch(path, { headers: { "accept-encoding": coding } });

/** Returns the addresses in the page, which are relative to the server's own. */
async function filesOfPage(): Promise<string[]> {
  const page = await (await get("/console", "identity")).text();
  return [...page.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, address = ""]) => `/${address}`);
}

describe("/console", () => {
  test("needs no key, and forbids other hosts, code and styles in the page, and frames", async () => {
    const response = await get("/console", "identity");
    expect(response.status).toBe(200);
    expect(response.headers.get("content-type")).toBe("text/html; charset=utf-8");
    const policy = response.headers.get("content-security-policy") ?? "";
    expect(policy).toContain("default-src 'self'");
    expect(policy).toContain("frame-ancestors 'none'");
    expect(policy).not.toMatch(/https?:|\*|unsafe|nonce|data:/);
    const page = await response.text();
    expect(page).not.toMatch(/https?:\/\/|<style|style=|<script(?![^>]*src=)|\son\w+=/);
  });

  test("is found with a slash at its end, also below another path of a proxy", async () => {
    const response = await testApp.fetch("/console/", { redirect: "manual" });
    expect([response.status, response.headers.get("location")]).toEqual([308, "../console"]);
  });

  test("names files by their content: browsers keep them for good", async () => {
    const files = await filesOfPage();
    expect(files.length).toBe(3);
    for (const path of files) {
      expect(path).toMatch(/^\/console\/assets\/\w+-\w{8}\.(js|css|svg)$/);
      const response = await get(path);
      expect(response.headers.get("cache-control")).toBe("public, max-age=31536000, immutable");
      const tag = response.headers.get("etag") ?? "";
      const known = await testApp.fetch(path, {
        headers: { "if-none-match": tag, "accept-encoding": "gzip" },
      });
      expect(known.status).toBe(304);
    }
    const page = await get("/console");
    expect(page.headers.get("cache-control")).toBe("no-cache");
  });

  test("sends at most 250 kB before the first paint, fonts aside", async () => {
    let bytes = 0;
    for (const path of ["/console", ...(await filesOfPage())]) {
      const response = await get(path, "gzip");
      expect(response.headers.get("content-encoding")).toBe("gzip");
      bytes += (await response.arrayBuffer()).byteLength;
    }
    expect(bytes).toBeGreaterThan(20_000);
    expect(bytes).toBeLessThan(MAX_FIRST_BYTES);
  });

  test("serves each file in the coding that the client accepts, with the same content", async () => {
    const [script = ""] = (await filesOfPage()).filter((path) => path.endsWith(".js"));
    const texts: string[] = [];
    for (const coding of ["br", "gzip", "identity", "br;q=0, gzip;q=0"]) {
      const response = await get(script, coding);
      const bytes = new Uint8Array(await response.arrayBuffer());
      const sent = response.headers.get("content-encoding");
      expect(sent).toBe(coding === "br" || coding === "gzip" ? coding : null);
      texts.push(unpack(bytes, sent));
    }
    expect(new Set(texts).size).toBe(1);
    expect(texts[0]).toContain("shruti");
  });

  test("has the fonts of all scripts, each for its own letters", async () => {
    const [styles = ""] = (await filesOfPage()).filter((path) => path.endsWith(".css"));
    const css = await (await get(styles, "identity")).text();
    const rules = [...css.matchAll(/@font-face\s*\{([^}]*)\}/g)].map(([, rule = ""]) => rule);
    for (const letter of "कঅਅઅଅதఅಅമᱚꯀاA₹") {
      const point = letter.codePointAt(0) ?? 0;
      expect({ letter, fonts: rules.filter((rule) => covers(rule, point)).length > 0 }).toEqual({
        letter,
        fonts: true,
      });
    }
    for (const [, name = ""] of css.matchAll(/url\(([^)]+)\) format/g)) {
      const font = await get(`/console/assets/${name}`);
      expect(font.headers.get("content-type")).toBe("font/woff2");
      expect((await font.arrayBuffer()).byteLength).toBeGreaterThan(3000);
    }
  });

  test("other names are unknown", async () => {
    for (const path of ["/console/assets/x.js", "/console/assets/page.html", "/console/x"]) {
      const response = await testApp.as(testApp.key)(path);
      expect([path, response.status]).toEqual([path, 404]);
    }
  });
});

function unpack(bytes: Uint8Array<ArrayBuffer>, coding: string | null): string {
  if (coding === "br") return new TextDecoder().decode(brotliDecompressSync(bytes));
  if (coding === "gzip") return new TextDecoder().decode(Bun.gunzipSync(bytes));
  return new TextDecoder().decode(bytes);
}

function covers(rule: string, point: number): boolean {
  const ranges = /unicode-range:([^;}]+)/.exec(rule)?.[1]?.split(",") ?? [];
  return ranges.some((range) => {
    const [from = "", to = from] = range.trim().replace("U+", "").split("-");
    return point >= Number.parseInt(from, 16) && point <= Number.parseInt(to, 16);
  });
}
