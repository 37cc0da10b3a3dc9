import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { packNpmClient, packWheel } from "../../scripts/release/client-packages.ts";
import { freePorts } from "../testing/boxes/nats-server.ts";
import { ROOT } from "../testing/rules/documents.ts";
import { type CuttingProxy, openCuttingProxy } from "./cutting-proxy.ts";
import { type Installation, install } from "./kit.ts";
import { LONG_RECORDING_SAYS, longRecording } from "./long-recording.ts";
import { samplePath } from "./samples.ts";

/** The packages of the clients in docs/clients, installed from their archives, against the executable. */

const PROGRAMS = join(import.meta.dir, "client-programs");
const TIME = new Date("2026-11-01T00:00:00Z");
const MIB = 1024 * 1024;

let installation: Installation;
let proxy: CuttingProxy;
let long: string;
beforeAll(async () => {
  proxy = await openCuttingProxy();
  const [port = 0] = await freePorts(1);
  proxy.leadTo(port);
  installation = await install({
    environment: {
      ...{ SHRUTI_WEBHOOKS_ALLOW_HTTP: "true", SHRUTI_WEBHOOKS_ALLOWED_NETWORKS: "127.0.0.0/8" },
      ...{ SHRUTI_SERVER_LISTEN: `127.0.0.1:${port}`, SHRUTI_SERVER_BASE_URL: proxy.baseUrl },
      ...{ SHRUTI_ENGINE_SYNCHRONOUS_WORKERS: "1" },
      ...{ SHRUTI_LIMITS_REQUESTS_PER_SECOND: "8", SHRUTI_LIMITS_REQUEST_BURST: "8" },
    },
  });
  await (await installation.serve()).ready();
  long = join(installation.folder, "long.wav");
  writeFileSync(long, await longRecording());
}, 120_000);
afterAll(async () => {
  proxy.close();
  await installation.remove();
});

type Outcome = { code: number; out: string; err: string };

async function run(command: string[], cwd: string, env: Record<string, string> = {}): Promise<Outcome> {
  const child = Bun.spawn(command, {
    ...{ cwd, stdin: "ignore", stdout: "pipe", stderr: "pipe", timeout: 150_000 },
    env: {
      ...{ PATH: process.env.PATH ?? "", API_URL: proxy.baseUrl, API_KEY: installation.key },
      ...{ LONG: long, SHORT: samplePath("01-en"), ...env },
    },
  });
  const [out, err] = await Promise.all([child.stdout.text(), child.stderr.text()]);
  return { code: await child.exited, out, err };
}

/** What both clients must have seen. The names of errors are those of the classes. */
const SEEN = {
  upload: { state: "complete", bytes: 9 * MIB },
  resumed: { isSame: true, state: "complete", offsets: [8 * MIB] },
  transcription: { isSame: true, state: "completed", last: "completed" },
  event: { type: "transcription.completed", isOwn: true },
  rotated: "transcription.completed",
  forged: {
    body: { name: "WebhookVerificationError" },
    secret: { name: "WebhookVerificationError" },
    late: { name: "WebhookVerificationError" },
    none: { name: "WebhookVerificationError" },
  },
  refused: { name: "InvalidRequestError", status: 422, code: "unsupported_language", detail: "language" },
  notFound: { name: "NotFoundError", status: 404, code: "not_found", isApiError: true },
  noIdentifier: { name: "ShrutiError" },
  wrongKey: { name: "AuthenticationError", status: 401, code: "unauthorized" },
  nowhere: { name: "ConnectionError", isApiError: false },
  slow: { name: "TimeoutError" },
  limited: { answered: 16 },
  limitedAtOnce: { name: "RateLimitError", status: 429, code: "rate_limited" },
  full: { texts: 1, reused: 0, distinct: 4 },
  printed: false,
};

