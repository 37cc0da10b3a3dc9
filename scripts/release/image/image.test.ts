import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { createHash, createPublicKey, generateKeyPairSync } from "node:crypto";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { gunzipSync } from "node:zlib";
import { extract, list } from "tar";
import type { PartList } from "../../../src/executable/parts.ts";
import { sha256Hex } from "../../../src/lib/sha256.ts";
import { isSignedBy } from "../../../src/lib/signatures.ts";
import { buildFacts } from "../../../src/testing/kits/release-facts.ts";
import type { Descriptor } from "./blobs.ts";
import { type Architecture, unpackedGlibc } from "./glibc.ts";
import { USER, writeImage } from "./image.ts";

/** An image of a small program and of files in the place of the C library. src/e2e/image.test.ts runs a real one. */

const folder = mkdtempSync(join(tmpdir(), "shruti-image-"));
afterAll(() => rmSync(folder, { recursive: true }));

const PARTS: PartList = {
  build: buildFacts({ processor_code: { names: ["x64"], complete: true } }),
  licence: null,
  parts: [],
  texts: {},
};
const { privateKey, publicKey } = generateKeyPairSync("ed25519");

/** Makes files like those of Debian's package. */
async function unpack(architecture: Architecture): Promise<string> {
  const root = join(folder, `libc6-${architecture}`);
  const name = architecture === "amd64" ? "x86_64" : "aarch64";
  const loader = architecture === "amd64" ? "ld-linux-x86-64.so.2" : "ld-linux-aarch64.so.1";
  const libraries = ["c.so.6", "dl.so.2", "m.so.6", "nss_dns.so.2", "nss_files.so.2", "pthread.so.0"];
  const names = [...[...libraries, "resolv.so.2", "rt.so.1"].map((each) => `lib${each}`), loader];
  const paths = names.map((each) => `lib/${name}-linux-gnu/${each}`);
  for (const path of [...paths, "usr/share/doc/libc6/copyright", "control"]) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), `${architecture} ${path}`);
  }
  return root;
}

async function make(name: string, umask: number): Promise<string> {
  const [out, work] = [join(folder, name), join(folder, `${name}-work`)];
  for (const path of [out, work]) mkdirSync(path);
  const executable = join(out, "program");
  writeFileSync(executable, "program");
  const before = process.umask(umask);
  const platforms = (["amd64", "arm64"] as const).map((architecture) => ({ architecture, executable }));
  await writeImage(
    platforms.map((platform) => ({ ...platform, parts: PARTS })),
    out,
    work,
    privateKey,
    unpack,
  ).finally(() => process.umask(before));
  return out;
}

type Manifest = {
  artifactType?: string;
  config: Descriptor;
  layers: Descriptor[];
  subject?: Descriptor;
  annotations?: Record<string, string>;
};
type Index = { manifests: Descriptor[] };

let layout: string;
const json = <T>(path: string) => JSON.parse(readFileSync(join(layout, path), "utf8")) as T;
const blobOf = ({ digest }: Descriptor) => readFileSync(join(layout, "blobs", digest.replace(":", "/")));
const jsonOf = <T>(descriptor: Descriptor) => JSON.parse(blobOf(descriptor).toString()) as T;
const indexOf = () => jsonOf<Index>(json<Index>("index.json").manifests[0] as Descriptor);

async function unpackLayout(archive: string): Promise<string> {
  const target = mkdtempSync(join(folder, "layout-"));
  await extract({ file: archive, cwd: target });
  return target;
}

beforeAll(async () => {
  const out = await make("first", 0o022);
  layout = await unpackLayout(join(out, "shruti-1.2.3-image.tar"));
});

