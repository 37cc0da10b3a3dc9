/** Formats in which a result can be written to a bucket. */
export const RESULT_COPY_FORMATS = ["json", "txt", "srt", "vtt"] as const;
export type ResultCopyFormat = (typeof RESULT_COPY_FORMATS)[number];

/** How far the fetch of a recording is. */
export const SOURCE_STATES = ["fetching", "fetched", "failed"] as const;
/** How far the writing of a result is. `none`: the transcription has ended without a result. */
export const RESULT_COPY_STATES = ["waiting", "written", "failed", "none"] as const;

/** Where a recording is fetched from. */
export type AudioSource = {
  /** The address without user and query. */
  source: string;
  /** The whole address, sealed; null: `source` is all of it, because it names an object of a bucket. */
  sealedAddress: string | null;
};

/** Where a result is written. */
export type ResultTarget = {
  /** Such as `s3://bucket/prefix/`. */
  target: string;
  formats: ResultCopyFormat[];
};

/** What a seal of an organization's address belongs to (services/sealed-texts.ts). */
export const addressSeal = (organizationId: string): string => `address of ${organizationId}`;
