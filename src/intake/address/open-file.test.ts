import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { addressRules } from "../../outbound/addresses.ts";
import { createGuardedFetch } from "../../outbound/guarded-fetch.ts";
import { fileAnswer, HOST_NAME, type HostAnswer, startFileHost } from "../../testing/kits/file-host.ts";
import { FetchFailure, type OpenedFile, openFile } from "./open-file.ts";

const content = new TextEncoder().encode("a recording");
const answers: Record<string, HostAnswer> = {
  "/call.wav": fileAnswer(content),
  "/moved": () => new Response(null, { status: 302, headers: { location: "/call.wav" } }),
};
let files: Awaited<ReturnType<typeof startFileHost>>;
beforeAll(async () => {
  files = await startFileHost(answers, undefined, HOST_NAME);
});
afterAll(() => files.stop());
beforeEach(() => {
  files.requests.length = 0;
});

/** Opens a file of a host whose name server answers as listed, one answer for each question. */
async function open(path: string, resolutions: string[][]) {
  let asked = 0;
  const guarded = createGuardedFetch({
    resolve: async () => resolutions[asked++] ?? [],
    authoritiesFile: files.caFile,
    names: { peer: "the server", authoritiesSetting: "intake.ca_file" },
    refusalAdvice: "so no file is fetched from it",
  });
  const rules = addressRules({
    ...{ allow_http: false, allow_private_networks: false, allowed_networks: ["127.0.0.1/32"] },
  });
  const wanted = { url: new URL(files.url(path)), rules, attempts: 0, nowMs: 0, checkHop: () => {} };
  const outcome: OpenedFile | FetchFailure = await openFile(guarded, {
    ...wanted,
    signal: AbortSignal.timeout(10_000),
  }).catch((error: unknown) => {
    if (error instanceof FetchFailure) return error;
    throw error;
  });
  return { outcome, asked: () => asked };
}

describe("a host name that has another address a moment later (DNS rebinding)", () => {
  const refusal = (address: string) => ({
    ...{ kind: "address", isFinal: true },
    message: expect.stringContaining(`${address} is a loopback address`),
  });

  test("is resolved once, and the checked address is the one that is connected to", async () => {
    const { outcome, asked } = await open("/call.wav", [["127.0.0.1"], ["127.0.0.2"]]);
    if (outcome instanceof FetchFailure) throw outcome;
    expect(await outcome.response.text()).toBe("a recording");
    expect(asked()).toBe(1);
  });

  test("is checked again for the next request of a redirect, which is not made", async () => {
    const { outcome, asked } = await open("/moved", [["127.0.0.1"], ["127.0.0.2"], ["127.0.0.1"]]);
    expect(outcome).toMatchObject(refusal("127.0.0.2"));
    expect([asked(), files.requests.length]).toEqual([2, 1]);
  });

  test("is refused where one of several addresses is not allowed", async () => {
    const { outcome } = await open("/call.wav", [["127.0.0.1", "127.0.0.2"]]);
    expect(outcome).toMatchObject(refusal("127.0.0.2"));
    expect(files.requests).toEqual([]);
  });

  test("may be asked for again later where it has no address now", async () => {
    const { outcome } = await open("/call.wav", [[]]);
    expect(outcome).toMatchObject({ kind: "connection", isFinal: false });
  });
});
