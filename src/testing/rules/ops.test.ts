import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openTestApp, type TestApp } from "../kits/open-test-app.ts";

/**
 * Checks the monitoring pack in ops/. The names of metrics are always checked. Rules and queries are checked where Debian's
 * package prometheus is installed.
 */

const OPS = join(import.meta.dir, "../../../ops");
const hasPrometheus = Bun.which("promtool") !== null && Bun.which("prometheus") !== null;
const read = (name: string) => readFileSync(join(OPS, name), "utf8");

type Panel = { title: string; type: string; targets?: { expr: string }[] };
const dashboard = JSON.parse(read("grafana-dashboard.json")) as { panels: Panel[] };
const queries = dashboard.panels.flatMap(({ title, targets = [] }) =>
  targets.map(({ expr }) => ({ title, expr: expr.replaceAll("$instance", ".*") })),
);

let app: TestApp;
let text: string;
beforeAll(async () => {
  app = await openTestApp({ listens: true });
  text = await (await app.fetch("/metrics")).text();
});
afterAll(() => app.close());

test("every metric of rules and dashboard exists", () => {
  const known = [...text.matchAll(/^# TYPE (\w+) (\w+)$/gm)].flatMap(([, name = "", type]) =>
    type === "histogram" ? [`${name}_bucket`, `${name}_count`, `${name}_sum`] : [name],
  );
  const used = [read("alerts.yml"), ...queries.map(({ expr }) => expr)].flatMap((source) => [
    ...(source.match(/\b(?:shruti_(?!credit\b)|process_)[a-z_]+/g) ?? []),
  ]);
  expect(used.length).toBeGreaterThan(50);
  expect([...new Set(used)].filter((name) => !known.includes(name))).toEqual([]);
  // What is measured is also shown.
  const shown = new Set(queries.flatMap(({ expr }) => expr.match(/\w+/g) ?? []));
  const unseen = ["process_start_time_seconds", "shruti_http_request_duration_seconds_count"];
  const unshown = known.filter((name) => name.startsWith("shruti_") && !shown.has(name));
  expect(unshown.filter((name) => !unseen.includes(name) && !name.endsWith("_sum"))).toEqual([]);
});

test("every alert says what happened and what to do, and is provoked", () => {
  const alerts = [...read("alerts.yml").matchAll(/- alert: (\w+)/g)].map(([, name = ""]) => name);
  const cases = read("alerts.test.yml");
  expect(alerts.length).toBeGreaterThan(10);
  expect(read("alerts.yml").match(/summary: /g)?.length).toBe(alerts.length);
  expect(read("alerts.yml").match(/action: /g)?.length).toBe(alerts.length);
  for (const name of alerts) expect(cases).toContain(`  - name: ${name}\n`);
});

const run = (...command: string[]) => {
  const { exitCode, stdout, stderr } = Bun.spawnSync(command, { cwd: OPS });
  return { exitCode, said: exitCode === 0 ? "" : `${stdout}${stderr}` };
};

describe.skipIf(!hasPrometheus)("with Debian's package prometheus (needs the package prometheus)", () => {
  test("promtool accepts config and rules, and every alert fires when it is provoked", () => {
    expect(run("promtool", "check", "config", "prometheus.yml")).toEqual({ exitCode: 0, said: "" });
    expect(run("promtool", "test", "rules", "alerts.test.yml")).toEqual({ exitCode: 0, said: "" });
  }, 60_000);

  test("promtool finds nothing to say about the names of the metrics", () => {
    const { exitCode, stdout, stderr } = Bun.spawnSync(["promtool", "check", "metrics"], {
      stdin: Buffer.from(text),
    });
    expect([exitCode, `${stdout}${stderr}`]).toEqual([0, ""]);
  }, 60_000);

  test("a Prometheus scrapes the server, loads the rules, and answers every query of the dashboard", async () => {
    const folder = mkdtempSync(join(tmpdir(), "shruti-prometheus-"));
    const port = freePort();
    const config = read("prometheus.yml")
      .replace("127.0.0.1:8080", new URL(app.baseUrl()).host)
      .replaceAll("interval: 15s", "interval: 1s")
      .replace("- alerts.yml", `- ${join(OPS, "alerts.yml")}`);
    writeFileSync(join(folder, "prometheus.yml"), config);
    const child = Bun.spawn(
      [
        ...["prometheus", `--config.file=${join(folder, "prometheus.yml")}`],
        ...[`--storage.tsdb.path=${join(folder, "data")}`, `--web.listen-address=127.0.0.1:${port}`],
      ],
      { stdout: "ignore", stderr: "ignore" },
    );
    try {
      const ask = async (expr: string) => {
        const answer = await fetch(`http://127.0.0.1:${port}/api/v1/query?query=${encodeURIComponent(expr)}`);
        const body = (await answer.json()) as { status: string; error?: string; data: { result: unknown[] } };
        return { error: body.error, results: body.data?.result.length ?? 0 };
      };
      const isUp = async () =>
        (await ask('up{job="shruti"} == 1').catch(() => ({ results: 0 }))).results === 1;
      for (let left = 300; left > 0 && !(await isUp()); left -= 1) await Bun.sleep(100);
      // Rates need two scrapes.
      await Bun.sleep(3_000);
      const answers = await Promise.all(
        queries.map(async ({ title, expr }) => ({ title, expr, ...(await ask(expr)) })),
      );
      expect(answers.filter(({ error }) => error !== undefined)).toEqual([]);
      // These have values only after something has happened.
      const silent = [
        "Organizations: credit and space",
        "What ends: certificate, next API key",
        "Workers that ended unexpectedly",
        "Errors per second",
        "Time to the answer",
      ];
      expect(answers.filter(({ results, title }) => results === 0 && !silent.includes(title))).toEqual([]);
      const rules = await fetch(`http://127.0.0.1:${port}/api/v1/rules`);
      const { data } = (await rules.json()) as {
        data: { groups: { rules: { health: string; state: string }[] }[] };
      };
      expect(data.groups[0]?.rules.length).toBeGreaterThan(10);
      // A healthy server provokes none of them.
      expect(data.groups[0]?.rules.filter(({ state }) => state === "firing")).toEqual([]);
    } finally {
      child.kill("SIGKILL");
      await child.exited;
      rmSync(folder, { recursive: true, force: true });
    }
  }, 90_000);
});

function freePort(): number {
  const server = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => new Response() });
  const { port } = server;
  void server.stop(true);
  return port ?? 0;
}
