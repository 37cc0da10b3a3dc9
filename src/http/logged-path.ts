import { cutSecretsInPath } from "../lib/secrets.ts";

const MAX_LOGGED = 200;
/** More than that is cut before it is looked at. */
const MAX_READ = 8192;
/** Encodings within encodings that are undone. */
const MAX_DECODED = 8;

/** A percent sign, or a character that secrets are made of, percent-encoded. */
const ENCODED = /%(2d|2e|5f|7e|25|3[0-9]|4[1-9a-f]|5[0-9a]|6[1-9a-f]|7[0-9a])/gi;

/**
 * A request's path for the log: short, and without secrets, however often they were percent-encoded. A path without
 * any stays as it was sent.
 */
export function loggedPath(path: string): string {
  const sent = path.slice(0, MAX_READ);
  let plain = sent;
  for (let round = 0; round < MAX_DECODED; round++) plain = decoded(plain);
  if (decoded(plain) !== plain) return "(encoded too often)";
  // A client may have put one into a path by mistake.
  const shown = cutSecretsInPath(plain);
  return (shown === plain ? sent : shown).slice(0, MAX_LOGGED);
}

function decoded(text: string): string {
  return text.replaceAll(ENCODED, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
}