type Seen = {
  offsets: number[];
  text: string;
  subtitles: string;
  listed: { count: number; distinct: number };
  refused: { requestId: string };
  noAudio: { code: string };
  limited: { refused: number };
  full: { refused: number };
};

/** Classes that have other names there, because Python has classes of these names itself. */
const IN_PYTHON = { nowhere: { name: "ConnectionFailed" }, slow: { name: "TimedOut" } };

function expectSeen(out: string, others: object = {}): void {
  const seen = JSON.parse(out) as Seen;
  expect(seen).toMatchObject({ ...SEEN, ...others });
  // The second piece of the cut upload begins where the server's bytes ended.
  const [first = -1, second = -1] = seen.offsets;
  expect(first).toBe(0);
  expect(second).toBeGreaterThan(0);
  expect(second).toBeLessThan(8 * MIB);
  expect(seen.text).toContain(LONG_RECORDING_SAYS);
  expect(seen.subtitles).toMatch(/^1\n00:00:0\d,\d{3} --> /);
  expect(seen.listed.count).toBeGreaterThan(1);
  expect(seen.listed.distinct).toBe(seen.listed.count);
  expect(seen.refused.requestId).toMatch(/^req_/);
  expect(["audio_decode_failed", "upload_rejected"]).toContain(seen.noAudio.code);
  expect(seen.limited.refused).toBeGreaterThan(0);
  expect(seen.full.refused).toBeGreaterThan(0);
}

describe("the TypeScript client", () => {
  let project: string;
  let readme: string;
  beforeAll(async () => {
    project = join(installation.folder, "npm");
    mkdirSync(join(project, "a"), { recursive: true });
    const tarball = join(project, await packNpmClient(join(project, "work"), project, TIME));
    writeFileSync(join(project, "package.json"), JSON.stringify({ name: "customer", type: "module" }));
    const added = await run([process.execPath, "add", tarball], project, { HOME: project });
    expect(added).toMatchObject({ code: 0 });
    copyFileSync(join(PROGRAMS, "scenario.mjs"), join(project, "scenario.mjs"));
    readme = readFileSync(join(project, "node_modules", "shruti-client", "README.md"), "utf8");
    const [, program = ""] = /```js\n(.*?)```/s.exec(readme) ?? [];
    writeFileSync(join(project, "readme.mjs"), program);
  }, 120_000);

  async function useClient(command: string): Promise<void> {
    const before = proxy.cuts();
    proxy.cutAfter(5 * MIB);
    const { code, out, err } = await run([command, "scenario.mjs"], project);
    expect({ code, err }).toEqual({ code: 0, err: "" });
    expectSeen(out);
    expect(proxy.cuts()).toBe(before + 1);
  }

  async function followReadme(command: string): Promise<void> {
    const program = [command, "readme.mjs", samplePath("01-en")];
    const { code, out, err } = await run(program, project);
    expect({ code, err }).toEqual({ code: 0, err: "" });
    expect(out).toMatch(/\n1\n00:00:.*\ntr_\w{26} \d{4}-/s);
    const refused = await run(program, project, { API_KEY: "shr_wrong" });
    expect(refused).toMatchObject({ code: 1, err: expect.stringMatching(/^unauthorized undefined req_/) });
  }

  test(
    "in Bun sends, resumes, waits, lists, verifies and is refused",
    () => useClient(process.execPath),
    160_000,
  );
  test("in Bun does what its README says", () => followReadme(process.execPath), 60_000);

  const hasNode = Bun.which("node") !== null;
  test.skipIf(!hasNode)("does the same in Node (needs node)", () => useClient("node"), 160_000);
  test.skipIf(!hasNode)("does what its README says in Node (needs node)", () => followReadme("node"), 60_000);

  test("is packed to the same bytes twice, with types, and without sources", async () => {
    const again = join(project, "again");
    mkdirSync(again);
    const name = await packNpmClient(join(project, "work-again"), again, TIME);
    expect(readFileSync(join(again, name)).equals(readFileSync(join(project, name)))).toBe(true);
    const { out } = await run(["tar", "-tzf", join(again, name)], project);
    expect(out).toContain("package/dist/index.d.ts\n");
    expect(out.split("\n").filter((path) => /(?<!\.d)\.ts$/.test(path))).toEqual([]);
  }, 60_000);
});

