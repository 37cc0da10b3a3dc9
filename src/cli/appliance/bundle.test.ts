import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import {
  appendFileSync,
  chmodSync,
  chownSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { create } from "tar";
import { FOLDER } from "../../services/bundles/bundle-format.ts";
import { databasePath, openDatabase } from "../../store/database.ts";
import { runCaptured } from "../../testing/kits/run-cli.ts";

const root = mkdtempSync(join(tmpdir(), "shruti-bundle-test-"));
const at = (...names: string[]) => join(root, ...names);
const bundle = at("carry.tar");
const key = at("key.pem");

function open(name: string) {
  const dataDir = at(name);
  mkdirSync(dataDir);
  openDatabase(databasePath(dataDir)).close();
  const environment = { SHRUTI_STORAGE_DATA_DIR: dataDir, SHRUTI_LOG_LEVEL: "silent" };
  return {
    models: join(dataDir, "models"),
    run: (...argv: string[]) => runCaptured(argv, environment),
  };
}

let sender: ReturnType<typeof open>;
beforeAll(async () => {
  sender = open("sender");
  const demo = join(import.meta.dir, "../../../models/demo.bin");
  for (const id of ["one", "two"]) {
    const added = await sender.run(
      "models",
      "add",
      demo,
      "--id",
      id,
      "--licence",
      `Licence of ${id}`,
      "--no-trial",
    );
    expect(added.status).toBe(0);
  }
  mkdirSync(at("sender", "backends"));
  writeFileSync(at("sender", "backends", "libggml-vulkan.so"), "a backend");
  expect((await sender.run("bundle", "keygen", key)).status).toBe(0);
  const options = ["--models", "one,two", "--backends", "--key", key];
  expect((await sender.run("bundle", "create", bundle, ...options)).err).toBe("");
}, 60_000);
afterAll(() => rmSync(root, { recursive: true }));

test("a key is made once, the private one readable by its owner alone", async () => {
  expect(statSync(key).mode & 0o777).toBe(0o600);
  expect(readFileSync(`${key}.pub`, "utf8")).toStartWith("-----BEGIN PUBLIC KEY-----");
  expect((await sender.run("bundle", "keygen", key)).status).toBe(5);
  expect((await sender.run("bundle", "verify", bundle, "--key", key)).err).toContain("it is a private key");
});

test("a bundle is verified, and opens with tar and sha256sum", async () => {
  const verified = await sender.run("bundle", "verify", bundle, "--key", `${key}.pub`, "--json");
  expect(verified.status).toBe(0);
  expect(JSON.parse(verified.out)).toMatchObject({
    contents: {
      format: 1,
      models: [
        { id: "one", files: ["models/one.toml", "models/one.bin"] },
        { id: "two", files: ["models/two.toml", "models/two.bin"] },
      ],
      executable: false,
      backends: ["libggml-vulkan.so"],
    },
  });
  mkdirSync(at("opened"));
  expect(Bun.spawnSync(["tar", "-xf", bundle, "-C", at("opened")]).exitCode).toBe(0);
  const folder = at("opened", FOLDER);
  expect(Bun.spawnSync(["sha256sum", "--quiet", "-c", "SHA256SUMS"], { cwd: folder }).exitCode).toBe(0);
  expect(readFileSync(join(folder, "LICENCES.txt"), "utf8")).toContain("Licence of two");
  expect(readdirSync(join(folder, "models")).sort()).toEqual(["one.bin", "one.toml", "two.bin", "two.toml"]);
  expect((await sender.run("bundle", "create", bundle, "--models", "one", "--key", key)).status).toBe(5);
  expect((await sender.run("bundle", "create", at("x.tar"), "--models", "none", "--key", key)).status).toBe(
    4,
  );
  expect((await sender.run("bundle", "create", at("x.tar"), "--key", key)).status).toBe(2);
  expect((await sender.run("bundle", "create", at("x.tar"), "--executable", "--key", key)).status).toBe(2);
  expect(existsSync(at("x.tar"))).toBe(false);
});

test("a bundle is installed on another machine, where a second time changes nothing", async () => {
  const receiver = open("receiver");
  const install = () => receiver.run("bundle", "install", bundle, "--key", `${key}.pub`);
  const installed = await install();
  expect({ status: installed.status, out: installed.out }).toEqual({ status: 0, out: "one\ntwo\n" });
  expect(installed.err).toContain("trial: ");
  expect(readdirSync(receiver.models).sort()).toEqual(["one.bin", "one.toml", "two.bin", "two.toml"]);
  expect(readFileSync(at("receiver", "backends", "libggml-vulkan.so"), "utf8")).toBe("a backend");
  expect((await receiver.run("models", "verify")).out).toBe(
    "one: unchanged\ntwo: unchanged\nsegmentation of the executable: unchanged\nspeaker of the executable: unchanged\n",
  );
  expect((await receiver.run("models", "default")).out).toBe("one\n");
  const again = await install();
  expect({ status: again.status, out: again.out }).toEqual({ status: 0, out: "" });
  expect(again.err).toContain("two: the same model is installed already");
}, 120_000);

test.if(process.geteuid?.() === 0)(
  "what root installs belongs to the owner of the data directory (needs root)",
  async () => {
    const receiver = open("owned");
    const owner = 12_345;
    // Its owner can reach it and read what is there, or no server could use it.
    for (const name of ["", ...readdirSync(at("owned"))]) chownSync(at("owned", name), owner, owner);
    chmodSync(at(""), 0o755);
    const installed = await receiver.run("bundle", "install", bundle, "--key", `${key}.pub`, "--no-trial");
    expect(installed.status).toBe(0);
    const paths = readdirSync(at("owned"), { recursive: true, encoding: "utf8" });
    const placed = paths.filter((name) => /^(models|backends)/.test(name));
    expect(placed.length).toBe(7);
    expect(placed.filter((name) => statSync(at("owned", name)).uid !== owner)).toEqual([]);
  },
  30_000,
);

test("a bundle whose model has an id of another one installs nothing", async () => {
  const receiver = open("occupied");
  const other = at("other.bin");
  copyFileSync(join(import.meta.dir, "../../../models/demo.bin"), other);
  // Another weight: the file stays a model.
  const bytes = readFileSync(other);
  bytes[bytes.length - 3] = (bytes[bytes.length - 3] ?? 0) ^ 1;
  writeFileSync(other, bytes);
  expect((await receiver.run("models", "add", other, "--id", "two", "--no-trial")).status).toBe(0);
  const refused = await receiver.run("bundle", "install", bundle, "--key", `${key}.pub`, "--no-trial");
  expect(refused.status).toBe(5);
  expect(refused.err).toContain("there is another model two already");
  expect(readdirSync(receiver.models).sort()).toEqual(["two.bin", "two.toml"]);
  expect(existsSync(at("occupied", "backends"))).toBe(false);
}, 60_000);

/** Packs the opened bundle again after a change. */
async function repack(name: string, change: (folder: string) => void): Promise<string> {
  const folder = at(name);
  mkdirSync(folder);
  Bun.spawnSync(["cp", "-a", at("opened", FOLDER), folder]);
  change(join(folder, FOLDER));
  const file = at(`${name}.tar`);
  await create({ file, cwd: folder, portable: true }, [FOLDER]);
  return file;
}

describe("nothing of a bundle is installed", () => {
  const CASES: [string, (folder: string) => void, string][] = [
    [
      "with a changed file",
      (folder) => appendFileSync(join(folder, "models/one.bin"), "x"),
      "models/one.bin is not the file that was signed",
    ],
    [
      "with a changed manifest",
      (folder) => appendFileSync(join(folder, "models/one.toml"), "\n"),
      "models/one.toml is not the file",
    ],
    [
      "with a changed description",
      (folder) => appendFileSync(join(folder, "bundle.json"), " "),
      "bundle.json is not the file",
    ],
    [
      "with a file more",
      (folder) => writeFileSync(join(folder, "backends/libggml-evil.so"), "x"),
      "libggml-evil.so is not in the signed list",
    ],
    ["with a file less", (folder) => rmSync(join(folder, "models/two.bin")), "models/two.bin is missing"],
    [
      "with a changed list",
      (folder) => {
        const list = join(folder, "SHA256SUMS");
        writeFileSync(
          list,
          readFileSync(list, "utf8").replace(/^./, (digit) => (digit === "0" ? "1" : "0")),
        );
      },
      "it was changed, or not signed with this key",
    ],
    ["without a signature", (folder) => rmSync(join(folder, "SHA256SUMS.sig")), "it is not a bundle"],
    [
      "with a link",
      (folder) => {
        rmSync(join(folder, "models/one.bin"));
        symlinkSync("/etc/passwd", join(folder, "models/one.bin"));
      },
      "is not a regular file",
    ],
  ];
  test.each(CASES)(
    "%s",
    async (name, change, message) => {
      const changed = await repack(name.replaceAll(" ", "-"), change);
      const receiver = open(`receiver ${name}`);
      for (const command of ["verify", "install"]) {
        const refused = await receiver.run("bundle", command, changed, "--key", `${key}.pub`);
        expect(refused.status).toBe(1);
        expect(refused.err).toContain(message);
      }
      expect(existsSync(receiver.models)).toBe(false);
    },
    30_000,
  );

  test("with a name that leaves its folder, cut, signed with another key, or of another kind", async () => {
    const receiver = open("receiver of others");
    const refusal = async (file: string, signer = `${key}.pub`) => {
      const refused = await receiver.run("bundle", "install", file, "--key", signer);
      expect(refused.status).not.toBe(0);
      expect(existsSync(receiver.models)).toBe(false);
      return refused.err;
    };
    const outside = at("outside.tar");
    copyFileSync(bundle, outside);
    expect(Bun.spawnSync(["tar", "-rPf", outside, "--transform", "s,.*,../../evil,", key]).exitCode).toBe(0);
    expect(await refusal(outside)).toContain("is outside of the folder");
    const cut = at("cut.tar");
    copyFileSync(bundle, cut);
    truncateSync(cut, 5_000_000);
    expect(await refusal(cut)).toMatch(/damaged|is missing|not the file/);
    expect((await receiver.run("bundle", "keygen", at("stranger"))).status).toBe(0);
    expect(await refusal(bundle, at("stranger.pub"))).toContain("not signed with this key");
    expect(await refusal(key)).toMatch(/not a bundle|damaged/);
    expect(await refusal(at("missing.tar"))).toContain("ENOENT");
    expect(await refusal(bundle, at("missing.pem"))).toContain("--key");
    expect(existsSync(at("evil"))).toBe(false);
  }, 60_000);
});