describe("an image", () => {
  test("has the same bytes twice, whatever the umask", async () => {
    const second = await make("second", 0o077);
    for (const name of ["shruti-1.2.3-image.tar", "shruti-1.2.3-image-signature.tar"])
      expect(sha256Hex(readFileSync(join(second, name)))).toBe(
        sha256Hex(readFileSync(join(folder, "first", name))),
      );
  });

  test("is one index of two platforms, with a bill of materials of each as its referrer", () => {
    const { manifests } = indexOf();
    const [amd64, arm64, ...boms] = manifests;
    expect([amd64?.platform, arm64?.platform]).toEqual([
      { architecture: "amd64", os: "linux" },
      { architecture: "arm64", os: "linux" },
    ]);
    for (const [place, bom] of boms.entries()) {
      const { subject, artifactType, layers } = jsonOf<Manifest>(bom);
      expect(artifactType).toBe("application/vnd.cyclonedx+json");
      expect(subject?.digest).toBe(manifests[place]?.digest ?? "");
      const { components } = jsonOf<{ components: { name: string }[] }>(layers[0] as Descriptor);
      expect(components.map(({ name }) => name)).toContain("GNU C Library (Debian's package libc6)");
    }
    expect(boms).toHaveLength(2);
  });

  test("every blob has the digest and the size that are said of it, and every layer its own digest", () => {
    const descriptors: Descriptor[] = [...json<Index>("index.json").manifests, ...indexOf().manifests];
    for (const manifest of indexOf().manifests) {
      const { config, layers } = jsonOf<Manifest>(manifest);
      descriptors.push(config, ...layers);
      if (manifest.platform?.os === "unknown") continue;
      const { rootfs } = jsonOf<{ rootfs: { diff_ids: string[] } }>(config);
      const plain = layers.map((layer) => `sha256:${sha256Hex(gunzipSync(blobOf(layer)))}`);
      expect(rootfs.diff_ids).toEqual(plain);
    }
    for (const descriptor of descriptors) {
      const bytes = blobOf(descriptor);
      const digest = `sha256:${createHash("sha256").update(bytes).digest("hex")}`;
      expect({ digest, size: bytes.length }).toEqual({ digest: descriptor.digest, size: descriptor.size });
    }
    expect(descriptors.length).toBe(15);
  });

  test("its index has the bytes that skopeo writes, so that a copy has the signed digest", () => {
    const index = json<Index>("index.json").manifests[0] as Descriptor;
    const written = jsonOf<Index & { annotations: Record<string, string> }>(index);
    const sorted = (map: Record<string, string>) => Object.fromEntries(Object.entries(map).sort());
    const again = {
      schemaVersion: 2,
      mediaType: index.mediaType,
      manifests: written.manifests.map(({ mediaType, digest, size, annotations, platform }) => ({
        ...{
          mediaType,
          digest,
          size,
          ...(annotations ? { annotations: sorted(annotations) } : {}),
          platform,
        },
      })),
      annotations: sorted(written.annotations),
    };
    expect(blobOf(index).toString()).toBe(JSON.stringify(again));
  });

  test("Docker's own list names the same blobs", () => {
    const docker = json<{ Config: string; Layers: string[]; RepoTags: string[] }[]>("manifest.json");
    expect(docker.map(({ RepoTags }) => RepoTags)).toEqual([
      ["localhost/shruti:1.2.3"],
      ["localhost/shruti:1.2.3-arm64"],
    ]);
    const { config, layers } = jsonOf<Manifest>(indexOf().manifests[0] as Descriptor);
    const pathOf = ({ digest }: Descriptor) => `blobs/${digest.replace(":", "/")}`;
    expect(docker[0]).toMatchObject({ Config: pathOf(config), Layers: layers.map(pathOf) });
  });

  test("runs as a user without rights, who owns the data directory alone", async () => {
    const { config, layers } = jsonOf<Manifest>(indexOf().manifests[0] as Descriptor);
    const run = jsonOf<{ config: Record<string, unknown> }>(config).config;
    expect(run).toMatchObject({
      User: `${USER}:${USER}`,
      Entrypoint: ["/usr/local/bin/shruti"],
      Cmd: ["serve"],
      StopSignal: "SIGTERM",
    });
    const files = new Map<string, { mode: number; uid: number; gid: number }>();
    for (const [place, layer] of layers.entries()) {
      const archive = join(folder, `layer-${place}.tar.gz`);
      writeFileSync(archive, blobOf(layer));
      await list({
        file: archive,
        onReadEntry: ({ path, mode = 0, uid = -1, gid = -1 }) => void files.set(path, { mode, uid, gid }),
      });
    }
    expect(files.get("var/lib/shruti/")).toEqual({ mode: 0o700, uid: USER, gid: USER });
    expect(files.get("tmp/")?.mode).toBe(0o1777);
    expect(files.get("usr/local/bin/shruti")).toEqual({ mode: 0o755, uid: 0, gid: 0 });
    expect(files.get("lib64/ld-linux-x86-64.so.2")?.mode).toBe(0o755);
    const owned = [...files].filter(([, { uid }]) => uid !== 0).map(([path]) => path);
    expect(owned).toEqual(["var/lib/shruti/"]);
  });

  test("its signature is cosign's: over a document with the digest of the index, under the index's tag", async () => {
    const index = json<Index>("index.json").manifests[0] as Descriptor;
    const before = layout;
    layout = await unpackLayout(join(folder, "first/shruti-1.2.3-image-signature.tar"));
    const entry = json<Index>("index.json").manifests[0] as Descriptor;
    expect(entry.annotations?.["org.opencontainers.image.ref.name"]).toBe(
      `${index.digest.replace(":", "-")}.sig`,
    );
    const { layers, subject } = jsonOf<Manifest>(entry);
    const [layer] = layers;
    if (layer === undefined) throw new Error("the signature has no layer");
    const signature = Buffer.from(layer.annotations?.["dev.cosignproject.cosign/signature"] ?? "", "base64");
    expect(
      isSignedBy(
        blobOf(layer),
        signature,
        createPublicKey(publicKey.export({ type: "spki", format: "pem" })),
      ),
    ).toBe(true);
    expect(jsonOf<object>(layer)).toMatchObject({
      critical: { image: { "docker-manifest-digest": index.digest } },
    });
    expect(subject?.digest).toBe(index.digest);
    layout = before;
  });
});

describe("the C library", () => {
  const cacheBefore = process.env.XDG_CACHE_HOME;
  afterAll(() => {
    if (cacheBefore === undefined) delete process.env.XDG_CACHE_HOME;
    else process.env.XDG_CACHE_HOME = cacheBefore;
  });

  test("is refused with another checksum, and the message names the place for a file that was fetched by hand", async () => {
    process.env.XDG_CACHE_HOME = join(folder, "cache");
    const asked: string[] = [];
    const load = async (address: string) => {
      asked.push(address);
      return new Response("another package");
    };
    const refused = unpackedGlibc("amd64", load);
    await expect(refused).rejects.toThrow(join(folder, "cache/shruti/packages"));
    expect(asked).toHaveLength(2);
  });
});
