import { createHash, type KeyObject } from "node:crypto";
import {
  chmodSync,
  copyFileSync,
  cpSync,
  createReadStream,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { renderLicences } from "../../src/cli/appliance/licenses.ts";
import { renderConfigToEdit } from "../../src/config/render.ts";
import type { PartList } from "../../src/executable/parts.ts";
import { renderChecksums } from "../../src/lib/checksums.ts";
import { signMessage } from "../../src/lib/signatures.ts";
import { run } from "../../src/native/build/run.ts";
import { LICENCE_FILE } from "./build-facts.ts";
import { requestFor } from "./checksum-request.ts";
import { layOutDocuments } from "./documents.ts";
import { renderSbom } from "./sbom.ts";
import { seal } from "./seal.ts";
import { filesBelow } from "./tarball.ts";

const ROOT = join(import.meta.dirname, "../..");
export const CHECKSUMS = "SHA256SUMS";
/** Dashboards and alert rules, once there are any. */
const OPERATIONS = "ops";

/**
 * Lays out the folder that becomes a platform's tarball.
 *
 * @param folder is made; its name is that of the tarball
 * @param key signs the list of checksums; undefined: the release is unsigned
 */
export async function layOutBundle(
  folder: string,
  executable: string,
  parts: PartList,
  key: KeyObject | undefined,
): Promise<void> {
  mkdirSync(folder, { recursive: true });
  copyFileSync(executable, join(folder, "shruti"));
  copyFileSync(join(ROOT, "install.sh"), join(folder, "install.sh"));
  for (const program of ["shruti", "install.sh"]) chmodSync(join(folder, program), 0o755);
  writeFileSync(join(folder, "shruti.service"), await renderUnit());
  writeFileSync(join(folder, "shruti.example.toml"), renderExampleConfig());
  if (existsSync(join(ROOT, LICENCE_FILE)))
    copyFileSync(join(ROOT, LICENCE_FILE), join(folder, "LICENSE.txt"));
  if (existsSync(join(ROOT, OPERATIONS)))
    cpSync(join(ROOT, OPERATIONS), join(folder, OPERATIONS), { recursive: true });
  layOutDocuments(folder, (path) => path === LICENCE_FILE);
  writeFileSync(join(folder, "LICENCES.txt"), renderLicences(parts));
  writeFileSync(join(folder, "sbom.cdx.json"), renderSbom(parts, await sha256Of(executable)));
  await writeChecksums(folder, key);
}

/**
 * Lays out the folder that becomes the tarball of a GPU backend.
 *
 * @param folder is made; its name is that of the tarball
 * @param built folder of the library
 * @param parts what the library is made of
 */
export async function layOutBackend(
  folder: string,
  built: string,
  parts: PartList,
  key: KeyObject | undefined,
): Promise<void> {
  mkdirSync(folder);
  const libraries = readdirSync(built);
  for (const name of libraries) {
    copyFileSync(join(built, name), join(folder, name));
    chmodSync(join(folder, name), 0o644);
  }
  const { version, platform } = parts.build;
  writeFileSync(join(folder, "README.txt"), backendReadme(libraries.join(" "), version, platform));
  writeFileSync(join(folder, "LICENCES.txt"), renderLicences(parts));
  await writeChecksums(folder, key);
}

const backendReadme = (
  libraries: string,
  version: string,
  platform: string,
) => `A GPU backend for Shruti ${version} on ${platform}

It belongs to that release. Another release uses it only when it contains the same version of whisper.cpp, and otherwise
says in its log and in \`shruti doctor\` that it does not.

Needs the graphics driver of the machine and, for Vulkan, the Vulkan loader (libvulkan1 on Debian and Ubuntu,
vulkan-loader on RHEL). To install, as root:

  install -D -m 0644 -t /var/lib/shruti/backends ${libraries}      # the data directory of the service
  sudo -u shruti shruti doctor            # "device" names the GPU, "model" says where it runs
  systemctl restart shruti

To remove, delete the file and restart. The manual of the release has a page about GPUs (docs/manual/gpu.md).
`;

/**
 * Writes the list of all files in a folder, and its signature in two forms: the bytes of Ed25519, and one for OpenSSL 1.1.1.
 *
 * @param key undefined: without signature
 */
export async function writeChecksums(folder: string, key: KeyObject | undefined): Promise<void> {
  const files = filesBelow(folder)
    .map((name) => ({ name, path: join(folder, name) }))
    .filter(({ name, path }) => !name.startsWith(CHECKSUMS) && statSync(path).isFile());
  const checksums = await Promise.all(
    files.map(async ({ name, path }) => ({ name, sha256: await sha256Of(path) })),
  );
  const list = renderChecksums(checksums);
  writeFileSync(join(folder, CHECKSUMS), list);
  if (key === undefined) return;
  writeFileSync(join(folder, `${CHECKSUMS}.sig`), signMessage(Buffer.from(list), key));
  writeFileSync(join(folder, `${CHECKSUMS}.csr`), requestFor(list, key));
}

async function sha256Of(path: string): Promise<string> {
  const hash = createHash("sha256");
  for await (const piece of createReadStream(path)) hash.update(piece);
  return hash.digest("hex");
}

/**
 * Takes the unit from install.sh itself, which stages files when DESTDIR is set.
 *
 * @param prefix folder above the `bin` with the executable
 */
export async function renderUnit(prefix = "/usr/local"): Promise<string> {
  const work = mkdtempSync(join(tmpdir(), "shruti-unit-"));
  try {
    // Nothing of the program is needed for its unit. The seal is a comment in a shell script.
    const program = join(work, "shruti");
    writeFileSync(program, "#!/bin/sh\necho shruti\n", { mode: 0o755 });
    await seal(program);
    const stage = join(work, "stage");
    // Without DESTDIR, root would install the program here.
    await run(["env", `DESTDIR=${stage}`, "sh", join(ROOT, "install.sh"), "--prefix", prefix, program]);
    return readFileSync(join(stage, "etc/systemd/system/shruti.service"), "utf8");
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

/** All settings with their meaning, each commented out. */
export function renderExampleConfig(): string {
  return renderConfigToEdit(
    "Every setting with its default. Copy what you change to /etc/shruti/shruti.toml.",
  );
}
