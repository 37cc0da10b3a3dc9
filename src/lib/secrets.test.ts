import { expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { ID_PREFIXES } from "./ids.ts";
import { cutSecrets, cutSecretsInPath, newSecret, type SecretKind, startOf } from "./secrets.ts";

const SRC = join(import.meta.dir, "..");

/** All kinds: the compiler refuses a list that lacks one. */
const KINDS: Record<SecretKind, true> = {
  ...{ apiKey: true, uploadToken: true, webhookSecret: true, consoleSecret: true, audioLink: true },
};

test("every secret that is made is cut in texts and in paths, and identifiers are not", () => {
  for (const kind of Object.keys(KINDS) as SecretKind[]) {
    for (const encoding of ["base64url", "base64"] as const) {
      const secret = newSecret(kind, encoding);
      expect(cutSecrets(`before ${secret} behind`)).toBe(`before ${startOf(kind)}… behind`);
      expect(cutSecretsInPath(`/v1/${secret.replaceAll("/", "-")}/x`)).toBe(`/v1/${startOf(kind)}…/x`);
    }
  }
  for (const prefix of Object.values(ID_PREFIXES)) {
    const id = `${prefix}_01M80JJSCXSJ4BKRKKHXDY3HKQ`;
    expect([cutSecrets(id), cutSecretsInPath(`/v1/${id}`)]).toEqual([id, `/v1/${id}`]);
  }
});

/**
 * A prefix and an underscore before a value is how identifiers and secrets are written. Only `ids.ts` and `secrets.ts`
 * may write them, so that log and audit know each prefix.
 */
test("nothing else puts a prefix before random characters", () => {
  const files = readdirSync(SRC, { recursive: true, encoding: "utf8" }).filter(
    (name) => /\.tsx?$/.test(name) && !/\.test\.ts$|^testing\/|^e2e\//.test(name),
  );
  const found = files.flatMap((name) =>
    readFileSync(join(SRC, name), "utf8")
      .split("\n")
      .filter((line) => /[`"'][a-z]{2,8}_(\$\{|["'] *\+).*(random|secret|sign|key|token|base64)/i.test(line))
      .map((line) => `${name}: ${line.trim()}`),
  );
  expect(found).toEqual([]);
});
