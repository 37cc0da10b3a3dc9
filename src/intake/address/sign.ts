import { createHmac } from "node:crypto";
import { sha256Hex } from "../../lib/sha256.ts";

/** What a signature is made with. */
export type Signing = {
  /** Origin of the endpoint, such as `https://s3.ap-south-1.amazonaws.com`. */
  endpoint: string;
  region: string;
  accessKey: string;
  secretKey: string;
};

/** How long a signed address is valid, seconds. It is used at once. */
const SIGNED_SECONDS = 300;

/**
 * Signs the address of an object by AWS Signature Version 4 in its query. Bun's client does so too, but it adds a session
 * token from this server's environment, which must not go to the bucket of an organization.
 *
 * @param nowMs epoch milliseconds
 */
export function signObject(
  { endpoint, region, accessKey, secretKey }: Signing,
  { method, bucket, key, nowMs }: { method: "GET" | "PUT"; bucket: string; key: string; nowMs: number },
): URL {
  const { host } = new URL(endpoint);
  const path = `/${[bucket, ...key.split("/")].map(encoded).join("/")}`;
  const time = new Date(nowMs).toISOString().replace(/[-:]|\.\d+/g, "");
  const scope = [time.slice(0, 8), region, "s3", "aws4_request"];
  const query = Object.entries({
    "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
    "X-Amz-Credential": [accessKey, ...scope].join("/"),
    "X-Amz-Date": time,
    "X-Amz-Expires": String(SIGNED_SECONDS),
    "X-Amz-SignedHeaders": "host",
  })
    .map(([name, value]) => `${name}=${encoded(value)}`)
    .join("&");
  const request = [method, path, query, `host:${host}`, "", "host", "UNSIGNED-PAYLOAD"].join("\n");
  const text = ["AWS4-HMAC-SHA256", time, scope.join("/"), sha256Hex(request)].join("\n");
  const hmac = (by: string | Buffer, value: string) => createHmac("sha256", by).update(value).digest();
  const signature = hmac(scope.reduce<string | Buffer>(hmac, `AWS4${secretKey}`), text).toString("hex");
  return new URL(`${endpoint}${path}?${query}&X-Amz-Signature=${signature}`);
}

/** AWS's form of percent-encoding: all but letters, digits and `-._~`. */
const encoded = (text: string): string =>
  encodeURIComponent(text).replace(/[!'()*]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`);