describe.skipIf(Bun.which("python3") === null)("the Python client (needs python3)", () => {
  let project: string;
  let wheel: string;
  beforeAll(() => {
    project = join(installation.folder, "python");
    mkdirSync(project);
    wheel = join(project, packWheel(project, TIME));
    copyFileSync(join(PROGRAMS, "scenario.py"), join(project, "scenario.py"));
  });

  /** Runs a program with the wheel, which Python imports as it is. */
  const python = (...args: string[]) =>
    run(["python3", "-W", "error", ...args], project, { PYTHONPATH: wheel, PYTHONDONTWRITEBYTECODE: "1" });

  test("sends, resumes, waits, lists, verifies and is refused", async () => {
    const before = proxy.cuts();
    proxy.cutAfter(5 * MIB);
    const { code, out, err } = await python("scenario.py");
    expect({ code, err }).toEqual({ code: 0, err: "" });
    expectSeen(out, IN_PYTHON);
    expect(proxy.cuts()).toBe(before + 1);
  }, 160_000);

  test("does what its README says", async () => {
    const { out: description } = await python("-c", METADATA_OF_THE_WHEEL);
    const [, program = ""] = /```python\n(.*?)```/s.exec(description) ?? [];
    writeFileSync(join(project, "readme.py"), program);
    const { code, out, err } = await python("readme.py", samplePath("01-en"));
    expect({ code, err }).toEqual({ code: 0, err: "" });
    expect(out).toMatch(/\n1\n00:00:.*\ntr_\w{26} \d{4}-/s);
  }, 60_000);

  test("is packed to the same bytes twice, in each time zone, and its list of files is right", async () => {
    const again = join(project, "again");
    mkdirSync(again);
    const packed = readFileSync(join(again, packWheel(again, TIME)));
    expect(packed.equals(readFileSync(wheel))).toBe(true);
    const elsewhere = await run([process.execPath, "-e", PACK_ELSEWHERE, PACKER, again], ROOT, {
      TZ: "Asia/Kolkata",
    });
    expect(elsewhere).toEqual({ code: 0, out: Bun.SHA256.hash(packed, "hex"), err: "" });
    expect(await python("-c", CHECK_RECORD, wheel)).toEqual({ code: 0, out: "True\n", err: "" });
  }, 60_000);
});

const METADATA_OF_THE_WHEEL = `
import importlib.metadata
print(importlib.metadata.metadata("shruti-client").get_payload())`;

const PACKER = join(ROOT, "scripts/release/client-packages.ts");
const PACK_ELSEWHERE = `
const [source, folder] = process.argv.slice(-2);
const { packWheel } = await import(source);
const packed = await Bun.file(folder + "/" + packWheel(folder, new Date("2026-11-01T00:00:00Z"))).bytes();
process.stdout.write(Bun.SHA256.hash(packed, "hex"));`;

/** Compares the files of a wheel with its list, and prints whether it has the mark for type checkers. */
const CHECK_RECORD = `
import base64, csv, hashlib, sys, zipfile
wheel = zipfile.ZipFile(sys.argv[1])
assert wheel.testzip() is None
[record] = [name for name in wheel.namelist() if name.endswith("/RECORD")]
rows = list(csv.reader(wheel.read(record).decode().splitlines()))
assert sorted(row[0] for row in rows) == sorted(wheel.namelist())
for name, digest, size in rows:
    if name == record: continue
    data = wheel.read(name)
    assert int(size) == len(data)
    assert digest == "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
print("shruti_client/py.typed" in wheel.namelist())`;
