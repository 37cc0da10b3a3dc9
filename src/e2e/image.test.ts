import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { extract } from "tar";
import { type Architecture, unpackedGlibc } from "../../scripts/release/image/glibc.ts";
import { USER, writeImage } from "../../scripts/release/image/image.ts";
import { readParts } from "../executable/parts.ts";
import { freePorts } from "../testing/boxes/nats-server.ts";
import { upToDateBinary } from "./binary.ts";
import { until } from "./kit.ts";

/**
 * The image for containers, unpacked and run like a container: its files alone as a root that cannot be written, its user, a
 * volume, no rights. It needs no container program, because the kernel does the same for `unshare` and `chroot`.
 */

const SAMPLES = resolve(import.meta.dir, "../../models/samples");
const ARCHITECTURE: Architecture = process.arch === "arm64" ? "arm64" : "amd64";
const isRoot = process.geteuid?.() === 0;
const glibc = isRoot ? await unpackedGlibc(ARCHITECTURE).catch(() => undefined) : undefined;
const canMount =
  isRoot && Bun.spawnSync(["unshare", "--mount", "mount", "-t", "tmpfs", "none", "/mnt"]).exitCode === 0;

const folder = mkdtempSync(join(tmpdir(), "shruti-image-"));
const [root, volume] = [join(folder, "root"), join(folder, "volume")];
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Gives a command the mounts that a container has. Its environment is that of the image. */
const MOUNTS = `set -e
mount --bind "$1" "$1"
mount -t proc proc "$1/proc"
mount --bind "$2" "$1/var/lib/shruti"
mount -t tmpfs tmpfs "$1/tmp"
mount --bind /dev "$1/dev"
mount -o remount,bind,ro "$1"
root=$1; shift 2
exec chroot --userspec=${USER}:${USER} --groups= "$root" "$@"`;

let environment: Record<string, string> = {};

function start(...command: string[]) {
  const inside = ["/usr/bin/unshare", "--mount", "/bin/sh", "-c", MOUNTS, "sh", root, volume, ...command];
  // The tools on the way in are those of this machine.
  const env = { ...environment, PATH: "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" };
  return Bun.spawn(inside, { env, stdin: "ignore", stdout: "pipe", stderr: "pipe" });
}

async function run(...command: string[]): Promise<{ code: number; out: string }> {
  const child = start("/usr/local/bin/shruti", ...command);
  const [out, err] = await Promise.all([child.stdout.text(), child.stderr.text()]);
  return { code: await child.exited, out: out + err };
}

type Descriptor = { digest: string };
type Image = { manifests: Descriptor[]; layers: Descriptor[]; config: Descriptor & { Env: string[] } };

/** Writes an image of the executable, and unpacks its layers as a container program does. */
async function unpackImage(): Promise<void> {
  const work = join(folder, "work");
  for (const path of [work, root, volume]) mkdirSync(path);
  const executable = await upToDateBinary();
  const parts = await readParts();
  await writeImage([{ architecture: ARCHITECTURE, executable, parts }], folder, work, undefined);
  await extract({ file: join(folder, `shruti-${parts.build.version}-image.tar`), cwd: work });
  const read = ({ digest }: Descriptor) => join(work, "blobs", digest.replace(":", "/"));
  const json = (path: string) => JSON.parse(readFileSync(path, "utf8")) as Image;
  const [index = { digest: "" }] = json(join(work, "index.json")).manifests;
  const [manifest = { digest: "" }] = json(read(index)).manifests;
  const { layers, config } = json(read(manifest));
  for (const layer of layers) await extract({ file: read(layer), cwd: root, preserveOwner: true });
  // A container program makes these places.
  for (const name of ["proc", "dev"]) mkdirSync(join(root, name));
  const variables = json(read(config)).config.Env.map((line) => line.split("=") as [string, string]);
  environment = Object.fromEntries(variables);
  rmSync(work, { recursive: true });
  Bun.spawnSync(["chown", `${USER}:${USER}`, volume]);
}

describe.skipIf(!glibc || !canMount)(
  "the image (needs root, mounts and Debian's package libc6, from the network or the cache)",
  () => {
    beforeAll(unpackImage, 300_000);

    test("has what the executable needs, with a root that cannot be written", async () => {
      const { code, out } = await run("doctor", "--self");
      expect({ code, out }).toEqual({ code: 0, out: expect.stringContaining("ok") });
      expect(statSync(join(root, "var/lib/shruti")).uid).toBe(USER);
    }, 120_000);

    test("makes its data in the volume, serves, transcribes, says that it is ready, and ends at SIGTERM", async () => {
      const key = "/var/lib/shruti/first.key";
      for (let round = 0; round < 2; round += 1)
        expect(await run("init", "--unless-exists", "--service", "--key-file", key)).toMatchObject({
          code: 0,
        });
      expect(await run("credit", "grant", "--org", "default", "--paise", "1000")).toMatchObject({ code: 0 });
      expect(await run("status", "--ready")).toMatchObject({ code: 1 });
      const [port = 0] = await freePorts(1);
      environment.SHRUTI_SERVER_LISTEN = `127.0.0.1:${port}`;
      environment.SHRUTI_METRICS_TOKEN_FILE = "/var/lib/shruti/metrics-token";
      writeFileSync(join(volume, "metrics-token"), "of-a-file\n");
      const server = start("/usr/local/bin/shruti", "serve");
      try {
        const address = `http://127.0.0.1:${port}`;
        const answers = async (path: string) =>
          fetch(`${address}${path}`, { headers: { authorization: "Bearer of-a-file" } }).catch(
            () => undefined,
          );
        await until("it is ready", async () => (await answers("/readyz"))?.ok === true, 60_000);
        expect((await answers("/metrics"))?.status).toBe(200);
        expect(await run("status", "--ready")).toEqual({ code: 0, out: "ready\n" });
        const form = new FormData();
        form.set("file", Bun.file(join(SAMPLES, "02-hi.wav")));
        form.set("language", "hi");
        form.set("model", "demo");
        const secret = readFileSync(join(volume, "first.key"), "utf8").trim();
        const answer = await fetch(`${address}/v1/audio/transcriptions`, {
          method: "POST",
          headers: { authorization: `Bearer ${secret}` },
          body: form,
        });
        expect(answer.status).toBe(200);
        expect(await answer.text()).toMatch(/[\u0900-\u097f]{2,}/);
      } finally {
        server.kill("SIGTERM");
      }
      expect(await server.exited).toBe(0);
      expect(existsSync(join(volume, "shruti.db"))).toBe(true);
    }, 180_000);
  },
);
