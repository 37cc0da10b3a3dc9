import type { KeyObject } from "node:crypto";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
} from "node:fs";
import { join, relative, resolve } from "node:path";
import { parseArgs } from "node:util";
import packageJson from "../package.json" with { type: "json" };
import { renderLicences } from "../src/cli/appliance/licenses.ts";
import type { PartList } from "../src/executable/parts.ts";
import { keyFingerprint, readPrivateKey } from "../src/lib/signatures.ts";
import { BACKENDS, type Backend, buildBackend } from "../src/native/build/backend.ts";
import { runtimeArchives } from "../src/native/build/cpp-runtime.ts";
import { buildFfmpeg } from "../src/native/build/ffmpeg.ts";
import { hostToolchain, releaseToolchain, TARGETS, type Target } from "../src/native/build/toolchain.ts";
import { buildExecutable } from "./build.ts";
import { LICENCE_FILE } from "./release/build-facts.ts";
import { CHECKSUMS, layOutBackend, layOutBundle, writeChecksums } from "./release/bundle.ts";
import { packClients } from "./release/client-packages.ts";
import { configureFlags, layOutFfmpegSource } from "./release/ffmpeg-source.ts";
import { type ImagePlatform, writeImage } from "./release/image/image.ts";
import { nativeParts } from "./release/native-parts.ts";
import { FORMATS, NO_MAINTAINER, type PackageOptions } from "./release/packages/package-facts.ts";
import { writePackages } from "./release/packages/packages.ts";
import { assemble } from "./release/parts.ts";
import { packFolder } from "./release/tarball.ts";

/**
 * Makes a release: a tarball for each platform, the source of FFmpeg and the decoder, with `--image` an image for containers,
 * the clients, and signed checksums.
 * docs/release.md section 1 describes it.
 */

const ROOT = join(import.meta.dirname, "..");

const USAGE = `usage: bun run release [--sign-key FILE] [--platform ${TARGETS.join("|")}]... [--backend ${BACKENDS.join("|")}]... [--image]
                       [--package ${FORMATS.join("|")}]... [--maintainer "NAME <ADDRESS>"] [--output DIR]
       bun run release --host [--sign-key FILE] [--image] [--output DIR]      for tests: with this machine's compiler, for machines like it`;

/** undefined: this machine's own platform, built with its own compiler. */
type Platform = Target | undefined;
type Options = {
  platforms: Platform[];
  backends: Backend[];
  /** Whether an image for containers is made. */
  hasImage: boolean;
  packages: PackageOptions;
  signKey: string | undefined;
  output: string;
};

function parseCommand(): Options {
  try {
    const { values } = parseArgs({
      options: {
        "sign-key": { type: "string" },
        platform: { type: "string", multiple: true, default: ["linux-x64"] },
        backend: { type: "string", multiple: true, default: [] },
        image: { type: "boolean", default: false },
        package: { type: "string", multiple: true, default: [] },
        maintainer: { type: "string", default: NO_MAINTAINER },
        host: { type: "boolean", default: false },
        output: { type: "string", default: join(ROOT, "dist/release") },
      },
    });
    const platforms = values.platform.map((name) => {
      const platform = TARGETS.find((known) => known === name);
      if (platform === undefined) throw new Error(`there is no platform ${name}`);
      return platform;
    });
    const backends = values.backend.map((name) => {
      const backend = BACKENDS.find((known) => known === name);
      if (backend === undefined) throw new Error(`there is no backend ${name} of a release`);
      return backend;
    });
    const formats = values.package.map((name) => {
      const format = FORMATS.find((known) => known === name);
      if (format === undefined) throw new Error(`${name} is not a kind of package`);
      return format;
    });
    if (!/^[^<>\n]*[^<>\s] <[^<>@\s]+@[^<>@\s]+>$/.test(values.maintainer))
      throw new Error(`--maintainer: ${values.maintainer} is not NAME <ADDRESS>`);
    if (values.host && backends.length > 0) throw new Error("--backend belongs to a release for customers");
    const output = resolve(values.output);
    if (!isReplaceable(output))
      throw new Error(`${output} holds other files, and a release replaces the folder`);
    return {
      platforms: values.host ? [undefined] : [...new Set(platforms)],
      backends: [...new Set(backends)],
      hasImage: values.image,
      packages: { formats: [...new Set(formats)], maintainer: values.maintainer },
      signKey: values["sign-key"],
      output,
    };
  } catch (error) {
    console.error(`release: ${error instanceof Error ? error.message : error}\n${USAGE}`);
    process.exit(2);
  }
}

/** Whether the folder is missing, empty or an earlier release: nothing but that is removed for the new one. */
function isReplaceable(folder: string): boolean {
  return !existsSync(folder) || readdirSync(folder).length === 0 || existsSync(join(folder, CHECKSUMS));
}

const NAME = `shruti-${packageJson.version}`;

