import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { generateKeyPairSync } from "node:crypto";
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { Spec, Validation } from "@cyclonedx/cyclonedx-library";
import packageJson from "../../package.json" with { type: "json" };
import { RELEASE_BUILD_LIMIT_MS } from "./binary.ts";

/** Makes a signed release with what the cache of native parts has, and examines it as a customer would. */

const ROOT = resolve(import.meta.dir, "../..");
const folder = mkdtempSync(join(tmpdir(), "shruti-release-"));
afterAll(() => rmSync(folder, { recursive: true }));
const OUTPUT = join(folder, "release");
const NAME = `shruti-${packageJson.version}`;
const TARBALL = join(OUTPUT, `${NAME}-linux-x64.tar.gz`);
const UNPACKED = join(folder, `${NAME}-linux-x64`);
const SHRUTI = join(UNPACKED, "shruti");
const PUBLIC = join(folder, "public.pem");

/** The settings of the test's own run are not those of the program: it would refuse variables that it does not know. */
const withoutSettings = () =>
  Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("SHRUTI_")));

async function run(cwd: string, ...command: string[]): Promise<{ code: number; out: string; err: string }> {
  const env = command[0] === SHRUTI ? withoutSettings() : process.env;
  const child = Bun.spawn(command, { cwd, env, stdin: "ignore", stdout: "pipe", stderr: "pipe" });
  const [out, err] = await Promise.all([child.stdout.text(), child.stderr.text()]);
  return { code: await child.exited, out, err };
}

async function succeed(cwd: string, ...command: string[]): Promise<string> {
  const { code, out, err } = await run(cwd, ...command);
  expect({ command, code, err: code === 0 ? "" : err + out }).toEqual({ command, code: 0, err: "" });
  return out;
}

/** `host`: with this machine's compiler, where the parts of a release are not in the cache and there is no time. */
const ON_HOST = process.env.SHRUTI_TEST_RELEASE === "host";

let said = "";

beforeAll(async () => {
  const { privateKey, publicKey } = generateKeyPairSync("ed25519");
  const key = join(folder, "private.pem");
  writeFileSync(key, privateKey.export({ type: "pkcs8", format: "pem" }), { mode: 0o600 });
  writeFileSync(PUBLIC, publicKey.export({ type: "spki", format: "pem" }));
  const release = [
    process.execPath,
    "scripts/release.ts",
    "--sign-key",
    key,
    "--output",
    OUTPUT,
    ...(ON_HOST ? ["--host"] : []),
  ];
  said = await succeed(ROOT, ...release);
  await succeed(folder, "tar", "-xzf", TARBALL);
}, RELEASE_BUILD_LIMIT_MS);

