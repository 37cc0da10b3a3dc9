import { type Static, Type } from "@sinclair/typebox";
import { Value } from "@sinclair/typebox/value";
import { parseFormatted } from "../../lib/formatted-json.ts";
import { readStrictJson } from "../../lib/strict-json.ts";

/**
 * A backup of everything is a set of named files:
 *
 *     backup.json     what it is: `BackupDescription`
 *     fleet/…         keys and certificates of a fleet; only where secrets were asked for
 *     models/…        manifests, and weights where they were asked for, as they are in the directory of models
 *     shruti.db       the database, as SQLite copies it
 *     shruti.toml     the config file; secrets only where they were asked for
 *     signing-key.pem the key that signs receipts; only where secrets were asked for
 *     uploads/…       recordings, each under the identifier of its upload
 *     without.json    what it lacks, because it could not be read or was damaged: `Lacking`; only where something is
 *     SHA256SUMS      of all others, in ascending order of names, as sha256sum writes it
 *     signature.json  of SHA256SUMS, by the appliance's key: backup-signature.ts; absent in backups of older versions
 *
 * It has one of three forms. `tar -x` makes a plain folder of an archive:
 *
 *     FILE                             a tar archive, not packed, with all of them in the folder shruti-backup/
 *     FOLDER                           the same files in a plain folder
 *     STORE/backups/TIME/              the small files; recordings and models are in
 *     STORE/objects/ab/abcdef…         each once for all backups of the store, named by its SHA-256
 */

export const FOLDER = "shruti-backup";
export const DESCRIPTION = "backup.json";
export const DATABASE = "shruti.db";
export const CONFIG = "shruti.toml";
export const LIST = "SHA256SUMS";
export const SIGNATURE = "signature.json";
export const UPLOADS = "uploads/";
export const MODELS = "models/";
export const FLEET = "fleet/";
export const SIGNING_KEY = "signing-key.pem";
export const WITHOUT = "without.json";
/** In a store: the folder of backups, the folder of objects, and a text that explains both. */
export const STORE_BACKUPS = "backups";
export const STORE_OBJECTS = "objects";
export const STORE_README = "README.txt";
/** In a store: which appliance it belongs to (store-identity.ts). */
export const STORE_IDENTITY = "store.json";
export const FORMAT = 1;

/** Longest line of the list: a hash, two spaces and a name. */
export const MAX_LINE_BYTES = 1024;
export const MAX_SIGNATURE_BYTES = 16 * 1024;
export const MAX_DESCRIPTION_BYTES = 4 * 1024 * 1024;

const MODEL = "[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?";
const NAMES: readonly RegExp[] = [
  /^(backup\.json|shruti\.db|shruti\.toml|signing-key\.pem|without\.json)$/,
  /^fleet\/[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$/,
  /^uploads\/up_[0-7][0-9A-HJKMNP-TV-Z]{25}$/,
  new RegExp(`^models/${MODEL}(\\.bin|\\.toml|\\.card\\.json)$`),
  new RegExp(`^models/${MODEL}/[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$`),
];

/** Reports whether a file of a backup may have this name. All other names are refused, so none leads elsewhere. */
export function isBackupName(name: string): boolean {
  return NAMES.some((pattern) => pattern.test(name));
}

/** Reports whether a name is that of weights: a large file of a model. */
export function isWeights(name: string): boolean {
  return name.startsWith(MODELS) && !/^models\/[^/]+(\.toml|\.card\.json)$/.test(name);
}

const ModelReference = Type.Object({
  id: Type.String({ maxLength: 64 }),
  name: Type.String({ maxLength: 1000 }),
  version: Type.String({ maxLength: 1000 }),
  sha256: Type.String({ pattern: "^[0-9a-f]{64}$" }),
  source: Type.String({ maxLength: 1000 }),
});

const Description = Type.Object({
  format: Type.Literal(FORMAT),
  layout: Type.Union([Type.Literal("files"), Type.Literal("objects")]),
  created_at: Type.String({ maxLength: 40 }),
  /** Version of the program that made it. */
  version: Type.String({ maxLength: 100 }),
  host: Type.String({ maxLength: 300 }),
  data_dir: Type.String({ maxLength: 4096 }),
  config: Type.Object({
    /** Null: there was no config file. */
    path: Type.Union([Type.Null(), Type.String({ maxLength: 4096 })]),
    /** Names of the secret settings that were emptied. */
    emptied: Type.Array(Type.String({ maxLength: 200 }), { maxItems: 1000 }),
    /** Names of the variables that overrode it. */
    variables: Type.Array(Type.String({ maxLength: 200 }), { maxItems: 1000 }),
  }),
  models: Type.Object({
    weights: Type.Boolean(),
    installed: Type.Array(ModelReference, { maxItems: 10_000 }),
  }),
  /** Files with keys that were left out, by their paths in the data directory. */
  keys_left_out: Type.Array(Type.String({ maxLength: 300 }), { maxItems: 1000 }),
  /** GPU backends of the machine. They are not in the backup. */
  backends: Type.Array(Type.String({ maxLength: 200 }), { maxItems: 100 }),
});

/** What a backup is, `backup.json`. */
export type BackupDescription = Static<typeof Description>;
export type ModelReference = Static<typeof ModelReference>;

const Lacking = Type.Object({
  count: Type.Integer({ minimum: 1 }),
  /** Names of the first files, such as `uploads/up_…`. */
  first: Type.Array(Type.String({ maxLength: 300 }), { maxItems: 1000 }),
});

/** What an incomplete backup lacks, `without.json`. */
export type Lacking = Static<typeof Lacking>;

/** A backup that cannot be used: damaged, incomplete, or not one of this program. The message begins after its name. */
export class BackupError extends Error {}

/** @throws BackupError for anything but a `backup.json` of this format */
export function parseDescription(bytes: Uint8Array): BackupDescription {
  const fail = (message: string) => new BackupError(message);
  return parseFormatted(bytes, { schema: Description, name: DESCRIPTION, format: FORMAT, fail });
}

/** @throws BackupError for anything but a `without.json` */
export function parseLacking(text: string): Lacking {
  try {
    const value = readStrictJson(text);
    if (Value.Check(Lacking, value)) return value;
  } catch {}
  throw new BackupError(`its ${WITHOUT} cannot be read`);
}
