import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Transcription } from "../http/wire/schemas.ts";
import type { ApiClient } from "../testing/answers/api-client.ts";
import { startNameServer } from "../testing/boxes/name-server.ts";
import { fillDisk, mayMountDisks, unmountDisk } from "../testing/boxes/small-disk.ts";
import { fileAnswer, HOST_NAME, type HostAnswer, startFileHost } from "../testing/kits/file-host.ts";
import { placeWithSmallDisk } from "./held-server.ts";
import { type Installation, install, openServer, reached, until } from "./kit.ts";
import { concatenated, sampleBytes } from "./samples.ts";

/** Recordings at addresses, on the executable: a full disk in the middle of one, and a name that changes its address. */

const answers: Record<string, HostAnswer> = {};
let files: Awaited<ReturnType<typeof startFileHost>>;
beforeAll(async () => {
  files = await startFileHost(answers, undefined, HOST_NAME);
});
afterAll(() => files.stop());
beforeEach(() => {
  files.requests.length = 0;
});

/** A name server of this machine, which other tests do not use. */
const NAME_SERVER = "127.0.53.1";
const mayMount = mayMountDisks();

/** The config that allows fetches from the host, and from nowhere else on this machine. */
function environment(): Record<string, string> {
  return {
    SHRUTI_INTAKE_URL: "true",
    SHRUTI_INTAKE_HOSTS: files.host,
    SHRUTI_INTAKE_ALLOWED_NETWORKS: "127.0.0.1/32",
    SHRUTI_INTAKE_CA_FILE: files.caFile,
  };
}

/** Starts the server where names are resolved by the test. */
async function serve(own: Installation) {
  const resolver = join(own.folder, "resolv.conf");
  writeFileSync(resolver, `nameserver ${NAME_SERVER}\n`);
  const script = 'mount --bind "$1" /etc/resolv.conf && exec "$2" serve --config "$3"';
  const executable = join(own.folder, "program/shruti");
  const command = ["unshare", "--mount", "sh", "-c", script, "sh", resolver, executable, own.configPath];
  const env = {
    ...{ PATH: process.env.PATH, SHRUTI_SERVER_LISTEN: "127.0.0.1:0", SHRUTI_STORAGE_RESERVE_BYTES: "0" },
    ...environment(),
  };
  const child = Bun.spawn(command, { env, stdin: "ignore", stdout: "pipe", stderr: "pipe" });
  return (await openServer(child, own.key)).ready();
}

const start = async (api: ApiClient, path: string): Promise<string> => {
  const { body } = await api.call<Transcription>("POST", "/v1/transcriptions", {
    audio: { source_url: files.url(path) },
    language: "en",
  });
  return body.id;
};

/** Returns how many bytes of recordings are stored. */
function bytesIn({ dataDir }: Installation): number {
  const folder = join(dataDir, "uploads");
  return readdirSync(folder).reduce((sum, name) => sum + statSync(join(folder, name)).size, 0);
}

describe.skipIf(!mayMount)("recordings at addresses (needs root on Linux)", () => {
  test("a name that resolves to another address a moment later leads nowhere but to the checked one", async () => {
    answers["/call.wav"] = fileAnswer(sampleBytes("01-en"));
    answers["/moved"] = () => new Response(null, { status: 302, headers: { location: "/call.wav" } });
    /** What an attacker would reach: another service of this machine, at the same port. */
    const reachedInside: string[] = [];
    const inside = Bun.listen({
      ...{ hostname: "127.0.0.2", port: files.port },
      socket: { open: () => void reachedInside.push("a connection"), data() {} },
    });
    const questions = { before: 0 };
    let inTurn: string[] = [];
    const names = await startNameServer(NAME_SERVER, (_, count) => [
      inTurn[count - questions.before - 1] ?? "127.0.0.2",
    ]);
    const own = await install({ environment: environment() });
    try {
      const server = await serve(own);
      const api = server.api();
      const fetched = async (path: string, turns: string[]) => {
        inTurn = turns;
        questions.before = names.asked.length;
        files.requests.length = 0;
        const done = await reached(api, await start(api, path));
        return { ...done, asked: names.asked.length - questions.before, requests: files.requests.length };
      };
      // Each question after the first is answered with the other address.
      expect(await fetched("/call.wav", ["127.0.0.1"])).toMatchObject({
        ...{ state: "completed", asked: 1, requests: 1 },
      });
      const refused = {
        state: "failed",
        error: { message: expect.stringContaining("127.0.0.2 is a loopback") },
      };
      expect(await fetched("/call.wav", [])).toMatchObject({ ...refused, asked: 1, requests: 0 });
      expect(await fetched("/moved", ["127.0.0.1"])).toMatchObject({ ...refused, asked: 2, requests: 1 });
      expect(reachedInside).toEqual([]);
      expect(await server.stop()).toBe(0);
    } finally {
      inside.stop(true);
      await names.stop();
      await own.remove();
    }
  }, 120_000);

  test("a disk that is full to the last byte in the middle of a fetch: nothing of the file stays, and it is whole once there is space", async () => {
    const names = await startNameServer(NAME_SERVER, () => ["127.0.0.1"]);
    const recording = concatenated(["04-en"], 40);
    const own = await install({ environment: environment(), place: placeWithSmallDisk(200) });
    const filler = join(own.dataDir, "filler");
    const all: HostAnswer = fileAnswer(recording);
    answers["/long.wav"] = (request) => {
      if (files.requests.length === 1) fillDisk(filler);
      return all(request);
    };
    try {
      const server = await serve(own);
      const api = server.api();
      const id = await start(api, "/long.wav");
      await until("the log says why", () => server.log().includes("The disk has no space for this file now"));
      // Not even the time of the next attempt can be stored. All the same, the file is not asked for again at once.
      await Bun.sleep(3_000);
      expect(files.requests).toHaveLength(1);
      expect(await api.get(id)).toMatchObject({ state: "queued", source: { state: "fetching" } });
      expect(bytesIn(own)).toBe(0);
      rmSync(filler);
      expect(await reached(api, id, undefined, 150_000)).toMatchObject({ state: "completed" });
      const [only = ""] = readdirSync(join(own.dataDir, "uploads"));
      const kept = readFileSync(join(own.dataDir, "uploads", only));
      expect(Bun.hash(kept)).toBe(Bun.hash(recording));
      expect((await own.json<{ ok: boolean }>("credit", "audit")).ok).toBe(true);
      expect(await server.stop()).toBe(0);
    } finally {
      unmountDisk(own.dataDir);
      await names.stop();
      await own.remove();
    }
  }, 240_000);
});
