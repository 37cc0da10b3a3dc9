import { createHash, timingSafeEqual } from "node:crypto";

/** Lower-case hex SHA-256 of a text (UTF-8) or of bytes. For short inputs: it runs on the calling thread. */
export function sha256Hex(input: string | Uint8Array): string {
  return createHash("sha256").update(input).digest("hex");
}

/** Compares two texts in a time that depends on their lengths only. */
export function equalsConstantTime(left: string, right: string): boolean {
  const a = Buffer.from(left);
  const b = Buffer.from(right);
  return a.length === b.length && timingSafeEqual(a, b);
}
