import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { runAs } from "../../lib/actor.ts";
import { openLog } from "../../lib/log.ts";
import { createConsoleSessionService } from "../../services/console-sessions.ts";
import { exportAudit } from "../../store/audit-log.ts";
import { putHeldKeys } from "../../store/held-keys.ts";
import { markPurged, markPurgeStarted } from "../../store/organizations.ts";
import { apiClient } from "../../testing/answers/api-client.ts";
import { expectRefusal } from "../../testing/answers/scenarios.ts";
import { openTestApp, type TestApp, type TestAppOptions } from "../../testing/kits/open-test-app.ts";
import { scriptedAudio } from "../../testing/kits/scripted-engine.ts";
import type {
  AdminTranscription,
  AdminTranscriptionList,
  ConsoleEndpointList,
  ConsoleModelList,
  DeliveryList,
  Granted,
  KeyCreated,
  KeyList,
  LedgerList,
  Organization,
  OrganizationList,
  Overview,
  Project,
  ProjectList,
  Series,
  Session,
  UsageDays,
} from "../wire/console.ts";

/** Sessions of an admin in the console, and what an admin can change there. */

let testApp: TestApp;
const lines: string[] = [];
/** The test's requests come through a trusted proxy, so that they can come from anywhere. */
const PROXY = { server: { trusted_proxies: ["127.0.0.0/8"] } };

beforeAll(async () => {
  const log = openLog("debug", "json", (line) => void lines.push(line));
  testApp = await openTestApp({ listens: true, log, config: PROXY });
});
afterAll(() => testApp.close());

type Browser = {
  /** Leaves a header field out with undefined. */
  ask(
    method: string,
    path: string,
    body?: unknown,
    headers?: Record<string, string | undefined>,
  ): Promise<Response>;
  session: Session;
  cookie: string;
};

const sessionsOf = ({ app, clock }: TestApp) =>
  createConsoleSessionService({ database: app.database, clock });
/** Makes a link as `shruti console` does. */
const linkOf = (app: TestApp) =>
  runAs({ source: "command_line", name: "meera", via: "console" }, () => sessionsOf(app).createLink().secret);

function send(
  app: TestApp,
  method: string,
  path: string,
  body: unknown,
  headers: Record<string, string | undefined>,
): Promise<Response> {
  const all = {
    origin: app.baseUrl(),
    "x-forwarded-for": "127.0.0.1",
    ...(body === undefined ? {} : { "content-type": "application/json" }),
    ...headers,
  };
  const given = Object.entries(all).filter((pair): pair is [string, string] => pair[1] !== undefined);
  const content = body === undefined ? {} : { body: JSON.stringify(body) };
  return fetch(`${app.baseUrl()}/console/api${path}`, { method, headers: given, ...content });
}

async function signIn(app: TestApp = testApp, secret = linkOf(app)): Promise<Browser> {
  const response = await send(app, "POST", "/session", { token: secret }, {});
  expect(response.status).toBe(200);
  const session = (await response.json()) as Session;
  const cookie = response.headers.get("set-cookie")?.split(";")[0] ?? "";
  return {
    ...{ session, cookie },
    ask: (method, path, body, headers = {}) =>
      send(app, method, path, body, { cookie, "x-csrf-token": session.csrf_token, ...headers }),
  };
}

async function answer<T>(response: Promise<Response>): Promise<T> {
  const found = await response;
  const text = await found.text();
  if (found.status !== 200) throw new Error(`${found.status} ${text}`);
  return JSON.parse(text) as T;
}

