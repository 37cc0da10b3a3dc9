import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { chromium } from "playwright-core";
import { install, reached, uploaded } from "../src/e2e/kit.ts";
import { sampleBytes } from "../src/e2e/samples.ts";
import { findChromium } from "../src/testing/console/chromium.ts";
import { startReceiver } from "../src/testing/kits/webhook-kit.ts";

/**
 * Draws the panels of ops/grafana-dashboard.json without Grafana: a server works under load, a Prometheus scrapes it, and
 * each panel's series are drawn with uPlot, which Grafana uses as well, at the panel's place and with its title and unit.
 *
 * Usage: `bun scripts/dashboard-picture.ts [--seconds 90] [--output FILE.png]`; needs prometheus and Chromium.
 */

const { values } = parseArgs({ options: { output: { type: "string" }, seconds: { type: "string" } } });
const ROOT = join(import.meta.dirname, "..");
const OUTPUT = resolve(values.output ?? join(ROOT, "build/dashboard.png"));
const SECONDS = Number(values.seconds ?? 90);
const CELL = 34;

type Target = { expr: string; legendFormat?: string };
type PanelJson = {
  title: string;
  type: string;
  gridPos: { x: number; y: number; w: number; h: number };
  targets?: Target[];
  fieldConfig?: { defaults?: { unit?: string } };
};
type Series = { metric: Record<string, string>; values: [number, string][] };

const dashboard = JSON.parse(readFileSync(join(ROOT, "ops/grafana-dashboard.json"), "utf8")) as {
  panels: PanelJson[];
};

async function work(): Promise<{ panels: unknown[]; empty: string[] }> {
  const receiver = startReceiver(
    (_, request) => new Response(null, { status: request.url.includes("bad") ? 500 : 204 }),
  );
  const installation = await install({
    creditPaise: 4_000,
    environment: {
      ...{ SHRUTI_WEBHOOKS_ALLOW_HTTP: "true", SHRUTI_WEBHOOKS_ALLOWED_NETWORKS: "127.0.0.0/8" },
      ...{
        SHRUTI_BILLING_LOW_CREDIT_PAISE: "3990",
        SHRUTI_LIMITS_REQUESTS_PER_SECOND: "0",
        SHRUTI_LIMITS_UNPAID_ACTS_PER_SECOND: "0",
      },
    },
  });
  const folder = mkdtempSync(join(tmpdir(), "shruti-dashboard-"));
  const server = await (await installation.serve()).ready();
  const probe = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => new Response() });
  const port = probe.port ?? 0;
  await probe.stop(true);
  const config = readFileSync(join(ROOT, "ops/prometheus.yml"), "utf8")
    .replace("127.0.0.1:8080", new URL(server.baseUrl).host)
    .replaceAll("interval: 15s", "interval: 1s")
    .replace("- alerts.yml", `- ${join(ROOT, "ops/alerts.yml")}`);
  writeFileSync(join(folder, "prometheus.yml"), config);
  const prometheus = Bun.spawn(
    [
      ...["prometheus", `--config.file=${join(folder, "prometheus.yml")}`],
      ...[`--storage.tsdb.path=${join(folder, "data")}`, `--web.listen-address=127.0.0.1:${port}`],
    ],
    { stdout: "ignore", stderr: "ignore" },
  );
  try {
    const startedAt = Date.now() / 1000;
    await load(server, receiver.url, Date.now() + SECONDS * 1000);
    const empty: string[] = [];
    const panels = [];
    for (const panel of dashboard.panels) {
      const series: { name: string; points: [number, number][] }[] = [];
      for (const { expr, legendFormat = "" } of panel.targets ?? []) {
        const query = expr.replaceAll("$instance", ".*").replaceAll(/\$__(rate_interval|interval)/g, "10s");
        const range = new URLSearchParams({
          query,
          start: String(startedAt),
          end: String(Date.now() / 1000),
          step: "1",
        });
        const answer = await fetch(`http://127.0.0.1:${port}/api/v1/query_range?${range}`);
        const { data, error } = (await answer.json()) as { data?: { result: Series[] }; error?: string };
        if (error !== undefined) throw new Error(`${panel.title}: ${error}`);
        for (const { metric, values: points } of data?.result ?? [])
          series.push({
            name:
              legendFormat.replaceAll(/\{\{\s*(\w+)\s*\}\}/g, (_, name) => metric[name] ?? "") ||
              expr.slice(0, 40),
            points: points.map(([at, value]) => [at, Number(value)]),
          });
      }
      if (panel.type !== "row" && series.length === 0) empty.push(panel.title);
      panels.push({ ...panel, series, unit: panel.fieldConfig?.defaults?.unit ?? "" });
    }
    return { panels, empty };
  } finally {
    prometheus.kill("SIGKILL");
    await prometheus.exited;
    rmSync(folder, { recursive: true, force: true });
    await server.stop();
    await receiver.stop();
    await installation.remove();
  }
}

