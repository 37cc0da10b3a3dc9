import type { Config } from "../../config/schema.ts";
import { AppError } from "../../domain/errors.ts";
import { gatedTransaction, type Store } from "../../store/database.ts";
import {
  hasOtherOrganization,
  type OrganizationRow,
  requireOrganization,
} from "../../store/organizations.ts";
import { changeSpace, type UploadRow } from "../../store/uploads.ts";
import { REQUEST_WAIT } from "../../store/write-gate.ts";
import type { UploadContext } from "./upload-context.ts";

/**
 * Space on the disk. An organization takes it before bytes are written, step by step, and its limit bounds the sum over
 * all its uploads. So it cannot fill the disk for the others, and an upload that was announced takes little until its
 * bytes come. The transaction that deletes or rejects an upload gives its space back.
 */

/**
 * Taken with the record of an upload. The default of `limits.max_open_uploads` times this is less than
 * `limits.stored_bytes_without_credit`, so that uploads which have only been announced meet their own limit first.
 */
const FIRST_BYTES = 1024 * 1024;
/** An upload's space then grows in steps of this size: that of a tus request. */
const STEP_BYTES = 8 * 1024 * 1024;
/** What an organization may keep at most, as a share of the disk's size, while there are others. */
const DISK_SHARE = 0.75;
const DISK_SHARE_WITHOUT_CREDIT = 0.1;
/** Space becomes free by deletions. Their time cannot be predicted. */
const RETRY_SECONDS = 60;
const DETAIL = "stored_bytes";

type SpaceDeps = Pick<UploadContext, "config" | "diskBytes">;

/** What an organization may keep. `bytes` 0: no limit. `isWithoutCredit`: credit would raise it. */
export type StoredLimit = { bytes: number; isWithoutCredit: boolean };

/** Finds the limit of an organization's stored bytes. One that an admin has set for it goes before all others. */
export function storedLimitOf(
  store: Store,
  { config, diskBytes }: SpaceDeps,
  organization: OrganizationRow,
): StoredLimit {
  const { maxStoredBytes } = organization;
  if (maxStoredBytes !== null) return { bytes: maxStoredBytes, isWithoutCredit: false };
  const { stored_bytes: configured, stored_bytes_without_credit: small } = config.limits;
  const share = () => Math.floor(diskBytes() * DISK_SHARE);
  const automatic = () => (hasOtherOrganization(store, organization.id) ? share() : 0);
  const bytes = configured === "auto" ? automatic() : configured;
  if (small === 0 || hasCredit(config, organization)) return { bytes, isWithoutCredit: false };
  const least = Math.min(small, Math.floor(diskBytes() * DISK_SHARE_WITHOUT_CREDIT));
  return bytes !== 0 && bytes <= least
    ? { bytes, isWithoutCredit: false }
    : { bytes: least, isWithoutCredit: true };
}

/** Reports whether an organization has a balance, or needs none because its price is 0. */
function hasCredit({ billing }: Config, organization: OrganizationRow): boolean {
  const price = organization.pricePaisePerAudioHour ?? billing.price_paise_per_audio_hour;
  return price === 0 || organization.balancePaise > 0;
}

/** Returns the space that a file needs whose first `end` bytes are there. */
export function spaceFor(fileBytes: number, end: number): number {
  const wanted = end <= FIRST_BYTES ? FIRST_BYTES : Math.ceil(end / STEP_BYTES) * STEP_BYTES;
  return Math.min(fileBytes, wanted);
}

/**
 * Checks that an upload could ever be stored whole. Where only credit is lacking, it could: an upload may be made first.
 *
 * @throws AppError `audio_too_large` (detail `bytes`)
 */
export function requireFit(tx: Store, deps: SpaceDeps, organizationId: string, bytes: number): void {
  const limit = storedLimitOf(tx, deps, requireOrganization(tx, organizationId));
  if (limit.bytes === 0 || limit.isWithoutCredit || bytes <= limit.bytes) return;
  throw new AppError("audio_too_large", {
    detail: "bytes",
    message: `The upload has more than the ${limit.bytes} bytes that the organization may store.`,
  });
}

/**
 * Checks that an organization may store more, in the transaction that gives the bytes to an upload.
 *
 * @param bytes how many more
 * @throws AppError (detail `stored_bytes`) `insufficient_credits` where credit would allow it, else `rate_limited`
 */
export function takeSpace(tx: Store, deps: SpaceDeps, organizationId: string, bytes: number): void {
  const organization = requireOrganization(tx, organizationId);
  const limit = storedLimitOf(tx, deps, organization);
  if (limit.bytes === 0 || organization.storedBytes + bytes <= limit.bytes) return;
  const facts = `The organization stores ${organization.storedBytes} bytes of recordings, and may store ${limit.bytes}`;
  if (limit.isWithoutCredit) {
    throw new AppError("insufficient_credits", {
      detail: DETAIL,
      message: `${facts} without credit: delete recordings, or ask for credit.`,
    });
  }
  throw new AppError("rate_limited", {
    detail: DETAIL,
    message: `${facts}: delete recordings, or wait until they are removed.`,
    retryAfterSeconds: RETRY_SECONDS,
  });
}

/** The space of an upload that is being received. */
export type UploadSpace = {
  /**
   * Takes the space for the file's first `end` bytes, unless the upload has it.
   *
   * @throws AppError as `takeSpace`; `conflict` when the upload takes no bytes any more
   */
  require(end: number): Promise<void>;
};

/** Opens the space of an upload. The caller holds the lock of the upload. */
export function openSpace(context: UploadContext, upload: UploadRow): UploadSpace {
  let held = upload.spaceBytes;
  return {
    async require(end) {
      if (end <= held) return;
      const wanted = spaceFor(upload.bytes, end);
      const take = (tx: Store) => {
        takeSpace(tx, context, upload.organizationId, wanted - held);
        if (!changeSpace(tx, upload.id, held, wanted)) throw new AppError("conflict");
      };
      await gatedTransaction(context.database, take, REQUEST_WAIT);
      held = wanted;
    },
  };
}

/** Gives space back whose bytes were removed, but for the first step. The caller holds the lock of the upload. */
export async function returnSpace(
  { database }: UploadContext,
  { id, bytes, spaceBytes }: UploadRow,
): Promise<void> {
  const first = spaceFor(bytes, 0);
  if (spaceBytes <= first) return;
  await gatedTransaction(database, (tx) => changeSpace(tx, id, spaceBytes, first), REQUEST_WAIT);
}
