import { timingSafeEqual } from "node:crypto";
import { TusRefusal } from "./tus-refusals.ts";

/** Digests that a client may send with a body (tus 1.0, "Checksum"), an extension that `@tus/server` does not have. */
export const CHECKSUMS = ["sha1", "sha256", "md5"] as const;

type Checksum = { update(chunk: Uint8Array): void; approve: () => void };

/**
 * The digest that `Upload-Checksum` promises of this request's body; undefined without that header field.
 *
 * @throws TusRefusal 400 for another algorithm or form; `approve` throws 460 on a mismatch
 */
export function requestedChecksum(request: Request): Checksum | undefined {
  const header = request.headers.get("upload-checksum");
  if (header === null) return undefined;
  const [, name, digest] = /^([a-z0-9]+) ([A-Za-z0-9+/]+=*)$/.exec(header) ?? [];
  const algorithm = CHECKSUMS.find((known) => known === name);
  if (algorithm === undefined || digest === undefined) {
    throw new TusRefusal(400, "invalid_request", {
      detail: "upload-checksum",
      message: `Upload-Checksum must be one of ${CHECKSUMS.join(", ")}, a space and the digest in base64.`,
    });
  }
  const hasher = new Bun.CryptoHasher(algorithm);
  const expected = Buffer.from(digest, "base64");
  return {
    update: (chunk) => void hasher.update(chunk),
    approve() {
      const actual = hasher.digest();
      if (actual.length === expected.length && timingSafeEqual(actual, expected)) return;
      throw new TusRefusal(460, "invalid_request", {
        detail: "upload-checksum",
        message: "The bytes do not have the checksum of Upload-Checksum and were not kept.",
      });
    },
  };
}
