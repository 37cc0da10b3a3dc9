import { afterAll, describe, expect, test } from "bun:test";
import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { loadConfig, readConfig } from "./load.ts";
import { MAX_SECRET_BYTES } from "./secret-files.ts";

const folder = mkdtempSync(join(tmpdir(), "shruti-secrets-"));
const credentials = join(folder, "credentials");
mkdirSync(credentials);
const config = join(folder, "shruti.toml");
writeFileSync(config, '[metrics]\ntoken = "of-the-file"\n');
afterAll(() => rmSync(folder, { recursive: true }));

function fileOf(name: string, content: string | Uint8Array): string {
  writeFileSync(join(folder, name), content);
  return join(folder, name);
}

const tokenWith = (environment: Record<string, string>) => loadConfig(config, environment).metrics.token;

describe("a secret from a file", () => {
  test("a variable counts before a credential, and a credential before the config file", () => {
    writeFileSync(join(credentials, "metrics.token"), "of-the-credential\n");
    const withCredential = { CREDENTIALS_DIRECTORY: credentials };
    const named = { ...withCredential, SHRUTI_METRICS_TOKEN_FILE: fileOf("named", "of-the-variable\r\n") };
    expect(tokenWith({})).toBe("of-the-file");
    expect(tokenWith(withCredential)).toBe("of-the-credential");
    expect(tokenWith({ ...withCredential, SHRUTI_METRICS_TOKEN: "given" })).toBe("given");
    expect(tokenWith(named)).toBe("of-the-variable");
  });

  test("a folder without that credential changes nothing", () => {
    const empty = join(folder, "empty");
    mkdirSync(empty);
    expect(tokenWith({ CREDENTIALS_DIRECTORY: empty })).toBe("of-the-file");
  });

  test("the file may be behind links, as in a volume of Kubernetes, and is read again each time", () => {
    mkdirSync(join(folder, "..data"));
    writeFileSync(join(folder, "..data/token"), "first");
    symlinkSync("..data/token", join(folder, "linked"));
    const environment = { SHRUTI_METRICS_TOKEN_FILE: join(folder, "linked") };
    expect(tokenWith(environment)).toBe("first");
    writeFileSync(join(folder, "..data/token"), "second");
    expect(tokenWith(environment)).toBe("second");
  });

  const secret = "s3cret";
  const wrong: [name: string, environment: Record<string, string>, sentence: string][] = [
    [
      "a missing file",
      { SHRUTI_METRICS_TOKEN_FILE: join(folder, "missing") },
      `SHRUTI_METRICS_TOKEN_FILE names ${join(folder, "missing")}, and that file does not exist`,
    ],
    ["an empty file", { SHRUTI_METRICS_TOKEN_FILE: fileOf("nothing", "\n") }, "and that file is empty"],
    [
      "a file that is too large",
      { SHRUTI_METRICS_TOKEN_FILE: fileOf("large", secret.repeat(MAX_SECRET_BYTES)) },
      `it is larger than ${MAX_SECRET_BYTES} bytes`,
    ],
    ["a folder", { SHRUTI_METRICS_TOKEN_FILE: folder }, "it is a directory, not a regular file"],
    [
      "bytes that are not text",
      { SHRUTI_METRICS_TOKEN_FILE: fileOf("bytes", new Uint8Array([0xff, 0xfe])) },
      "is not text in UTF-8",
    ],
    [
      "a value of a wrong form",
      { SHRUTI_METRICS_TOKEN_FILE: fileOf("form", `${secret} ${secret}`) },
      "has a wrong value: metrics.token does not match the required format",
    ],
    [
      "the secret itself in the place of a path",
      { SHRUTI_METRICS_TOKEN_FILE: secret },
      "SHRUTI_METRICS_TOKEN_FILE must be the absolute path of a file",
    ],
    [
      "the variable and its file",
      { SHRUTI_METRICS_TOKEN_FILE: fileOf("both", secret), SHRUTI_METRICS_TOKEN: secret },
      "SHRUTI_METRICS_TOKEN and SHRUTI_METRICS_TOKEN_FILE are both set",
    ],
  ];
  for (const [name, environment, sentence] of wrong) {
    test(`is refused without its content: ${name}`, () => {
      const { problems, knowsDataDir } = readConfig(config, {
        ...environment,
        SHRUTI_STORAGE_DATA_DIR: folder,
      });
      expect(problems).toHaveLength(1);
      expect(problems[0]?.where).toBe("environment");
      expect(problems[0]?.message).toContain(sentence);
      expect(problems[0]?.message).not.toContain(secret);
      // Commands of an emergency continue without the secret.
      expect(knowsDataDir).toBe(true);
    });
  }

  test("a credential that is empty is refused with its name", () => {
    writeFileSync(join(credentials, "metrics.token"), "");
    const { problems } = readConfig(config, { CREDENTIALS_DIRECTORY: credentials });
    expect(problems[0]?.message).toBe(
      `the credential metrics.token (${join(credentials, "metrics.token")}) is empty`,
    );
  });

  test.skipIf(process.geteuid?.() === 0)(
    "a file that this user may not read (needs a user other than root)",
    () => {
      const path = fileOf("denied", "x");
      chmodSync(path, 0);
      const { problems } = readConfig(config, { SHRUTI_METRICS_TOKEN_FILE: path });
      expect(problems[0]).toMatchObject({ isDenied: true });
      expect(problems[0]?.message).toContain("may not be read by this user (EACCES)");
    },
  );

  test("only secret settings have such a variable", () => {
    const { problems } = readConfig(config, { SHRUTI_SERVER_LISTEN_FILE: fileOf("listen", "x") });
    expect(problems[0]?.message).toBe(
      "SHRUTI_SERVER_LISTEN_FILE is not a setting; did you mean SHRUTI_SERVER_LISTEN?",
    );
  });
});