async function release({ platforms, backends, packages, hasImage, signKey, output }: Options): Promise<void> {
  const key = signKey === undefined ? undefined : readPrivateKey(readFileSync(signKey, "utf8"));
  // Native parts take long, so what will be missing is said before.
  for (const platform of platforms) if (platform !== undefined) runtimeArchives(platform);
  mkdirSync(resolve(output, ".."), { recursive: true });
  const work = mkdtempSync(`${output}.`);
  const made = join(work, "release");
  mkdirSync(made);
  try {
    let parts: PartList | undefined;
    const built: Built[] = [];
    for (const platform of platforms) {
      parts = await releasePlatform(platform, packages, work, made, key);
      built.push({ executable: executableOf(platform), parts });
      if (platform === undefined) continue;
      for (const backend of backends) await releaseBackend(platform, backend, parts, work, made, key);
    }
    if (parts === undefined) return;
    await releaseSource(platforms[0], parts, work, made);
    await packClients(join(work, "clients"), made, timeOf(parts));
    if (hasImage) await writeImage(built.map(imagePlatform), made, work, key);
    await writeChecksums(made, key);
    rmSync(output, { recursive: true, force: true });
    renameSync(made, output);
    report(output, parts, key === undefined ? undefined : keyFingerprint(key));
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

type Built = { executable: string; parts: PartList };

// Not in the folder of the output: the executable's path in the repository may be part of its bytes.
const executableOf = (platform: Platform) => join(ROOT, `dist/shruti-${platform ?? "host"}`);

/** Names the platform of an executable as OCI does. */
function imagePlatform({ executable, parts }: Built): ImagePlatform {
  const architecture = parts.build.platform.endsWith("-arm64") ? "arm64" : "amd64";
  return { architecture, executable, parts };
}

/** Builds the executable of a platform and packs its tarball, and packages where they are asked for. */
async function releasePlatform(
  platform: Platform,
  packages: PackageOptions,
  work: string,
  made: string,
  key: KeyObject | undefined,
): Promise<PartList> {
  const executable = executableOf(platform);
  const parts = await buildExecutable(join(ROOT, "src/main.ts"), executable, platform);
  const name = `${NAME}-${parts.build.platform}`;
  await layOutBundle(join(work, name), executable, parts, key);
  await packFolder(join(work, name), join(made, `${name}.tar.gz`), timeOf(parts));
  await writePackages(join(work, name), parts, packages, timeOf(parts), made);
  return parts;
}

/** Builds a GPU backend for the executable of a platform and packs its tarball. */
async function releaseBackend(
  platform: Target,
  backend: Backend,
  { build }: PartList,
  work: string,
  made: string,
  key: KeyObject | undefined,
): Promise<void> {
  const folder = await buildBackend(await releaseToolchain(platform), platform, backend);
  const parts = assemble(build, nativeParts(folder, build));
  const name = `shruti-backend-${backend}-${build.version}-${build.platform}`;
  await layOutBackend(join(work, name), folder, parts, key);
  await packFolder(join(work, name), join(made, `${name}.tar.gz`), timeOf(parts));
}

/** Packs the source of FFmpeg and of the decoder. The flags are the same for all platforms. */
async function releaseSource(platform: Platform, parts: PartList, work: string, made: string): Promise<void> {
  const folder = join(work, `${NAME}-ffmpeg-source`);
  const flags = configureFlags(await buildFfmpeg(await toolchainOf(platform)));
  layOutFfmpegSource(folder, flags, renderLicences(decoderOnly(parts)));
  await packFolder(folder, join(made, `${NAME}-ffmpeg-source.tar.gz`), timeOf(parts));
}

const toolchainOf = (platform: Platform) =>
  platform === undefined ? hostToolchain() : releaseToolchain(platform);

/** The commit's time; outside a repository the beginning of time, so that the bytes do not depend on the clock. */
function timeOf({ build }: PartList): Date {
  return new Date(build.committed_at ?? 0);
}

function decoderOnly(list: PartList): PartList {
  const parts = list.parts.filter(({ files }) => files?.some(({ name }) => name === "decoder"));
  return { ...list, parts };
}

function report(output: string, { build, licence, parts }: PartList, key: string | undefined): void {
  for (const file of [
    CHECKSUMS,
    ...[...new Bun.Glob("*.{tar,tar.gz,tgz,whl,deb,rpm}").scanSync(output)].sort(),
  ]) {
    const megabytes = (statSync(join(output, file)).size / 1e6).toFixed(1);
    console.log(`${relative(process.cwd(), join(output, file))}  ${megabytes} MB`);
  }
  console.log(`version ${build.version}, commit ${build.commit ?? "unknown"}, ${parts.length} parts`);
  if (build.dirty)
    console.log("NOTE: files differ from that commit, so this release cannot be made a second time");
  if (licence === null) console.log(`NOTE: no licence has been chosen; its place is ${LICENCE_FILE}`);
  console.log(key === undefined ? "NOTE: unsigned; see --sign-key" : `signed with the key ${key}`);
}

const options = parseCommand();
try {
  await release(options);
} catch (error) {
  console.error(`release: ${error instanceof Error ? error.message : error}`);
  process.exitCode = 1;
}
