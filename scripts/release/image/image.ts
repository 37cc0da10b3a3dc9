import type { KeyObject } from "node:crypto";
import { rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { renderLicences } from "../../../src/cli/appliance/licenses.ts";
import type { PartList } from "../../../src/executable/parts.ts";
import { sha256OfFile } from "../../../src/store/file-hash.ts";
import { renderExampleConfig } from "../bundle.ts";
import { textKey } from "../licence-texts.ts";
import { renderSbom } from "../sbom.ts";
import { type BlobStore, type Descriptor, openBlobStore, writeTar } from "./blobs.ts";
import { type Architecture, glibcEntries, glibcPart, unpackedGlibc } from "./glibc.ts";
import { signatureArchive } from "./signature.ts";
import type { TarEntry } from "./tar-stream.ts";

/** The image for containers: OCI image specification 1.1, written without a daemon. docs/release.md section 10. */

/** One platform of an image. */
export type ImagePlatform = { architecture: Architecture; executable: string; parts: PartList };

/** The repository that programs give a loaded image, before its version. Nothing can be pulled from there. */
export const REPOSITORY = "localhost/shruti";
/** The user of the image, as in images without a distribution. */
export const USER = 65_532;
const DATA_DIR = "var/lib/shruti";
const CONFIG = "etc/shruti/shruti.toml";
const PROGRAM = "usr/local/bin/shruti";

export const MEDIA_TYPES = {
  index: "application/vnd.oci.image.index.v1+json",
  manifest: "application/vnd.oci.image.manifest.v1+json",
  config: "application/vnd.oci.image.config.v1+json",
  /** The config of what is not an image. */
  empty: "application/vnd.oci.empty.v1+json",
  sbom: "application/vnd.cyclonedx+json",
} as const;

/**
 * Writes an image as one tar: an OCI layout with an index of all platforms, and beside it what `docker load` reads.
 *
 * @param platforms executables of one version, with their parts
 * @param folder of the release: receives `shruti-VERSION-image.tar`, and with a key its signature in a tar of its own
 * @param work an empty place for blobs; nothing remains there
 * @param key signs the digest of the index; undefined: unsigned
 * @param unpack returns the folder of the unpacked C library of an architecture
 * @returns the digest of the index
 */
export async function writeImage(
  platforms: readonly ImagePlatform[],
  folder: string,
  work: string,
  key: KeyObject | undefined,
  unpack: (architecture: Architecture) => Promise<string> = unpackedGlibc,
): Promise<string> {
  const [first] = platforms;
  if (first === undefined) throw new Error("an image needs a platform");
  const { version } = first.parts.build;
  const time = new Date(first.parts.build.committed_at ?? 0);
  const blobs = openBlobStore(join(work, "blobs"));
  const images: { descriptor: Descriptor; architecture: Architecture; docker: object }[] = [];
  const boms: Descriptor[] = [];
  for (const platform of platforms) {
    const image = await addPlatform(blobs, platform, await unpack(platform.architecture), time);
    images.push({ ...image, architecture: platform.architecture });
    boms.push(image.sbom);
  }
  const annotations = annotationsOf(first.parts, time);
  const manifests = [...images.map(({ descriptor }) => descriptor), ...boms];
  // The keys are in the order in which skopeo writes them, and only those that an old one knows are there. It writes an index
  // again when it copies one, and another digest would not be the signed one.
  const index = blobs.addJson(MEDIA_TYPES.index, {
    ...{ schemaVersion: 2, mediaType: MEDIA_TYPES.index, manifests, annotations },
  });
  const name = `${REPOSITORY}:${version}`;
  const docker = images.map(({ docker, architecture }, place) => ({
    ...docker,
    // Programs that read this file know one image of a name.
    RepoTags: [place === 0 ? name : `${name}-${architecture}`],
  }));
  const layout = [...layoutEntries(index, version, name), jsonEntry("manifest.json", docker)];
  await writeTar([...layout, ...blobs.entries()], time, join(folder, `shruti-${version}-image.tar`));
  rmSync(join(work, "blobs"), { recursive: true });
  if (key !== undefined) await writeSignature(index, version, folder, work, time, key);
  return index.digest;
}

/** Writes the signature of an index as an OCI layout of its own: with a second entry, programs would ask which image is meant. */
async function writeSignature(
  index: Descriptor,
  version: string,
  folder: string,
  work: string,
  time: Date,
  key: KeyObject,
): Promise<void> {
  const blobs = openBlobStore(join(work, "signature"));
  const { tag, manifest } = signatureArchive(blobs, index, REPOSITORY, key);
  const entries = [...layoutEntries(manifest, tag, `${REPOSITORY}:${tag}`), ...blobs.entries()];
  await writeTar(entries, time, join(folder, `shruti-${version}-image-signature.tar`));
  rmSync(join(work, "signature"), { recursive: true });
}

type AddedPlatform = { descriptor: Descriptor; sbom: Descriptor; docker: object };

/** Adds layers, config, manifest and bill of materials of a platform. */
async function addPlatform(
  blobs: BlobStore,
  { architecture, executable, parts }: ImagePlatform,
  glibc: string,
  time: Date,
): Promise<AddedPlatform> {
  const all = withPart(parts, glibcPart(glibc, architecture));
  const sbom = renderSbom(all, await sha256OfFile(executable));
  const layers = [
    await blobs.addLayer([...glibcEntries(glibc, architecture), ...systemEntries()], time),
    await blobs.addLayer(productEntries(executable, all, sbom), time),
  ];
  const config = blobs.addJson(MEDIA_TYPES.config, {
    created: time.toISOString(),
    ...{ architecture, os: "linux", config: runConfig(parts, time) },
    rootfs: { type: "layers", diff_ids: layers.map(({ diffId }) => diffId) },
    history: [
      { created: time.toISOString(), created_by: "shruti release: the C library, user, folders" },
      { created: time.toISOString(), created_by: `shruti release: shruti ${parts.build.version}` },
    ],
  });
  const annotations = annotationsOf(parts, time);
  const descriptors = layers.map(({ descriptor }) => descriptor);
  const manifest = blobs.addJson(MEDIA_TYPES.manifest, {
    ...{ schemaVersion: 2, mediaType: MEDIA_TYPES.manifest, config, layers: descriptors, annotations },
  });
  return {
    descriptor: { ...manifest, platform: { architecture, os: "linux" } },
    sbom: addSbom(blobs, sbom, manifest),
    docker: { Config: pathOf(config), Layers: descriptors.map(pathOf) },
  };
}

/** Adds a bill of materials as a referrer: a manifest that names the image as its subject. */
function addSbom(blobs: BlobStore, sbom: string, subject: Descriptor): Descriptor {
  const layer = blobs.add(MEDIA_TYPES.sbom, sbom);
  const title = { "org.opencontainers.image.title": "sbom.cdx.json" };
  const manifest = blobs.addJson(MEDIA_TYPES.manifest, {
    ...{ schemaVersion: 2, mediaType: MEDIA_TYPES.manifest, artifactType: MEDIA_TYPES.sbom },
    config: blobs.add(MEDIA_TYPES.empty, "{}"),
    layers: [{ ...layer, annotations: title }],
    subject,
  });
  return {
    ...manifest,
    annotations: {
      "vnd.docker.reference.digest": subject.digest,
      "vnd.docker.reference.type": "attestation-manifest",
    },
    // No machine is of this platform, so nothing takes the manifest for an image.
    platform: { architecture: "unknown", os: "unknown" },
  };
}

/** What a container of the image runs, and how. Variables say what the image decides, so that a config need not. */
function runConfig(parts: PartList, time: Date): object {
  const seconds = (count: number) => count * 1_000_000_000;
  return {
    User: `${USER}:${USER}`,
    Entrypoint: [`/${PROGRAM}`],
    Cmd: ["serve"],
    Env: [
      "PATH=/usr/local/bin",
      `HOME=/${DATA_DIR}`,
      `SHRUTI_CONFIG=/${CONFIG}`,
      `SHRUTI_STORAGE_DATA_DIR=/${DATA_DIR}`,
      "SHRUTI_SERVER_LISTEN=0.0.0.0:8080",
    ],
    WorkingDir: "/",
    ExposedPorts: { "8080/tcp": {} },
    Volumes: { [`/${DATA_DIR}`]: {} },
    StopSignal: "SIGTERM",
    // Docker's addition to OCI's config. The first minute is for the model.
    Healthcheck: {
      Test: ["CMD", `/${PROGRAM}`, "status", "--ready"],
      Interval: seconds(30),
      Timeout: seconds(10),
      StartPeriod: seconds(60),
      Retries: 3,
    },
    Labels: annotationsOf(parts, time),
  };
}

function annotationsOf({ build, licence }: PartList, time: Date): Record<string, string> {
  return {
    "org.opencontainers.image.created": time.toISOString(),
    "org.opencontainers.image.description": "Speech transcription, mainly for Indian languages",
    ...(licence === null ? {} : { "org.opencontainers.image.licenses": licence.name }),
    ...(build.commit === null ? {} : { "org.opencontainers.image.revision": build.commit }),
    "org.opencontainers.image.title": "shruti",
    "org.opencontainers.image.version": build.version,
  };
}

/** What every program expects of a system: users, names of hosts, places to write. */
function systemEntries(): TarEntry[] {
  return [
    {
      path: "etc/passwd",
      mode: 0o644,
      content: `root:x:0:0:root:/root:/sbin/nologin\nshruti:x:${USER}:${USER}:Shruti:/${DATA_DIR}:/sbin/nologin\n`,
    },
    { path: "etc/group", mode: 0o644, content: `root:x:0:\nshruti:x:${USER}:\n` },
    { path: "etc/nsswitch.conf", mode: 0o644, content: "passwd: files\ngroup: files\nhosts: files dns\n" },
    // Scanners read there whose list of faults counts for the C library.
    {
      path: "etc/os-release",
      mode: 0o644,
      content: 'PRETTY_NAME="Shruti, with the C library of Debian 12"\nID=debian\nVERSION_ID="12"\n',
    },
    { path: "tmp", mode: 0o1777, isFolder: true },
    { path: DATA_DIR, mode: 0o700, owner: USER, isFolder: true },
  ];
}

function productEntries(executable: string, parts: PartList, sbom: string): TarEntry[] {
  const documents = "usr/share/doc/shruti";
  return [
    { path: PROGRAM, mode: 0o755, file: executable, bytes: statSync(executable).size },
    { path: CONFIG, mode: 0o644, content: renderExampleConfig() },
    { path: `${documents}/LICENCES.txt`, mode: 0o644, content: renderLicences(parts) },
    { path: `${documents}/sbom.cdx.json`, mode: 0o644, content: sbom },
  ];
}

function layoutEntries(manifest: Descriptor, tag: string, name: string): TarEntry[] {
  const annotations = {
    "io.containerd.image.name": name,
    "org.opencontainers.image.ref.name": tag,
  };
  return [
    jsonEntry("oci-layout", { imageLayoutVersion: "1.0.0" }),
    jsonEntry("index.json", {
      ...{ schemaVersion: 2, mediaType: MEDIA_TYPES.index, manifests: [{ ...manifest, annotations }] },
    }),
  ];
}

const jsonEntry = (path: string, document: object): TarEntry => ({
  ...{ path, mode: 0o644, content: JSON.stringify(document) },
});

const pathOf = ({ digest }: Descriptor) => `blobs/${digest.replace(":", "/")}`;

/** Adds a part, such as one that is beside the executable, to a list. */
function withPart(list: PartList, { texts, ...part }: ReturnType<typeof glibcPart>): PartList {
  const added = Object.fromEntries(texts.map((text) => [textKey(text), text]));
  return {
    ...list,
    parts: [...list.parts, { ...part, texts: Object.keys(added) }],
    texts: { ...list.texts, ...added },
  };
}
