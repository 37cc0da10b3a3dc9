import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { generateKeyPairSync, type KeyObject, sign } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { requestFor } from "../../scripts/release/checksum-request.ts";
import { sha256Hex } from "../lib/sha256.ts";
import { type InstallBox, mayOpenInstallBox, openInstallBox } from "../testing/boxes/install-box.ts";

/** install.sh verifies the signature of a release with what the machine has, and never asks the newcomer. */

const SCRIPT = resolve(import.meta.dir, "../../install.sh");
const folder = mkdtempSync(join(tmpdir(), "shruti-signatures-"));
afterAll(() => rmSync(folder, { recursive: true }));

type Signer = { privateKey: KeyObject; pem: string };
function newSigner(): Signer {
  const { publicKey, privateKey } = generateKeyPairSync("ed25519");
  return { privateKey, pem: publicKey.export({ type: "spki", format: "pem" }).toString() };
}
const [signer, stranger] = [newSigner(), newSigner()];

/**
 * Writes a release whose executable leaves the file `ran` when it is started.
 *
 * @returns the path of the executable
 */
function release(
  name: string,
  { signature = signer, request = signature as Signer | null, named = "" },
): string {
  const at = join(folder, name);
  mkdirSync(at);
  const program = `#!/bin/sh\ntouch ${join(at, "ran")}\necho shruti 9\n`;
  const list = `${sha256Hex(program)}  shruti\n`;
  writeFileSync(join(at, "shruti"), program, { mode: 0o755 });
  writeFileSync(join(at, "SHA256SUMS"), list);
  writeFileSync(join(at, "SHA256SUMS.sig"), sign(null, Buffer.from(list), signature.privateKey));
  if (request) writeFileSync(join(at, "SHA256SUMS.csr"), requestFor(named || list, request.privateKey));
  writeFileSync(join(at, "key.pem"), signer.pem);
  return join(at, "shruti");
}
const hasRun = (executable: string) => existsSync(join(executable, "../ran"));

/** Folders of programs in front of PATH, by what the machine's openssl can do. */
const OPENSSL = {
  "OpenSSL 3": undefined,
  "OpenSSL 1.1.1":
    'case "$1" in pkeyutl) echo "unknown option" >&2; exit 1 ;; esac\nexec /usr/bin/openssl "$@"',
  "no OpenSSL": "exit 127",
} as const;
type Tool = keyof typeof OPENSSL;

function pathWith(tool: Tool): string {
  const text = OPENSSL[tool];
  if (text === undefined) return process.env.PATH ?? "";
  const at = join(folder, tool.replaceAll(" ", "-"));
  mkdirSync(at, { recursive: true });
  writeFileSync(join(at, "openssl"), `#!/bin/sh\n${text}\n`, { mode: 0o755 });
  return `${at}:${process.env.PATH}`;
}

const UNVERIFIED = "nothing on this machine can verify the signature";
type Case = [tool: Tool, what: string, made: Parameters<typeof release>[1], code: number, says: string];
const CASES: Case[] = [
  ["OpenSSL 3", "a release", {}, 0, "SHA256SUMS is signed with"],
  ["OpenSSL 3", "a stranger's", { signature: stranger }, 4, "does not fit the key"],
  ["OpenSSL 1.1.1", "a release", { signature: signer }, 0, "by SHA256SUMS.csr"],
  ["OpenSSL 1.1.1", "a stranger's", { signature: stranger }, 4, "does not fit the key"],
  ["OpenSSL 1.1.1", "another list with our request", { named: "another list\n" }, 4, "does not fit the key"],
  ["OpenSSL 1.1.1", "one without a request", { request: null }, 4, UNVERIFIED],
  ["no OpenSSL", "a release", {}, 4, UNVERIFIED],
];

describe("a first installation", () => {
  test.each(CASES)("with %s, of %s", (tool, what, made, code, says) => {
    const name = `${tool} ${what}`.replaceAll(/\W+/g, "-");
    const executable = release(name, { ...made });
    const stage = join(folder, `${name}-stage`);
    const install = (...more: string[]) => {
      const key = join(executable, "../key.pem");
      const child = Bun.spawnSync(["sh", SCRIPT, "--key", key, ...more, executable], {
        env: { PATH: pathWith(tool), DESTDIR: stage },
      });
      return { code: child.exitCode, said: child.stdout.toString() + child.stderr.toString() };
    };
    expect(install()).toEqual({ code, said: expect.stringContaining(says) });
    if (code === 0) return;
    expect([hasRun(executable), existsSync(stage)]).toEqual([false, false]);
    // The admin may decide otherwise.
    expect(install("--no-signature")).toEqual({ code: 0, said: expect.stringContaining("NOT verified") });
  });
});

describe.skipIf(!mayOpenInstallBox())("an upgrade without OpenSSL (needs root)", () => {
  let box: InstallBox;
  beforeAll(async () => {
    box = await openInstallBox();
    await box.must(
      "printf '#!/bin/sh\\nexit 127\\n' >/usr/local/sbin/openssl; chmod 755 /usr/local/sbin/openssl; mkdir -p /etc/shruti /usr/local/bin",
    );
    writeFileSync(join(box.folder, "key.pem"), signer.pem);
    await box.must(`cp ${box.folder}/key.pem /etc/shruti/release.pem`);
  }, 60_000);
  afterAll(() => box?.remove());

  test.each([
    ["says yes", 0, "root:root", "755", "the installed /usr/local/bin/shruti has verified it"],
    ["says no", 1, "root:root", "755", "does not fit the key"],
    ["is too old to know", 2, "root:root", "755", UNVERIFIED],
    ["belongs to another user", 0, "nobody", "755", UNVERIFIED],
    ["can be changed by others", 0, "root:root", "777", UNVERIFIED],
  ])("the installed executable %s", async (name, verdict, owner, mode, says) => {
    const executable = release(`upgrade ${name}`.replaceAll(" ", "-"), {});
    const installed = "/usr/local/bin/shruti";
    const text = `#!/bin/sh\\n[ "$1" = verify ] && exit ${verdict}\\necho shruti 1\\n`;
    await box.must(`printf '${text}' >${installed}; chown ${owner} ${installed}; chmod ${mode} ${installed}`);
    const { code, out, err } = await box.run(`sh ${SCRIPT} --dry-run ${executable}`);
    expect(out + err).toContain(says);
    // Only what was judged to be the release may run.
    expect([hasRun(executable), code === 4]).toEqual(
      says.includes("has verified") ? [true, false] : [false, true],
    );
  });
});