describe("links and sessions", () => {
  test("a link opens one session, with a cookie that scripts cannot read", async () => {
    const secret = linkOf(testApp);
    const response = await send(testApp, "POST", "/session", { token: secret }, {});
    expect(response.headers.get("set-cookie")).toMatch(
      /^shruti_console=adm_[\w-]{43}; Path=\/console; Max-Age=43200; HttpOnly; SameSite=Strict$/,
    );
    expect(response.headers.get("cache-control")).toBe("no-store");
    expect(await response.json()).toEqual({
      object: "console.session",
      csrf_token: expect.stringMatching(/^[0-9a-f]{64}$/),
      expires_at: new Date(testApp.clock.now() + 12 * 3_600_000).toISOString(),
    });
    await expectRefusal(await send(testApp, "POST", "/session", { token: secret }, {}), {
      code: "unauthorized",
    });
  });

  test("behind TLS the cookie is for TLS only", async () => {
    const config = { server: { ...PROXY.server, base_url: "https://speech.example/asr" } };
    const secure = await openTestApp({ listens: true, config });
    try {
      const headers = { origin: "https://speech.example" };
      const response = await send(secure, "POST", "/session", { token: linkOf(secure) }, headers);
      expect(response.headers.get("set-cookie")).toMatch(/; Path=\/asr\/console; .*; Secure$/);
    } finally {
      await secure.close();
    }
  });

  test("a session is there after a reload, until it is ended", async () => {
    const { ask, session } = await signIn();
    expect(await answer<Session>(ask("GET", "/session"))).toEqual(session);
    const ended = await ask("DELETE", "/session");
    expect(ended.headers.get("set-cookie")).toMatch(/^shruti_console=; .*Max-Age=0/);
    await expectRefusal(await ask("GET", "/session"), { code: "unauthorized" });
  });

  test("links and sessions end with their time, and all together", async () => {
    const late = linkOf(testApp);
    const { ask } = await signIn();
    testApp.clock.advance(10 * 60_000);
    await expectRefusal(await send(testApp, "POST", "/session", { token: late }, {}), {
      code: "unauthorized",
    });
    expect((await ask("GET", "/session")).status).toBe(200);
    testApp.clock.advance(12 * 3_600_000);
    await expectRefusal(await ask("GET", "/session"), { code: "unauthorized" });
    const [one, two] = [await signIn(), await signIn()];
    const unused = linkOf(testApp);
    expect(sessionsOf(testApp).endAll()).toEqual({ links: 1, sessions: 2 });
    await expectRefusal(await one.ask("GET", "/overview"), { code: "unauthorized" });
    await expectRefusal(await two.ask("GET", "/overview"), { code: "unauthorized" });
    await expectRefusal(await send(testApp, "POST", "/session", { token: unused }, {}), {
      code: "unauthorized",
    });
  });

  test("the database has no secret, and neither has the log", async () => {
    const secret = linkOf(testApp);
    const { cookie, session, ask } = await signIn(testApp, secret);
    await ask("GET", `/transcriptions/${secret}`);
    const stored = JSON.stringify(testApp.app.database.sqlite.query("SELECT * FROM console_secrets").all());
    const logged = lines.join("\n");
    expect(logged).toContain("/console/api/session");
    for (const each of [secret, cookie.split("=")[1] ?? "", session.csrf_token]) {
      expect(stored).not.toContain(each);
      expect(logged).not.toContain(each);
    }
  });

  test("tries of wrong links are bounded, and a right link works all the same", async () => {
    const own = await openTestApp({ listens: true, config: PROXY });
    try {
      const secret = linkOf(own);
      const wrong = { token: `adm_${"A".repeat(43)}` };
      for (let count = 0; count < 10; count++) {
        await expectRefusal(await send(own, "POST", "/session", wrong, {}), { code: "unauthorized" });
      }
      const refused = await send(own, "POST", "/session", wrong, {});
      expect(refused.headers.get("retry-after")).toBe("6");
      await expectRefusal(refused, { code: "rate_limited" });
      await signIn(own, secret);
      await expectRefusal(await send(own, "POST", "/session", { token: secret }, {}), {
        code: "rate_limited",
      });
      own.clock.advance(6_000);
      await expectRefusal(await send(own, "POST", "/session", wrong, {}), { code: "unauthorized" });
    } finally {
      await own.close();
    }
  });
});

/** Every request that changes something, with a body that would be accepted. */
const WRITES: [method: string, path: string, body?: unknown][] = [
  ["DELETE", "/session"],
  ["POST", "/organizations", { name: "N" }],
  ["PATCH", "/organizations/ORG", { weight: 2 }],
  ["POST", "/organizations/ORG/disable"],
  ["POST", "/organizations/ORG/enable"],
  ["POST", "/organizations/ORG/grants", { amount_paise: 100 }],
  ["POST", "/projects", { organization_id: "ORG", name: "P" }],
  ["POST", "/keys", { project_id: "PRJ", name: "K" }],
  ["POST", "/keys/KEY/revoke"],
  ["POST", "/webhook_endpoints/whe_0/enable"],
  ["POST", "/webhook_endpoints/whe_0/disable"],
  ["POST", "/webhook_endpoints/whe_0/redeliver"],
  ["POST", "/deliveries/evt_0/redeliver"],
  ["POST", "/transcriptions/tr_0/cancel"],
];

