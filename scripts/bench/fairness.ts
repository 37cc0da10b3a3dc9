import { availableParallelism, loadavg } from "node:os";
import { type Installation, install, type RunningServer, reached, uploaded } from "../../src/e2e/kit.ts";
import { sampleBytes } from "../../src/e2e/samples.ts";

/**
 * Measures how long one organization waits behind another's 1,000 waiting transcriptions, on the executable with the
 * demonstration model. Usage: `bun scripts/bench/fairness.ts [WAITING]`. `overtaking.ts` measures fairness within an
 * organization.
 */

const WAITING = Number(process.argv[2] ?? 1000);
/** Transcriptions of the other organization, one after the other, while the first one's queue is long. */
const SINGLES = 5;
const SAMPLE = "01-en";
const STARTS_AT_ONCE = 8;
/** Largest page of `transcriptions list`. */
const MOST_LISTED = 1000;

type Organization = { name: string; projectId: string; key: string; uploadId: string };
type Row = { id: string; created_at: string; started_at: string; finished_at: string };
type Times = { created: number; started: number; finished: number };

if (WAITING > MOST_LISTED) throw new Error(`at most ${MOST_LISTED} can be measured`);
const installation = await install({
  environment: { SHRUTI_LIMITS_REQUESTS_PER_SECOND: "0" },
});
let server: RunningServer | undefined;
try {
  server = await (await installation.serve()).ready();
  const many = await openOrganization(installation, server, "A");
  const one = await openOrganization(installation, server, "B");
  await startAll(server, many, WAITING);
  for (let index = 0; index < SINGLES; index++) await runOne(server, one);
  const lastOfMany = await newest(server, many);
  await reached(server.api(many.key), lastOfMany, undefined, 3_600_000);
  report(await timesOf(installation, many), await timesOf(installation, one));
  await server.stop();
} catch (error) {
  console.error(server?.log().split("\n").slice(-20).join("\n"));
  throw error;
} finally {
  await installation.remove();
}

async function openOrganization(
  { json, output }: Installation,
  server: RunningServer,
  name: string,
): Promise<Organization> {
  const organization = await json<{ id: string }>("orgs", "create", name);
  await output("credit", "grant", "--org", organization.id, "--paise", "100000000");
  const project = await json<{ id: string }>("projects", "create", "main", "--org", organization.id);
  const { key } = await json<{ key: string }>("keys", "create", "--project", project.id, "--name", "bench");
  const uploadId = await uploaded(server.api(key), sampleBytes(SAMPLE));
  return { name, projectId: project.id, key, uploadId };
}

async function startAll(server: RunningServer, organization: Organization, count: number): Promise<void> {
  let left = count;
  const startSome = async () => {
    while (left-- > 0) await start(server, organization);
  };
  await Promise.all(Array.from({ length: STARTS_AT_ONCE }, startSome));
}

async function start(server: RunningServer, { key, uploadId }: Organization): Promise<string> {
  const request = { audio: { upload_id: uploadId }, language: "en" };
  return (await server.api(key).start(request)).body.id;
}

async function runOne(server: RunningServer, organization: Organization): Promise<void> {
  const id = await start(server, organization);
  const { state } = await reached(server.api(organization.key), id);
  if (state !== "completed") throw new Error(`${id} ended ${state}`);
}

async function newest(server: RunningServer, { key }: Organization): Promise<string> {
  const [row] = (await server.api(key).list("?limit=1")).data;
  if (!row) throw new Error("nothing was started");
  return row.id;
}

async function timesOf({ json }: Installation, { projectId }: Organization): Promise<Times[]> {
  const rows = await json<Row[]>(
    ...["transcriptions", "list", "--project", projectId, "--limit", String(MOST_LISTED)],
  );
  return rows.map(({ created_at, started_at, finished_at }) => ({
    created: Date.parse(created_at),
    started: Date.parse(started_at),
    finished: Date.parse(finished_at),
  }));
}

function report(many: readonly Times[], one: readonly Times[]): void {
  const load = loadavg().map((value) => value.toFixed(1));
  console.log(`${availableParallelism()} cores, load ${load.join(" ")}, ${SAMPLE} each, times in seconds`);
  console.table({
    [`A: ${many.length} at once`]: summary(many),
    [`B: ${one.length}, one after the other`]: summary(one),
  });
  const firstOfOne = Math.min(...one.map(({ created }) => created));
  const ahead = many.filter(({ created, started }) => created < firstOfOne && started > firstOfOne);
  const lastAhead = Math.max(...ahead.map(({ started }) => started));
  console.log(
    `When B's first arrived, ${ahead.length} of A were waiting; in order of arrival it would have waited ` +
      `${((lastAhead - firstOfOne) / 1000).toFixed(1)} s.`,
  );
}

function summary(times: readonly Times[]) {
  const waits = times.map(({ created, started }) => started - created).sort((a, b) => a - b);
  const totals = times.map(({ created, finished }) => finished - created).sort((a, b) => a - b);
  const at = (sorted: readonly number[], share: number) =>
    Number(((sorted[Math.floor(share * (sorted.length - 1))] ?? 0) / 1000).toFixed(3));
  return {
    "wait, median": at(waits, 0.5),
    "wait, p90": at(waits, 0.9),
    "wait, longest": at(waits, 1),
    "until the end, median": at(totals, 0.5),
    "until the end, longest": at(totals, 1),
  };
}