describe("a release", () => {
  test("consists of the tarballs and a signed list of them", async () => {
    expect(readdirSync(OUTPUT).sort()).toEqual([
      "SHA256SUMS",
      "SHA256SUMS.csr",
      "SHA256SUMS.sig",
      `${NAME}-ffmpeg-source.tar.gz`,
      `${NAME}-linux-x64.tar.gz`,
      `shruti-client-${packageJson.version}.tgz`,
      `shruti_client-${packageJson.version}-py3-none-any.whl`,
    ]);
    await succeed(OUTPUT, "sha256sum", "-c", "--strict", "SHA256SUMS");
    expect(said).toContain("signed with the key");
    expect(said).toContain("no licence has been chosen");
  });

  test("contains what a customer needs, with modes for everybody", () => {
    expect(readdirSync(UNPACKED).sort()).toEqual(
      [
        ...[
          "LICENCES.txt",
          `${"OVERVIEW"}.md`,
          "README.md",
          "SHA256SUMS",
          "SHA256SUMS.csr",
          "SHA256SUMS.sig",
          "docs",
          "install.sh",
          "models",
          "ops",
          "sbom.cdx.json",
        ],
        ...["shruti", "shruti.example.toml", "shruti.service"],
      ].sort(),
    );
    for (const name of ["shruti", "install.sh"])
      expect(statSync(join(UNPACKED, name)).mode & 0o777).toBe(0o755);
    expect(statSync(join(UNPACKED, "sbom.cdx.json")).mode & 0o777).toBe(0o644);
    for (const path of ["docs/manual/troubleshooting.md", "docs/images", "docs/clients", "ops"])
      expect(existsSync(join(UNPACKED, path))).toBe(true);
  });

  test("has a first page for those who receive it, and all links of its documents lead to something", async () => {
    const first = await Bun.file(join(UNPACKED, "README.md")).text();
    expect(first).toMatch(/SHA256SUMS\.sig(.|\n)*install\.sh(.|\n)*first transcript/);
    expect(first).not.toContain("quickstart.sh");
    const pages = readdirSync(UNPACKED, { recursive: true, encoding: "utf8" }).filter((name) =>
      name.endsWith(".md"),
    );
    expect(pages.length).toBeGreaterThan(15);
    const dead: string[] = [];
    for (const page of pages) {
      const text = await Bun.file(join(UNPACKED, page)).text();
      for (const [, target = ""] of text.matchAll(/\]\((?![a-z]+:)([^()\s#]+)/g))
        if (!existsSync(join(UNPACKED, dirname(page), target))) dead.push(`${page}: ${target}`);
    }
    expect(dead).toEqual([]);
  });

  test("is verified by openssl and by the program, and a changed one is refused", async () => {
    const openssl = ["openssl", "pkeyutl", "-verify", "-rawin", "-pubin", "-inkey", PUBLIC];
    const files = ["-in", "SHA256SUMS", "-sigfile", "SHA256SUMS.sig"];
    for (const at of [OUTPUT, UNPACKED]) {
      await succeed(at, ...openssl, ...files);
      expect(await succeed(at, SHRUTI, "verify", "SHA256SUMS", "--key", PUBLIC)).toContain(
        "are as they were signed",
      );
    }
    // What OpenSSL 1.1.1 can do, too.
    for (const at of [OUTPUT, UNPACKED]) {
      const request = ["openssl", "req", "-in", "SHA256SUMS.csr", "-noout"];
      expect((await run(at, ...request, "-verify")).err).toContain("verify OK");
      expect(await succeed(at, ...request, "-pubkey")).toBe(await Bun.file(PUBLIC).text());
      const [sum = ""] = (await succeed(at, "sha256sum", "SHA256SUMS")).split(" ");
      expect(await succeed(at, ...request, "-subject")).toContain(sum);
    }
    await succeed(UNPACKED, "sha256sum", "-c", "--strict", "--quiet", "SHA256SUMS");
    expect(await succeed(OUTPUT, SHRUTI, "verify", TARBALL, "--key", PUBLIC)).toContain("beside it");
    const alone = join(folder, "alone");
    mkdirSync(alone);
    const copy = join(alone, "release.tar.gz");
    await Bun.write(copy, Bun.file(TARBALL));
    expect(await succeed(alone, SHRUTI, "verify", copy, "--key", PUBLIC)).toContain("inside it");
    appendFileSync(join(UNPACKED, "README.md"), "\n");
    expect((await run(UNPACKED, SHRUTI, "verify", "SHA256SUMS", "--key", PUBLIC)).code).toBe(1);
  }, 60_000);

  test("has a valid bill of materials, which agrees with the executable", async () => {
    const sbom = await Bun.file(join(UNPACKED, "sbom.cdx.json")).text();
    expect(await new Validation.JsonStrictValidator(Spec.Version.v1dot6).validate(sbom)).toBeNull();
    const { components, metadata } = JSON.parse(sbom) as {
      components: { name: string }[];
      metadata: { component: { hashes: { content: string }[] } };
    };
    const { parts } = JSON.parse(await succeed(folder, SHRUTI, "licenses", "--json")) as {
      parts: { name: string; texts: string[] }[];
    };
    expect(parts.length).toBeGreaterThan(100);
    expect(components.map(({ name }) => name).sort()).toEqual(parts.map(({ name }) => name).sort());
    expect(parts.filter(({ texts }) => texts.length === 0 || texts.includes(""))).toEqual([]);
    const sum = await succeed(folder, "sha256sum", SHRUTI);
    expect(metadata.component.hashes[0]?.content).toBe(sum.slice(0, 64));
  });

  test("has an executable that is undamaged, knows its commit, and shows nothing of the machine that built it", async () => {
    await succeed(folder, SHRUTI, "doctor", "--self");
    const facts = JSON.parse(await succeed(folder, SHRUTI, "version", "--json"));
    const commit = (await run(ROOT, "git", "rev-parse", "HEAD")).out.trim();
    expect(facts).toMatchObject({
      version: packageJson.version,
      platform: "linux-x64",
      commit: commit || null,
    });
    // Without this, another folder would give other bytes.
    const found = await run(folder, "grep", "-c", "--text", "--fixed-strings", ROOT, SHRUTI);
    expect(found.out.trim()).toBe("0");
  }, 60_000);

  test("has the executable that the same commit gives a second time", async () => {
    const target = ON_HOST ? [] : ["--target", "linux-x64"];
    const again = join(ROOT, `dist/again-${process.pid}`);
    try {
      await succeed(ROOT, process.execPath, "scripts/build.ts", ...target, "--output", again);
      const [first, second] = (await succeed(folder, "sha256sum", SHRUTI, again)).split("\n");
      expect(second?.slice(0, 64)).toBe(first?.slice(0, 64));
    } finally {
      rmSync(again, { force: true });
    }
  }, 600_000);

  test("has an example config and a unit that can be used", async () => {
    await succeed(UNPACKED, SHRUTI, "config", "check", "--config", "shruti.example.toml");
    expect(await Bun.file(join(UNPACKED, "shruti.service")).text()).toContain("\n[Service]\n");
    expect(await succeed(folder, SHRUTI, "licenses")).toContain("no licence has been chosen yet");
    expect(await succeed(folder, SHRUTI, "licenses", "FFmpeg")).toContain(
      "GNU LESSER GENERAL PUBLIC LICENSE",
    );
    expect((await run(folder, SHRUTI, "licenses", "nothing")).code).toBe(4);
  });

  test("has the source of FFmpeg and of the decoder, with a recipe", async () => {
    await succeed(folder, "tar", "-xzf", join(OUTPUT, `${NAME}-ffmpeg-source.tar.gz`));
    const source = join(folder, `${NAME}-ffmpeg-source`);
    const sources = readdirSync(source);
    expect(sources).toContain("ffmpeg-9.0.tar.xz");
    expect(sources).toContain("COPYING.LGPLv2.1");
    expect(readdirSync(join(source, "decoder"))).toContain("main.c");
    await succeed(source, "sh", "-n", "build-decoder.sh");
    const recipe = await Bun.file(join(source, "build-decoder.sh")).text();
    expect(recipe).toContain("--disable-network");
  });
});

test.each([
  ["an unknown platform", ["--platform", "windows"], "there is no platform windows"],
  ["an unknown backend", ["--backend", "cuda"], "there is no backend cuda of a release"],
  ["a backend for this machine alone", ["--host", "--backend", "vulkan"], "--backend belongs to a release"],
  ["an unknown kind of package", ["--package", "apk"], "apk is not a kind of package"],
  ["a maintainer without address", ["--maintainer", "Asha"], "Asha is not NAME <ADDRESS>"],
  ["an unknown option", ["--fast"], "--fast"],
])("%s is refused", async (_what, options, message) => {
  const { code, err } = await run(ROOT, process.execPath, "scripts/release.ts", ...options);
  expect({ code, err }).toEqual({ code: 2, err: expect.stringContaining(message) });
});