/** What is changed about a right request, and the refusal. */
const WRONG: [what: string, headers: Record<string, string | undefined>, code: string, detail?: string][] = [
  ["another origin", { origin: "https://evil.example" }, "forbidden", "origin"],
  ["an origin that cannot be read", { origin: "null" }, "forbidden", "origin"],
  ["another site", { origin: undefined, "sec-fetch-site": "cross-site" }, "forbidden", "origin"],
  ["another page of the same site", { "sec-fetch-site": "same-site" }, "forbidden", "origin"],
  ["a link in a mail", { origin: undefined, "sec-fetch-site": "none" }, "forbidden", "origin"],
  ["no word about the page", { origin: undefined }, "forbidden", "origin"],
  ["no token", { "x-csrf-token": undefined }, "forbidden", "x-csrf-token"],
  ["a wrong token", { "x-csrf-token": "0".repeat(64) }, "forbidden", "x-csrf-token"],
  ["no session", { cookie: undefined }, "unauthorized"],
  ["a wrong session", { cookie: `shruti_console=adm_${"A".repeat(43)}` }, "unauthorized"],
  ["another network", { "x-forwarded-for": "192.0.2.7" }, "forbidden", "network"],
  ["a proxy that does not say for whom it asks", { "x-forwarded-for": undefined }, "forbidden", "network"],
];

describe("what changes something is refused", () => {
  for (const [what, headers, code, detail] of WRONG) {
    test(`with ${what}`, async () => {
      const { ask } = await signIn();
      const before = [...exportAudit(testApp.app.database.store)].length;
      for (const [method, path, body] of WRITES) {
        const response = await ask(method, path, body, headers);
        await expectRefusal(response, { code, ...(detail === undefined ? {} : { detail }) } as never);
      }
      expect([...exportAudit(testApp.app.database.store)]).toHaveLength(before);
      expect((await ask("GET", "/session")).status).toBe(200);
    });
  }

  test("and the list of requests here is complete", () => {
    const source = new Bun.Glob("admin-routes.ts").scanSync({ cwd: import.meta.dir, absolute: true });
    const [file = ""] = [...source];
    return Bun.file(file)
      .text()
      .then((text) => {
        const found = [...text.matchAll(/\.(post|patch|put|delete)\(\s*"\/console\/api([^"]+)"/g)].map(
          ([, method = "", path = ""]) => `${method.toUpperCase()} ${path.replaceAll(":id", "ID")}`,
        );
        const listed = WRITES.map(
          ([method, path]) => `${method} ${path.replace(/(ORG|KEY|whe_0|evt_0|tr_0)/, "ID")}`,
        );
        expect(found.filter((each) => each !== "POST /session").sort()).toEqual(listed.sort());
      });
  });

  test("without a trusted proxy, when another proxy has passed the request on", async () => {
    const direct = await openTestApp({ listens: true });
    try {
      const plain = { "x-forwarded-for": undefined };
      const opened = await send(direct, "POST", "/session", { token: linkOf(direct) }, plain);
      expect(opened.status).toBe(200);
      for (const field of ["x-forwarded-for", "forwarded", "x-real-ip", "via"]) {
        const headers = { ...plain, [field]: "127.0.0.1" };
        const response = await send(direct, "POST", "/session", { token: linkOf(direct) }, headers);
        await expectRefusal(response, { code: "forbidden", detail: "network" });
      }
    } finally {
      await direct.close();
    }
  });

  test("and the console is open for the networks of the config only", async () => {
    const config: TestAppOptions["config"] = {
      ...PROXY,
      console: { admin_from: ["10.0.0.0/8", "2001:db8::/32"] },
    };
    const office = await openTestApp({ listens: true, config });
    try {
      const from = (address: string) =>
        send(office, "POST", "/session", { token: linkOf(office) }, { "x-forwarded-for": address });
      expect((await from("10.1.2.3")).status).toBe(200);
      expect((await from("2001:db8::7")).status).toBe(200);
      await expectRefusal(await from("11.1.2.3"), { code: "forbidden", detail: "network" });
      await expectRefusal(await from("127.0.0.1"), { code: "forbidden", detail: "network" });
    } finally {
      await office.close();
    }
  });

  test("and nothing is there when the console is switched off", async () => {
    const off = await openTestApp({ listens: true, config: { ...PROXY, console: { enabled: false } } });
    try {
      for (const path of ["/console", "/console/api/session"]) {
        const response = await fetch(off.baseUrl() + path, {
          headers: { authorization: `Bearer ${off.key}` },
        });
        await expectRefusal(response, { code: "not_found" });
      }
    } finally {
      await off.close();
    }
  });
});

