import type { Config } from "../../config/schema.ts";
import { AppError } from "../../domain/errors.ts";
import {
  type AddressRules,
  addressRules,
  checkUrl,
  hostOf,
  MAX_URL_LENGTH,
} from "../../outbound/addresses.ts";

/** An object of a bucket. */
export type BucketObject = { bucket: string; key: string };

const DETAIL = "audio.source_url";
/** S3's rules of names of buckets, without those for special endpoints. */
const S3_ADDRESS = /^s3:\/\/([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])\/(.*)$/s;
/** S3's limit, in bytes of UTF-8. */
const MAX_KEY_BYTES = 1024;

/** Reads the rules of `[intake]` for addresses. @throws ConfigError for a text that is not a network */
export function intakeRules({ intake }: Config): AddressRules {
  const { allowed_networks } = intake;
  const settings = { allow_http: false, allow_private_networks: false, allowed_networks };
  return addressRules(settings, "intake.allowed_networks");
}

/**
 * Reads the address of an object, such as `s3://bucket/folder/call.wav`.
 *
 * @param detail the field that has the address
 * @returns undefined for an address of another kind
 * @throws AppError `invalid_request` for a name or a key that cannot be one
 */
export function readBucketAddress(text: string, detail = DETAIL): BucketObject | undefined {
  if (!/^s3:/i.test(text)) return undefined;
  const refuse = (message: string) => new AppError("invalid_request", { detail, message });
  const [, bucket = "", key = ""] = S3_ADDRESS.exec(text) ?? [];
  if (bucket === "") throw refuse("The address must have the form s3://bucket/key.");
  if (Buffer.byteLength(key) > MAX_KEY_BYTES) throw refuse(`The key has more than ${MAX_KEY_BYTES} bytes.`);
  // Programs between here and the bucket would take such a key for another one.
  if (/[\p{Cc}\\]/u.test(key) || key.split("/").some((part) => part === "." || part === ".."))
    throw refuse(
      "The key has a part that addresses cannot carry: `.`, `..`, a backslash or a control character.",
    );
  if (key.startsWith("/")) throw refuse("The key must not begin with a slash.");
  return { bucket, key };
}

/**
 * Checks an address that begins with https://, and its host against `intake.hosts`.
 *
 * @throws AppError `invalid_request` (detail `audio.source_url`), with a sentence that names the host or the rule
 */
export function checkSourceUrl(text: string, config: Config): URL {
  if (text.length > MAX_URL_LENGTH) throw invalid(`The address is longer than ${MAX_URL_LENGTH} characters.`);
  if (!/^https:/i.test(text)) throw invalid("The address must begin with https:// or s3://.");
  const use = { detail: DETAIL, mayHaveUser: true, refusal: "Files are not fetched from this address" };
  const url = checkUrl(text, intakeRules(config), use);
  // They are decoded with each request, which could not be made.
  if (!isDecodable(url.username) || !isDecodable(url.password))
    throw invalid("The user name or the password in the address has a % that begins no code of a character.");
  requireListed(url, config.intake.hosts);
  return url;
}

function isDecodable(text: string): boolean {
  try {
    decodeURIComponent(text);
    return true;
  } catch {
    return false;
  }
}

/**
 * Checks that a host is on the list. An entry without a port is for port 443.
 *
 * @param hosts such as `files.example`, `*.example.com` (its subdomains) or `files.example:8443`
 * @throws AppError `invalid_request` (detail `audio.source_url`) that names the host
 */
export function requireListed(url: URL, hosts: readonly string[]): void {
  const host = hostOf(url).toLowerCase();
  const port = url.port === "" ? "443" : url.port;
  const isListed = hosts.some((entry) => {
    const [, name = "", ownPort = "443"] = /^(.*?)(?::(\d+))?$/.exec(entry.toLowerCase()) ?? [];
    if (port !== ownPort) return false;
    return name.startsWith("*.") ? host.endsWith(name.slice(1)) : host === name;
  });
  if (isListed) return;
  const shown = url.port === "" ? host : `${host}:${url.port}`;
  throw invalid(`The host ${shown} is not on the list of this server (intake.hosts).`);
}

/** Returns an address without user, query and fragment, which can be secrets. */
export function withoutSecrets(url: URL): string {
  return `${url.protocol}//${url.host}${url.pathname}`;
}

/** Makes the refusal of an address. */
export const invalid = (message: string): AppError =>
  new AppError("invalid_request", { detail: DETAIL, message });
