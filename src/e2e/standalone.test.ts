import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { copyFileSync, existsSync, readdirSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import type { TranscriptionResult } from "../http/wire/schemas.ts";
import { newestGlibc } from "../native/build/glibc.ts";
import { upToDateBinary } from "./binary.ts";
import { expectUtterances } from "./expect-utterances.ts";
import { type Installation, install, type RunningServer, reached, uploaded } from "./kit.ts";
import { descendantsOf, mappedFiles, processesFrom } from "./processes.ts";
import { sampleBytes, samplePath, utterancesIn, wordsIn } from "./samples.ts";

/**
 * Tests the executable alone: copied into an empty directory, without environment (no PATH, HOME or TMPDIR), started
 * in a directory that not even root can write.
 */

const UNWRITABLE = "/proc";
/** The libraries of glibc. They exist on every Linux with glibc. */
const GLIBC =
  /^(ld-linux[\w-]*|libc|libm|libdl|librt|libpthread)\.so\.\d$|^(libc|libm|libdl|librt|libpthread|ld)-2\.\d+\.so$/;
/** The version of Debian 12. An older build root lowers it. */
const NEWEST_GLIBC_ALLOWED = "2.36";

let installation: Installation;
let server: RunningServer;

beforeAll(async () => {
  expect(() => writeFileSync(join(UNWRITABLE, "shruti-test"), "")).toThrow();
  const place = async (path: string) => copyFileSync(await upToDateBinary(), path);
  installation = await install({ cwd: UNWRITABLE, place });
  expect(readdirSync(join(installation.folder, "program"))).toEqual(["shruti"]);
  server = await (await installation.serve()).ready();
}, 300_000);

afterAll(async () => {
  if (server) expect(await server.stop()).toBe(0);
  if (!installation) return;
  const left = processesFrom(installation.folder);
  await installation.remove();
  expect(left).toEqual([]);
  expect(existsSync(installation.folder)).toBe(false);
});

/** Names the libraries that the server and its worker processes have loaded: the machine's and the embedded ones. */
function librariesOf({ folder }: Installation, { pid }: RunningServer) {
  const processes = [pid, ...descendantsOf(pid)];
  // The server, the worker process with the model, and the one that detects speech.
  expect(processes.length).toBe(3);
  const libraries = processes
    .flatMap(mappedFiles)
    .filter((path) => /\.so(\.|$)|\.addon$|\.node$/.test(basename(path)));
  const isCarried = (path: string) => path.startsWith(folder);
  return {
    foreign: libraries.filter((path) => !isCarried(path)).map((path) => basename(path)),
    carried: libraries.filter(isCarried).map((path) => basename(path)),
  };
}

describe("the executable alone", () => {
  test.each([
    ["01-en", "en"],
    ["07-hi", "hi"],
  ])(
    "transcribes %s (%s) from upload to result, words and times",
    async (name, language) => {
      const api = server.api();
      const uploadId = await uploaded(api, sampleBytes(name));
      const { status, body } = await api.start({ audio: { upload_id: uploadId }, language });
      expect(status).toBe(202);
      expect((await reached(api, body.id)).state).toBe("completed");
      const result = await api.result(body.id);
      expectUtterances(result, utterancesIn(name));
      expect(result.text).toBe(wordsIn(name));
      expect(result.warnings).toEqual([]);
    },
    60_000,
  );

  test("transcribes a local file without a server's help", async () => {
    const { code, out } = await installation.command(
      ...["transcribe", samplePath("01-en"), "--language", "en", "--format", "json"],
    );
    expect(code).toBe(0);
    expectUtterances(JSON.parse(out) as TranscriptionResult, utterancesIn("01-en"));
  }, 60_000);

  test("loads no library of the machine except glibc", () => {
    const { foreign, carried } = librariesOf(installation, server);
    expect(foreign.filter((name) => !GLIBC.test(name))).toEqual([]);
    for (const name of ["silero.so", "smart-whisper.addon"]) expect(carried).toContain(name);
  });

  test(`needs no glibc newer than ${NEWEST_GLIBC_ALLOWED}`, async () => {
    const native = join(installation.dataDir, "native");
    const [hash = ""] = readdirSync(native);
    const versions = await Promise.all([
      newestGlibc(join(installation.folder, "program")),
      newestGlibc(join(native, hash)),
    ]);
    console.log(`newest glibc asked for: executable ${versions[0]}, carried objects ${versions[1]}`);
    const minor = (version: string | undefined) => Number(/^2\.(\d+)/.exec(version ?? "")?.[1]);
    for (const version of versions) expect(minor(version)).toBeLessThanOrEqual(minor(NEWEST_GLIBC_ALLOWED));
  });

  test("leaves nothing outside its data directory", () => {
    expect(readdirSync(join(installation.folder, "program"))).toEqual(["shruti"]);
    expect(readdirSync(installation.folder).sort()).toEqual(["data", "program", "shruti.toml"]);
  });
});
