import { randomBytes } from "node:crypto";

/**
 * What every text begins with that opens something, before an underscore. Log and audit log cut such texts, and scanners
 * recognize them. `secret` and `startOf` are the only ways to make one, so that none is missing here.
 */
const SECRET_PREFIXES = {
  apiKey: "shr",
  uploadToken: "upt",
  webhookSecret: "whsec",
  /** Links and cookies of the console's admins. */
  consoleSecret: "adm",
  audioLink: "alt",
} as const;

export type SecretKind = keyof typeof SECRET_PREFIXES;

const BYTES = 32;

/** Returns the beginning of a secret's text: its prefix and an underscore. */
export function startOf<Kind extends SecretKind>(kind: Kind): `${(typeof SECRET_PREFIXES)[Kind]}_` {
  return `${SECRET_PREFIXES[kind]}_`;
}

/** Makes a secret of 32 random bytes. */
export function newSecret(kind: SecretKind, encoding: "base64url" | "base64" = "base64url"): string {
  return startOf(kind) + randomBytes(BYTES).toString(encoding);
}

const START = `(${Object.values(SECRET_PREFIXES).join("|")})_`;
const IN_TEXT = new RegExp(`\\b${START}[A-Za-z0-9+/_=-]{20,}`, "g");
const IN_PATH = new RegExp(`${START}[^/]*`, "gi");

/** Cuts each secret in a text behind its prefix. A secret has at least 20 more characters. */
export function cutSecrets(text: string): string {
  return text.replaceAll(IN_TEXT, "$1_…");
}

/** Cuts whatever begins like a secret in a path, up to the next slash, in small and in capital letters. */
export function cutSecretsInPath(path: string): string {
  return path.replaceAll(IN_PATH, "$1_…");
}
