import { expect, test } from "bun:test";
import { join } from "node:path";
import { signObject } from "./sign.ts";

const signing = {
  endpoint: "https://s3.example:9000",
  region: "ap-south-1",
  accessKey: "AKIA1",
  secretKey: "wJalrXUtnFEMI/K7",
};

/** Signs with Bun's client in a process of its own, whose environment has no session token. */
function byBun(key: string, method: string): URL {
  const { endpoint, region, accessKey: accessKeyId, secretKey: secretAccessKey } = signing;
  const options = JSON.stringify({ endpoint, region, accessKeyId, secretAccessKey, bucket: "calls" });
  const asked = JSON.stringify({ method, expiresIn: 300 });
  const code = `console.log(new Bun.S3Client(${options}).presign(${JSON.stringify(key)}, ${asked}))`;
  const { stdout } = Bun.spawnSync([process.execPath, "-e", code], { env: {} });
  return new URL(stdout.toString().trim());
}

test.each([
  ["2026/a.wav", "GET"],
  ["नमस्ते/a b+c&d=e?f#g%20'(*)!~.wav", "PUT"],
] as const)("the signature of %s is that of Bun's client", (key, method) => {
  const theirs = byBun(key, method);
  const date = theirs.searchParams.get("X-Amz-Date") ?? "";
  const nowMs = Date.parse(date.replace(/^(....)(..)(..)T(..)(..)(..)Z$/, "$1-$2-$3T$4:$5:$6Z"));
  const own = signObject(signing, { method, bucket: "calls", key, nowMs });
  expect(own.pathname).toBe(theirs.pathname);
  expect(Object.fromEntries(own.searchParams)).toEqual(Object.fromEntries(theirs.searchParams));
});

test("a session token in this server's environment is not sent", () => {
  const module = JSON.stringify(join(import.meta.dir, "sign.ts"));
  const asked = JSON.stringify({ method: "GET", bucket: "calls", key: "a.wav", nowMs: 0 });
  const code = `import { signObject } from ${module}; console.log(signObject(${JSON.stringify(signing)}, ${asked}).href)`;
  const env = { AWS_SESSION_TOKEN: "token1", S3_SESSION_TOKEN: "token2" };
  const { stdout } = Bun.spawnSync([process.execPath, "-e", code], { env });
  expect(stdout.toString()).toContain("X-Amz-Signature=");
  expect(stdout.toString()).not.toMatch(/token/i);
});
