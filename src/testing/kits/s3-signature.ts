import { createHash, createHmac } from "node:crypto";
import type { HostRequest } from "./file-host.ts";

/** Reports whether a request's address is signed with a secret, by AWS Signature Version 4 in its query. */
export function isSigned({ method, path, query, headers }: HostRequest, secret: string): boolean {
  const pairs = query.split("&").filter((pair) => !pair.startsWith("X-Amz-Signature="));
  const parameters = new URLSearchParams(query);
  const of = (name: string) => parameters.get(`X-Amz-${name}`) ?? "";
  const [, ...scope] = of("Credential").split("/");
  const canonical = [
    ...[method, path, pairs.sort().join("&")],
    ...[`host:${headers.get("host")}`, "", "host", "UNSIGNED-PAYLOAD"],
  ].join("\n");
  const hash = createHash("sha256").update(canonical).digest("hex");
  const text = ["AWS4-HMAC-SHA256", of("Date"), scope.join("/"), hash].join("\n");
  const sign = (key: string | Buffer, value: string) => createHmac("sha256", key).update(value).digest();
  const key = scope.reduce<string | Buffer>(sign, `AWS4${secret}`);
  return sign(key, text).toString("hex") === of("Signature");
}
