import { afterAll, beforeAll, expect, test } from "bun:test";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { CARRIED_FILES } from "../../services/models/carried-models.ts";
import { databasePath, openDatabase } from "../../store/database.ts";
import { runCaptured } from "../../testing/kits/run-cli.ts";

const folder = mkdtempSync(join(tmpdir(), "shruti-cli-models-"));
const environment = { SHRUTI_CONFIG: join(folder, "shruti.toml"), SHRUTI_LOG_LEVEL: "silent" };
const weights = join(folder, "ggml-Small.bin");

beforeAll(() => {
  const dataDir = join(folder, "data");
  mkdirSync(dataDir);
  writeFileSync(environment.SHRUTI_CONFIG, `[storage]\ndata_dir = ${JSON.stringify(dataDir)}\n`);
  openDatabase(databasePath(dataDir)).close();
  copyFileSync(join(import.meta.dirname, "../../../models/demo.bin"), weights);
});
afterAll(() => rmSync(folder, { recursive: true }));

/** Whisper base, where the build could get its weights. */
const CARRIED_DEFAULT = CARRIED_FILES[0]?.name;

const run = (...argv: string[]) => runCaptured(["models", ...argv], environment);

test("a model is listed, added, verified, made the default, and removed", async () => {
  const listed = (await run("list")).out;
  expect(listed).toMatch(/^ +ID .*\n/);
  expect(listed).toContain(`\n*  ${CARRIED_DEFAULT} `);
  expect(listed).toMatch(/\n.. demo .*not for real use/);

  const added = await run(
    ...["add", weights, "--name", "Small one", "--model-version", "7", "--language", "hi:native+codemix"],
    ...["--language", "or=hi", "--licence", "MIT", "--json"],
  );
  expect(added.status).toBe(0);
  expect(added.err).toMatch(
    /^found a ggml file: .*\ntrying the model .*\nLANGUAGE .*\nhi +understood .*\ntrial: not tried.*: or\ntrial: .* on cpu\n$/,
  );
  expect(JSON.parse(added.out)).toMatchObject({
    id: "small",
    object: "model",
    name: "Small one",
    version: "7",
    default: true,
    licence: "MIT",
    embedded: false,
    languages: [
      { code: "hi", name: "Hindi", modes: ["native", "codemix"] },
      { code: "or", name: "Odia", modes: ["native", "codemix", "verbatim"] },
    ],
    capabilities: { "mode.codemix": "available", "language.auto": "coming_soon" },
  });
  expect((await run("add", weights)).status).toBe(5);
  expect((await run("add", weights, "--id", "second", "--default")).out).toBe("second\n");
  expect((await run("default")).out).toBe("second\n");
  expect((await run("default", "small")).out).toBe("small\n");
  expect((await run("default", "third")).status).toBe(4);
  expect((await run("verify")).out).toBe(
    "small: unchanged\nsecond: unchanged\nsegmentation of the executable: unchanged\nspeaker of the executable: unchanged\n",
  );

  const second = JSON.parse((await run("show", "second", "--json")).out);
  expect((await run("show", "second")).out).toContain(second.sha256);
  truncateSync(second.path, 1000);
  const broken = await run("verify", "second");
  expect(broken.status).toBe(1);
  expect(broken.out).toContain("SHA-256");
  const removed = await run("remove", "second");
  expect(removed).toEqual({
    status: 0,
    out: "",
    err: "Model second was removed.\nRequests that name no model use small (trial at installation: understood: hi; not tried: or).\n",
  });
  expect(existsSync(second.path)).toBe(false);
  expect((await run("remove", "second")).status).toBe(4);
}, 120_000);

test("a default model cannot be removed while others are installed and none of them is chosen; after the last one, those inside the executable serve again", async () => {
  await run("add", weights, "--id", "third");
  const refused = await run("remove", "small");
  expect(refused.status).toBe(5);
  expect(refused.err).toContain("small is the default; choose another first: shruti models default ID");
  expect((await run("default")).out).toBe("small\n");
  expect(JSON.parse((await run("default", "third", "--json")).out)).toEqual({ default: "third" });
  expect((await run("remove", "small")).err).toContain("Requests that name no model use third (trial at");
  expect((await run("remove", "third")).err).toContain(
    `Requests that name no model use ${CARRIED_DEFAULT} (`,
  );
  expect((await run("default")).out).toBe(`${CARRIED_DEFAULT}\n`);
  expect((await run("default", "demo")).out).toBe("demo\n");
  expect((await run("default")).out).toBe("demo\n");
}, 120_000);

test("files that cannot be used are refused with a reason", async () => {
  const rubbish = join(folder, "rubbish.bin");
  writeFileSync(rubbish, "no model");
  const refused = await run("add", rubbish);
  expect(refused.status).toBe(2);
  expect(refused.err).toContain("not a whisper model");
  expect(await run("add", join(folder, "missing.bin"))).toMatchObject({
    status: 4,
    err: expect.stringContaining("there is no file"),
  });
  expect((await run("add", weights, "--id", "x", "--language", "hi:loud")).status).toBe(2);
  expect((await run("show", "nothing")).status).toBe(4);
});
