import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import {
  chmodSync,
  chownSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  realpathSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { upToDateBinary } from "./binary.ts";
import { samplePath } from "./samples.ts";

/**
 * Commands in a folder that a customer has sent: recordings, and whatever else was packed with them. Nothing there chooses
 * a program.
 */

const isRoot = process.getuid?.() === 0;
const home = realpathSync(mkdtempSync(join(tmpdir(), "shruti-customer-")));
const folder = join(home, "calls");
/** A program of the customer leaves this file. */
const trace = join(home, "has-run");
const at = (name: string) => join(folder, name);
let program: string;

beforeAll(async () => {
  program = await upToDateBinary();
}, 120_000);
afterAll(() => rmSync(home, { recursive: true }));
beforeEach(() => {
  rmSync(folder, { recursive: true, force: true });
  rmSync(trace, { force: true });
  mkdirSync(folder);
  copyFileSync(samplePath("01-en"), at("-a.wav"));
  writeFileSync(at("decode"), `touch ${trace}\n`, { mode: 0o700 });
  writeFileSync(at("evil"), `#!/bin/sh\ntouch ${trace}\n`, { mode: 0o700 });
});

function run(...args: string[]) {
  const { stdout, stderr, exitCode } = Bun.spawnSync([program, ...args], {
    ...{ cwd: folder, stdin: "ignore", stdout: "pipe", stderr: "pipe" },
    env: {
      HOME: home,
      PATH: `.:${process.env.PATH}`,
      SHRUTI_STORAGE_RESERVE_BYTES: "0",
      SHRUTI_MODELS_DEFAULT: "demo",
    },
  });
  return { status: exitCode, out: stdout.toString(), err: stderr.toString() };
}
const transcribe = (...options: string[]) =>
  run("transcribe", "--language", "en", ...options, "--", "-a.wav");
const SAID = "eighty three thousand two hundred\n";

function config(text: string): void {
  writeFileSync(at("shruti.toml"), text, { mode: 0o600 });
}

/** Makes a data directory as the customer would: with a database, and native files that this program has copied out. */
function prepared(): string {
  expect(run("init").status).toBe(0);
  expect(transcribe("--config", "./shruti.toml")).toMatchObject({ status: 0, out: SAID });
  const native = at("shruti-data/native");
  return join(native, readdirSync(native)[0] ?? "");
}

/** Puts a program of the customer in the place of the decoder, with the same size and mode. */
function exchangeDecoder(native: string): void {
  const decoder = join(native, "decoder");
  const text = `#!/bin/sh\ntouch ${trace}\n`;
  writeFileSync(decoder, text.padEnd(statSync(decoder).size, "\n"), { mode: 0o700 });
}

describe("a config file that only lies in the folder", () => {
  for (const [setting, text] of [
    ["engine.decoder", '[engine]\ndecoder = "/bin/sh"\n[storage]\ndata_dir = "./.cache"\n'],
    ["models.dir", '[models]\ndir = "./models"\n'],
  ] as const) {
    test(`may not set ${setting} for transcribe and benchmark`, () => {
      config(text);
      writeFileSync(at("-a.txt"), SAID);
      for (const outcome of [transcribe(), run("benchmark", "--language", "en", ".")]) {
        expect(outcome).toMatchObject({ status: 2, out: "" });
        expect(outcome.err).toContain(`${setting} counts here only in a config file that is named`);
        expect(outcome.err).toContain("--config ./shruti.toml");
      }
      expect(existsSync(trace)).toBe(false);
    });
  }

  test("may set it when it is named, which shows that the test's program would run", () => {
    config('[engine]\ndecoder = "/bin/sh"\n[storage]\ndata_dir = "./.cache"\n');
    // Even then the decoder does not start in this folder, where it would find a script with the name of its verb.
    expect(transcribe("--config", "./shruti.toml").status).toBe(1);
    expect(existsSync(trace)).toBe(false);
    config(`[engine]\ndecoder = "${at("evil")}"\n[storage]\ndata_dir = "./.cache"\n`);
    expect(transcribe("--config", "./shruti.toml").status).toBe(1);
    expect(existsSync(trace)).toBe(true);
  });

  test("names its data directory, whose native files count only as the executable carries them", () => {
    const native = prepared();
    const before = transcribe();
    expect(before).toMatchObject({ status: 0, out: SAID });
    expect(before.err).toContain(`config: ${at("shruti.toml")}, found in this folder`);
    const inode = statSync(native).ino;
    exchangeDecoder(native);
    expect(transcribe()).toMatchObject({ status: 0, out: SAID });
    expect(statSync(native).ino).not.toBe(inode);
    exchangeDecoder(native);
    rmSync(at("shruti.toml"));
    // The default data directory is in this folder, too.
    expect(transcribe()).toMatchObject({ status: 0, out: SAID });
    writeFileSync(join(native, "libggml-cpu-evil.so"), "");
    expect(transcribe()).toMatchObject({ status: 0, out: SAID });
    expect(readdirSync(native)).not.toContain("libggml-cpu-evil.so");
    mkdirSync(at("shruti-data/backends"));
    writeFileSync(at("shruti-data/backends/libggml-cuda.so"), "");
    expect(transcribe()).toMatchObject({
      status: 0,
      out: SAID,
      err: expect.stringMatching(/backends is not used/),
    });
    expect(existsSync(trace)).toBe(false);
  }, 60_000);

  test("is named on standard error by an admin's commands, whose output stays as it was", () => {
    expect(run("init").status).toBe(0);
    const listed = run("orgs", "list", "--json");
    expect(JSON.parse(listed.out)).toHaveLength(1);
    expect(listed.err).toBe(`config: ${at("shruti.toml")}, found in this folder\n`);
    expect(run("orgs", "list", "--config", "./shruti.toml").err).toBe("");
  });

  const foreign: [what: string, make: () => void][] = [
    ["is a link", () => symlinkSync(at("other.toml"), at("shruti.toml"))],
    ["can be written by other users", () => chmodSync(at("shruti.toml"), 0o666)],
    ...(isRoot
      ? [
          ["belongs to user 65534", () => chownSync(at("shruti.toml"), 65_534, 65_534)] as [
            string,
            () => void,
          ],
        ]
      : []),
  ];
  for (const [what, make] of foreign) {
    test(`is not used when it ${what}`, () => {
      const quiet = '[log]\nlevel = "silent"\n';
      writeFileSync(at("other.toml"), quiet);
      if (what !== "is a link") config(quiet);
      make();
      const { err, out } = run("config", "show", "--json");
      expect(err).toContain(`./shruti.toml ${what}`);
      expect(err).toContain("so it is not used; --config ./shruti.toml would use it.");
      expect(JSON.parse(out).log.level).toBe("info");
      const checked = JSON.parse(run("config", "check", "--json").out);
      expect(checked.warnings).toEqual([expect.stringContaining(`./shruti.toml ${what}`)]);
    });
  }

  test("that is not used is named by doctor", () => {
    config("");
    chmodSync(at("shruti.toml"), 0o666);
    const { err, out } = run("doctor");
    expect(err).toStartWith("warning: ./shruti.toml can be written by other users, so it is not used");
    expect(out).toContain("config     none found: defaults");
  }, 60_000);
});

test("what programs of this kind read in their folder is not read", () => {
  writeFileSync(at(".env"), "SHRUTI_ENGINE_DECODER=/bin/sh\nBUN_OPTIONS=--preload=./evil.ts\n");
  writeFileSync(at("bunfig.toml"), 'preload = ["./evil.ts"]\n');
  writeFileSync(at("tsconfig.json"), '{ "compilerOptions": { "paths": { "*": ["./evil.ts"] } } }\n');
  writeFileSync(at("package.json"), '{ "imports": { "#native-parts": "./evil.ts" } }\n');
  mkdirSync(at("node_modules"));
  for (const name of ["commander", "elysia", "pino"]) {
    mkdirSync(at(`node_modules/${name}`));
    writeFileSync(at(`node_modules/${name}/index.js`), `require("fs").writeFileSync("${trace}", "");\n`);
  }
  writeFileSync(at("evil.ts"), `require("fs").writeFileSync("${trace}", "");\n`);
  expect(transcribe()).toMatchObject({ status: 0, out: SAID });
  expect(existsSync(trace)).toBe(false);
});
