import { AppError } from "../domain/errors.ts";
import type { Clock } from "../lib/clock.ts";
import { recordAct } from "../store/audit-log.ts";
import { type BucketRow, deleteBucket, findBucket, listBuckets, putBucket } from "../store/buckets.ts";
import { type Database, transaction } from "../store/database.ts";
import { requireOrganization } from "../store/organizations.ts";
import type { SealedTexts } from "./sealed-texts.ts";

/** What an admin says of a bucket. */
export type NewBucket = {
  organizationId: string;
  name: string;
  /** Such as `https://s3.ap-south-1.amazonaws.com`; `http://` only for a private one. */
  endpoint: string;
  region: string;
  accessKey: string;
  secretKey: string;
  /** The endpoint is in a private network, or on this machine. */
  isPrivate: boolean;
};

/** A bucket as admins see it: without its secret. */
export type BucketView = Omit<BucketRow, "sealedSecret">;

/** Buckets of S3-compatible servers, with credentials for each organization. For admins. */
export type BucketService = {
  /**
   * Stores a bucket, or new credentials of one.
   *
   * @throws AppError `not_found` for the organization; `invalid_request` for a value that cannot be used
   */
  add(bucket: NewBucket): BucketView;
  /** Lists the buckets of an organization or of all. @throws AppError `not_found` for the organization */
  list(organizationId?: string): BucketView[];
  /** Removes a bucket with its credentials. An object that is arriving still arrives; the next attempt fails. @throws AppError `not_found` */
  remove(organizationId: string, name: string): void;
};

const NAME = /^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/;

/** What the seal of a bucket's secret belongs to. */
export const bucketSeal = ({ organizationId, name }: Pick<BucketRow, "organizationId" | "name">): string =>
  `bucket ${name} of ${organizationId}`;

export function createBucketService(deps: {
  database: Database;
  clock: Clock;
  sealed: SealedTexts;
}): BucketService {
  const { database, clock, sealed } = deps;
  const { store } = database;
  return {
    add({ secretKey, ...bucket }) {
      const { organizationId, name } = bucket;
      check({ secretKey, ...bucket });
      const sealedSecret = sealed.seal(secretKey, bucketSeal(bucket));
      const row = {
        ...bucket,
        endpoint: new URL(bucket.endpoint).origin,
        sealedSecret,
        createdAt: clock.now(),
      };
      transaction(store, (tx) => {
        requireOrganization(tx, organizationId);
        putBucket(tx, row);
        const after = { endpoint: row.endpoint, region: row.region, is_private: row.isPrivate };
        recordAct(tx, { action: "bucket.add", object: name, organizationId, after }, clock.now());
      });
      return viewOf(row);
    },
    list(organizationId) {
      if (organizationId !== undefined) requireOrganization(store, organizationId);
      return listBuckets(store, organizationId).map(viewOf);
    },
    remove(organizationId, name) {
      transaction(store, (tx) => {
        requireOrganization(tx, organizationId);
        const found = findBucket(tx, organizationId, name);
        if (!found || !deleteBucket(tx, organizationId, name))
          throw new AppError("not_found", { message: `${organizationId} has no bucket ${name}.` });
        const before = { endpoint: found.endpoint };
        recordAct(tx, { action: "bucket.remove", object: name, organizationId, before }, clock.now());
      });
    },
  };
}

const viewOf = ({ sealedSecret: _secret, ...row }: BucketRow): BucketView => row;

/** @throws AppError `invalid_request` that says what to change */
function check({ name, endpoint, region, accessKey, secretKey, isPrivate }: NewBucket): void {
  const refuse = (detail: string, message: string) => new AppError("invalid_request", { detail, message });
  if (!NAME.test(name)) throw refuse("name", `${JSON.stringify(name)} cannot be the name of a bucket.`);
  const url = URL.parse(endpoint);
  const isPlain = url?.pathname === "/" && url.search === "" && url.hash === "" && url.username === "";
  if (!url || !isPlain || !["https:", "http:"].includes(url.protocol))
    throw refuse("endpoint", "The endpoint must be an address such as https://s3.ap-south-1.amazonaws.com.");
  if (url.protocol === "http:" && !isPrivate)
    throw refuse("endpoint", "An endpoint without TLS can only be in a private network: add --private.");
  if (!/^[a-z0-9-]{1,64}$/i.test(region))
    throw refuse("region", "The region must be a name such as ap-south-1.");
  if (!/^[\x21-\x7e]{1,128}$/.test(accessKey)) throw refuse("access_key", "The access key cannot be used.");
  if (!/^[\x21-\x7e]{1,256}$/.test(secretKey)) throw refuse("secret", "The secret cannot be used.");
}
