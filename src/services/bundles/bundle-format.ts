import { Type } from "@sinclair/typebox";
import { parseFormatted } from "../../lib/formatted-json.ts";

/**
 * A bundle carries models, the executable and GPU backends to a machine without a network. It is a tar archive, not
 * packed, with one folder:
 *
 *     shruti-bundle/SHA256SUMS        of every other file, as sha256sum writes it
 *     shruti-bundle/SHA256SUMS.sig    Ed25519 signature of that list, 64 bytes
 *     shruti-bundle/bundle.json       what is in it
 *     shruti-bundle/LICENCES.txt      licences and sources of the models, for people
 *     shruti-bundle/models/…          <id>.toml and <id>.bin, or a folder <id> with several files
 *     shruti-bundle/shruti            the executable
 *     shruti-bundle/backends/…        libggml-*.so
 */

export const FOLDER = "shruti-bundle";
export const CHECKSUMS = "SHA256SUMS";
export const SIGNATURE = "SHA256SUMS.sig";
export const CONTENTS = "bundle.json";
export const LICENCES = "LICENCES.txt";
export const EXECUTABLE = "shruti";
export const FORMAT = 1;

const CONTENTS_SCHEMA = Type.Object({
  format: Type.Literal(FORMAT),
  created_at: Type.String(),
  version: Type.String(),
  models: Type.Array(Type.Object({ id: Type.String(), files: Type.Array(Type.String()) })),
  executable: Type.Boolean(),
  backends: Type.Array(Type.String()),
});

/** What a bundle holds, `bundle.json`. Names of files are below the bundle's folder. */
export type BundleContents = {
  format: typeof FORMAT;
  created_at: string;
  /** Version of the program that made it. */
  version: string;
  models: { id: string; files: string[] }[];
  executable: boolean;
  backends: string[];
};

/** A bundle that must not be installed: changed, signed with another key, or not a bundle. */
export class BundleError extends Error {}

/** @throws BundleError for anything but a `bundle.json` of this format */
export function parseContents(bytes: Uint8Array): BundleContents {
  const fail = (message: string) => new BundleError(message);
  return parseFormatted(bytes, { schema: CONTENTS_SCHEMA, name: CONTENTS, format: FORMAT, fail });
}