/** Uploads and transcribes, with some failures, until a time. */
async function load(
  server: { api(): Parameters<typeof uploaded>[0]; baseUrl: string },
  hook: string,
  untilMs: number,
): Promise<void> {
  const api = server.api();
  const endpoints = [];
  for (const url of [hook, hook.replace("/hook", "/bad")])
    endpoints.push((await api.call<{ id: string }>("POST", "/v1/webhook_endpoints", { url })).body.id);
  const names = ["01-en", "04-en", "12-en-long", "08-en-phone"];
  for (let n = 0; Date.now() < untilMs; n++) {
    const upload_id = await uploaded(api, sampleBytes(names[n % names.length] ?? "01-en"));
    const webhook_endpoint_id = endpoints[n % 2] ?? "";
    const { body } = await api.start({ audio: { upload_id }, language: "en", webhook_endpoint_id });
    if (n % 5 === 4) await api.cancel(body.id);
    if (n % 3 === 0) await reached(api, body.id);
    if (n % 4 === 1) await api.upload(new TextEncoder().encode("no recording")).catch(() => undefined);
    if (n % 2 === 0) await api.transcribe(sampleBytes("01-en"), { language: "en" }).catch(() => undefined);
    await api.get("tr_00000000000000000000000000").catch(() => undefined);
    await Bun.sleep(300);
  }
}

/** Draws in the page: it has uPlot and the panels. */
const DRAW = `
const UNITS = { s: " s", bytes: " B", percentunit: "", reqps: "/s", short: "", none: "" };
const format = (value, unit) => {
  if (unit === "percentunit") return (value * 100).toFixed(0) + " %";
  for (const [size, letter] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]])
    if (Math.abs(value) >= size) return (value / size).toFixed(1) + " " + letter + (unit === "bytes" ? "B" : "");
  return Number(value.toFixed(2)) + (UNITS[unit] ?? " " + unit);
};
const COLOURS = ["#73bf69", "#f2cc0c", "#5794f2", "#ff780a", "#e02f44", "#b877d9", "#8ab8ff", "#ffb357"];
for (const panel of PANELS) {
  const { x, y, w, h } = panel.gridPos;
  const box = document.createElement("div");
  box.className = "panel " + panel.type;
  box.style = "left:" + x * WIDTH / 24 + "px;top:" + y * CELL + "px;width:" + (w * WIDTH / 24 - 8) + "px;height:" + (h * CELL - 8) + "px";
  box.innerHTML = "<b></b>";
  box.firstChild.textContent = panel.title;
  document.body.append(box);
  if (panel.type === "stat") {
    const last = panel.series.map((one) => format(one.points.at(-1)[1], panel.unit)).join(" · ");
    const value = document.createElement("p");
    value.textContent = last || "No data";
    box.append(value);
  } else if (panel.type === "timeseries") {
    const times = [...new Set(panel.series.flatMap((one) => one.points.map(([at]) => at)))].sort();
    const data = [times, ...panel.series.map((one) => { const at = new Map(one.points); return times.map((t) => { const v = at.get(t); return v === undefined || Number.isNaN(v) ? null : v; }); })];
    if (panel.series.length === 0) { box.append("No data"); continue; }
    new uPlot({ width: w * WIDTH / 24 - 24, height: h * CELL - 74, legend: { show: true, live: false },
      axes: [{ stroke: "#ccc", grid: { stroke: "#333" } }, { stroke: "#ccc", grid: { stroke: "#333" }, size: 64, values: (_, all) => all.map((v) => v === null ? "" : format(v, panel.unit)) }],
      series: [{}, ...panel.series.map((one, i) => ({ label: one.name, stroke: COLOURS[i % COLOURS.length], width: 1.5, points: { show: false } }))] }, data, box);
  }
}`;
const STYLE = `body{background:#111217;color:#ccccdc;font:12px sans-serif;margin:0;position:relative}
.panel{position:absolute;background:#181b1f;border:1px solid #333;overflow:hidden;padding:2px 4px;box-sizing:border-box}
.row{background:none;border:none;font-size:15px}.stat p{font-size:22px;margin:6px 0;text-align:center;color:#73bf69}
.u-legend{font-size:10px}.u-legend .u-series{display:inline-block}.u-legend td,.u-legend th{padding:0 4px}`;

const { panels, empty } = await work();
const executablePath = findChromium();
if (executablePath === undefined) throw new Error("there is no Chromium on this machine");
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
const bottom = Math.max(...dashboard.panels.map(({ gridPos: { y, h } }) => y + h));
const page = await browser.newPage({ viewport: { width: 1600, height: bottom * CELL } });
const dist = join(ROOT, "node_modules/uplot/dist");
await page.setContent(
  `<style>${readFileSync(join(dist, "uPlot.min.css"), "utf8")}${STYLE}</style><body></body>`,
);
await page.addScriptTag({ path: join(dist, "uPlot.iife.min.js") });
await page.evaluate(
  `{const PANELS = ${JSON.stringify(panels)}; const CELL = ${CELL}; const WIDTH = 1600; ${DRAW}}`,
);
mkdirSync(join(OUTPUT, ".."), { recursive: true });
await page.screenshot({ path: OUTPUT, fullPage: true });
await browser.close();
console.log(`${OUTPUT}: ${panels.length} panels; without data: ${empty.join(", ") || "none"}`);
process.exit(0);