describe("an admin", () => {
  let browser: Browser;
  beforeAll(async () => {
    browser = await signIn();
  });
  const get = <T>(path: string) => answer<T>(browser.ask("GET", path));
  const post = <T>(path: string, body?: unknown) => answer<T>(browser.ask("POST", path, body));

  test("administers organizations, projects, keys and credit as with commands", async () => {
    const made = await post<Organization>("/organizations", {
      name: "Radio",
      price_paise_per_audio_hour: 1200,
    });
    expect(made).toMatchObject({
      name: "Radio",
      disabled: false,
      price_paise_per_audio_hour: 1200,
      weight: 1,
    });
    expect(made.effective).toMatchObject({ price_paise_per_audio_hour: 1200, max_queued: 1000 });
    const path = `/organizations/${made.id}`;
    const change = { weight: 3, price_paise_per_audio_hour: null };
    const changed = await answer<Organization>(browser.ask("PATCH", path, change));
    expect(changed).toMatchObject({ weight: 3, price_paise_per_audio_hour: null });
    expect(changed.effective.price_paise_per_audio_hour).toBe(3000);
    expect((await post<Organization>(`${path}/disable`)).disabled).toBe(true);
    expect((await post<Organization>(`${path}/enable`)).disabled).toBe(false);

    const granted = await post<Granted>(`${path}/grants`, { amount_paise: 5000, note: "invoice 7" });
    expect(granted).toMatchObject({
      entry: { amount_paise: 5000, note: "invoice 7" },
      credit: { balance_paise: 5000 },
    });
    await post<Granted>(`${path}/grants`, { amount_paise: -1000, note: "typo" });
    const page = await get<LedgerList>(`${path}/ledger?limit=1`);
    expect(page.data.map(({ amount_paise }) => amount_paise)).toEqual([-1000]);
    const rest = await get<LedgerList>(`${path}/ledger?after=${page.next}`);
    expect(rest.data.map(({ note }) => note)).toEqual(["invoice 7"]);

    const project = await post<Project>("/projects", { organization_id: made.id, name: "archive" });
    expect((await get<ProjectList>(`/projects?organization_id=${made.id}`)).data).toEqual([project]);
    const key = await post<KeyCreated>("/keys", {
      project_id: project.id,
      name: "desk",
      scopes: ["usage:read"],
    });
    expect([key.state, key.scopes]).toEqual(["active", ["usage:read"]]);
    expect((await testApp.as(key.key)("/v1/usage")).status).toBe(200);
    const { data } = await get<KeyList>(`/keys?organization_id=${made.id}`);
    expect(JSON.stringify(data)).not.toContain(key.key.slice(30));
    expect(data.map(({ id, state }) => [id, state])).toEqual([[key.id, "active"]]);
    expect((await post<KeyCreated>(`/keys/${key.id}/revoke`)).state).toBe("revoked");
    await expectRefusal(await testApp.as(key.key)("/v1/usage"), { code: "unauthorized" });
    expect((await get<OrganizationList>("/organizations")).data.map(({ id }) => id)).toContain(made.id);

    const acts = [...exportAudit(testApp.app.database.store)].filter(
      ({ organizationId }) => organizationId === made.id,
    );
    expect(acts.map(({ source, actor, action }) => `${source} ${actor} ${action}`)).toEqual(
      [
        ...["organization.create", "organization.set", "organization.disable", "organization.enable"],
        ...["credit.grant", "credit.grant", "project.create", "key.create", "key.revoke"],
      ].map((action) => `console meera ${action}`),
    );
    expect(acts.every(({ via }) => via?.startsWith("req_"))).toBe(true);
  });

  test("sees and sets how much an organization may store", async () => {
    const path = `/organizations/${testApp.organization.id}`;
    const set = (bytes: number | null) =>
      answer<Organization>(browser.ask("PATCH", path, { max_stored_bytes: bytes }));
    const before = await get<Organization>(path);
    expect(before).toMatchObject({ max_stored_bytes: null, stored_bytes: 0 });
    expect(await set(5e9)).toMatchObject({
      max_stored_bytes: 5e9,
      effective: { max_stored_bytes: 5e9 },
    });
    expect((await set(null)).effective).toEqual(before.effective);
  });

  test("sees which keys are held back after a restore, and no organization that is purged", async () => {
    const { store } = testApp.app.database;
    const { id } = await post<Organization>("/organizations", { name: "Purged" });
    const listed = async () => (await get<OrganizationList>("/organizations")).data.map((one) => one.id);
    const nowMs = testApp.clock.now();
    markPurgeStarted(store, id, nowMs);
    expect(await listed()).toContain(id);
    markPurged(store, id, nowMs);
    expect(await listed()).not.toContain(id);

    const states = async () => {
      const { data } = await get<KeyList>(`/keys?organization_id=${testApp.organization.id}`);
      return new Set(data.map(({ state }) => state));
    };
    expect(await states()).toEqual(new Set(["active"]));
    putHeldKeys(store, { untilMs: nowMs, knownUntilMs: null, confirmed: new Set() }, nowMs);
    expect(await states()).toEqual(new Set(["held"]));
    putHeldKeys(store, undefined, nowMs);
  });

  test.each([
    ["POST", "/organizations", { name: "" }, "invalid_request", "name"],
    ["POST", "/organizations", { name: "N", colour: 1 }, "unknown_parameter", "colour"],
    ["POST", "/organizations", { name: "N", weight: 0 }, "invalid_request", "weight"],
    ["POST", "/organizations/ORG/grants", { amount_paise: 0 }, "invalid_request", "amount_paise"],
    ["POST", "/organizations/ORG/grants", { amount_paise: 1.5 }, "invalid_request", "amount_paise"],
    ["POST", "/organizations/ORG/grants", { amount_paise: -5 }, "invalid_request", "note"],
    [
      "POST",
      "/organizations/ORG/grants",
      { amount_paise: -5_000_000, note: "n" },
      "insufficient_credits",
      undefined,
    ],
    ["POST", "/projects", { organization_id: "org_0", name: "P" }, "not_found", undefined],
    ["POST", "/keys", { project_id: "prj_0", name: "K" }, "not_found", undefined],
    ["POST", "/keys", { project_id: "PRJ", name: "K", scopes: ["all"] }, "invalid_request", "scopes.0"],
    ["POST", "/keys", { project_id: "PRJ", name: "K", scopes: [] }, "invalid_request", "scopes"],
    [
      "POST",
      "/keys",
      { project_id: "PRJ", name: "K", scopes: ["usage:read", "usage:write"] },
      "invalid_request",
      "scopes.1",
    ],
    ["POST", "/keys", { project_id: "PRJ", name: "K", scopes: "usage:read" }, "invalid_request", "scopes"],
    ["POST", "/keys", { project_id: "PRJ", name: "K", expires_at: "soon" }, "invalid_request", "expires_at"],
    [
      "POST",
      "/keys",
      { project_id: "PRJ", name: "K", expires_at: "2020-01-01T00:00:00Z" },
      "invalid_request",
      "expires_at",
    ],
    ["GET", "/organizations/org_0", undefined, "not_found", undefined],
    ["GET", "/organizations/ORG/ledger?after=x", undefined, "invalid_request", "after"],
    ["GET", "/organizations/ORG/usage?from=2026-02-30", undefined, "invalid_request", "from"],
    ["GET", "/organizations/ORG/usage?from=2020-01-01", undefined, "invalid_request", "from"],
    ["GET", "/organizations/ORG/usage.csv?to=yesterday", undefined, "invalid_request", "to"],
    ["GET", "/organizations?limit=5", undefined, "unknown_parameter", "limit"],
    ["GET", "/series?span=year", undefined, "invalid_request", "span"],
    ["GET", "/deliveries?limit=1000", undefined, "invalid_request", "limit"],
    ["GET", "/transcriptions?state=done", undefined, "invalid_request", "state"],
    ["GET", "/transcriptions/tr_0", undefined, "not_found", undefined],
    ["PUT", "/organizations", undefined, "method_not_allowed", undefined],
    ["GET", "/nothing", undefined, "unauthorized", undefined],
  ])("%s %s with %j: %s %s", async (method, path, body, code, detail) => {
    const real = (text: string) =>
      text.replace("ORG", testApp.organization.id).replace("PRJ", testApp.project.id);
    const keys = await get<KeyList>("/keys");
    const acts = [...exportAudit(testApp.app.database.store)].length;
    const response = await browser.ask(
      method,
      real(path),
      body === undefined ? undefined : JSON.parse(real(JSON.stringify(body))),
    );
    await expectRefusal(response, { code, ...(detail === undefined ? {} : { detail }) } as never);
    expect(await get<KeyList>("/keys")).toEqual(keys);
    expect([...exportAudit(testApp.app.database.store)]).toHaveLength(acts);
  });

  test("sees usage by day, and as CSV", async () => {
    const client = apiClient(testApp.as(testApp.key));
    await client.transcribe(scriptedAudio({ seconds: 36, text: "नमस्ते" }), { language: "hi" });
    const path = `/organizations/${testApp.organization.id}`;
    const { days, timezone } = await get<UsageDays>(`${path}/usage`);
    expect([days.length, timezone]).toEqual([30, "Asia/Kolkata"]);
    const used = { transcriptions: 1, audio_seconds: 36, billed_seconds: 36, amount_paise: 30 };
    expect(days.at(-1)).toMatchObject(used);
    expect(days.slice(0, -1).every(({ transcriptions }) => transcriptions === 0)).toBe(true);
    const today = days.at(-1)?.day ?? "";
    expect((await get<UsageDays>(`${path}/usage?from=${today}&to=${today}`)).days).toEqual([
      { day: today, ...used },
    ]);
    expect((await get<UsageDays>(`${path}/usage?from=2025-11-23&to=2026-11-22`)).days).toHaveLength(365);
    const csv = await browser.ask("GET", `${path}/usage.csv`);
    expect(csv.headers.get("content-type")).toBe("text/csv; charset=utf-8");
    expect(csv.headers.get("content-disposition")).toContain(`${testApp.organization.id}-usage.csv`);
    const rows = (await csv.text()).trim().split("\r\n");
    expect(rows[0]).toStartWith("id,created_at,organization_id,");
    expect(rows).toHaveLength(2);
  });

  test("sees transcriptions of all projects without their words, and cancels one", async () => {
    const client = apiClient(testApp.as(testApp.key));
    await expect(
      client.transcribe(scriptedAudio({ seconds: 2, text: "रहस्य", trouble: "crash" }), { language: "hi" }),
    ).rejects.toThrow();
    const failed = await get<AdminTranscriptionList>("/transcriptions?state=failed");
    expect(failed.data[0]).toMatchObject({ state: "failed", error: { code: expect.any(String) } });
    const first = await get<AdminTranscriptionList>("/transcriptions?limit=1");
    const second = await get<AdminTranscriptionList>(`/transcriptions?limit=1&after=${first.next}`);
    expect(first.data[0]?.id).not.toBe(second.data[0]?.id as string);
    expect(JSON.stringify([failed, first, second])).not.toMatch(/[ऀ-ॿ]/);
    const release = testApp.engine.hold();
    const upload = await client.upload(scriptedAudio({ seconds: 2, text: "एक" }));
    const { body } = await client.start({ audio: { upload_id: upload.id }, language: "hi" });
    const overview = await get<Overview>("/overview");
    expect(overview.queue.organizations).toMatchObject([
      { organization_id: testApp.organization.id, name: "First" },
    ]);
    expect(overview.queue.queued + overview.queue.running).toBe(1);
    expect((await post<AdminTranscription>(`/transcriptions/${body.id}/cancel`)).state).toBe("cancelled");
    release();
    expect((await get<AdminTranscription>(`/transcriptions/${body.id}`)).id).toBe(body.id);
  });

  test("sees the program, its numbers over time, and its models", async () => {
    const overview = await get<Overview>("/overview");
    expect(overview).toMatchObject({ object: "console.overview", workers: { places: 2 }, restarts: 0 });
    expect(overview.disk.total_bytes).toBeGreaterThan(overview.disk.free_bytes);
    expect(overview.memory.server_bytes).toBeGreaterThan(1_000_000);
    expect(overview.clock).toEqual({ trusted: true, expected: overview.now });
    const leapMs = 40 * 86_400_000;
    testApp.clock.leap(-leapMs);
    // The session stays open, and the admin sees why nothing is removed.
    expect((await get<Overview>("/overview")).clock).toEqual({ trusted: false, expected: overview.now });
    testApp.clock.leap(leapMs);
    for (const [span, steps] of [
      ["hour", 360],
      ["day", 288],
    ] as const) {
      const {
        object: _,
        span: found,
        step_seconds: step,
        ...columns
      } = await get<Series>(`/series?span=${span}`);
      expect([found, step * steps]).toEqual([span, span === "hour" ? 3600 : 86_400]);
      expect(Object.values(columns).map(({ length }) => length)).toEqual(Array(10).fill(steps));
    }
    const models = await get<ConsoleModelList>("/models");
    expect(models.data[0]).toMatchObject({ default: true, family: "whisper" });
  });

  test("sees webhook endpoints and their deliveries, and redelivers", async () => {
    const { sqlite } = testApp.app.database;
    const url = "https://hooks.example/x";
    const body = JSON.stringify({ url });
    const headers = { "content-type": "application/json" };
    const made = await testApp.as(testApp.key)("/v1/webhook_endpoints", { method: "POST", headers, body });
    const endpoint = (await made.json()) as { id: string; secret: string };
    const [listed] = (await get<ConsoleEndpointList>("/webhook_endpoints")).data;
    expect(listed).toMatchObject({ id: endpoint.id, url, state: "enabled", failed: 0 });
    const event = "evt_01KAJ5M0X2V7Q4N8R6T3Y9ZB1C";
    const transcription = (await get<AdminTranscriptionList>("/transcriptions")).data[0]?.id ?? "";
    sqlite.run("UPDATE webhook_endpoints SET disabled_at = 1, disabled_reason = '410' WHERE id = ?", [
      endpoint.id,
    ]);
    sqlite.run(
      "INSERT INTO events (id, transcription_id, endpoint_id, type, body, created_at) VALUES (?, ?, ?, 'transcription.failed', '{}', 1)",
      [event, transcription, endpoint.id],
    );
    sqlite.run(
      "INSERT INTO deliveries (event_id, endpoint_id, state, attempts, failed_at) VALUES (?, ?, 'failed', 8, 2)",
      [event, endpoint.id],
    );
    const failed = await get<DeliveryList>(`/deliveries?state=failed&endpoint_id=${endpoint.id}`);
    expect(failed.data).toMatchObject([
      { event_id: event, attempts: 8, state: "failed", transcription_id: transcription },
    ]);
    // An event about the credit has no transcription.
    sqlite.run("UPDATE events SET transcription_id = NULL, type = 'credit.low' WHERE id = ?", [event]);
    const [low] = (await get<DeliveryList>("/deliveries?state=failed")).data;
    expect(low).toMatchObject({ event_id: event, type: "credit.low", transcription_id: null });
    await expectRefusal(await browser.ask("POST", `/deliveries/${event}/redeliver`), { code: "conflict" });
    const path = `/webhook_endpoints/${endpoint.id}`;
    expect((await post<{ state: string }>(`${path}/enable`)).state).toBe("enabled");
    // By hand: new work that names it is refused, and a second time changes nothing.
    for (const _ of [1, 2])
      expect(await post<unknown>(`${path}/disable`)).toMatchObject({
        ...{ id: endpoint.id, state: "disabled", disabled_reason: "switched off by hand" },
      });
    const acts = sqlite
      .query<{ action: string }, [string]>("SELECT action FROM audit_log WHERE object = ? ORDER BY rowid")
      .all(endpoint.id)
      .map(({ action }) => action);
    expect(acts).toEqual(["webhook.create", "webhook.enable", "webhook.disable"]);
    await expectRefusal(await browser.ask("POST", `/deliveries/${event}/redeliver`), { code: "conflict" });
    expect((await post<{ state: string }>(`${path}/enable`)).state).toBe("enabled");
    expect(await post<unknown>(`/webhook_endpoints/${endpoint.id}/redeliver`)).toMatchObject({ events: 1 });
    expect(await post<unknown>(`/deliveries/${event}/redeliver`)).toMatchObject({
      event_id: event,
      state: "pending",
    });
    expect(JSON.stringify([listed, failed])).not.toContain(endpoint.secret);
  });
});
