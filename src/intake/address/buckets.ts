import type { Config } from "../../config/schema.ts";
import { AppError } from "../../domain/errors.ts";
import { addressSeal } from "../../domain/intake.ts";
import { type AddressRules, parseNetwork } from "../../outbound/addresses.ts";
import { bucketSeal } from "../../services/buckets.ts";
import type { SealedTexts } from "../../services/sealed-texts.ts";
import { type BucketRow, findBucket } from "../../store/buckets.ts";
import type { Store } from "../../store/database.ts";
import type { FetchRow } from "../../store/fetches.ts";
import type { OpenFile } from "./open-file.ts";
import { signObject } from "./sign.ts";
import { checkSourceUrl, intakeRules, invalid, readBucketAddress, requireListed } from "./source.ts";

/** An admin who registers an endpoint as private may mean this machine. */
const LOOPBACK = ["127.0.0.0/8", "::1/128"].map((text) => parseNetwork(text));

export type BucketsDeps = { store: Store; config: Config; sealed: SealedTexts };

/** Turns what was asked for into addresses that can be called now. */
export type Buckets = {
  /**
   * Returns where the file of a fetch is.
   *
   * @throws AppError `invalid_request` when the rules do not allow it any more, or its secrets cannot be read
   */
  addressOf(fetch: Pick<FetchRow, "organizationId" | "source" | "sealedAddress">): Address;
  /** Signs the address to which an object is written. @throws AppError `invalid_request` */
  addressToWrite(organizationId: string, target: { bucket: string; key: string }): Address;
  /** Finds a bucket of an organization. @throws AppError `invalid_request` that names the bucket */
  require(organizationId: string, name: string, detail?: string): BucketRow;
};

type Address = Pick<OpenFile, "url" | "rules" | "checkHop" | "isSigned">;

export function createBuckets({ store, config, sealed }: BucketsDeps): Buckets {
  function require(organizationId: string, name: string, detail = "audio.source_url"): BucketRow {
    const row = findBucket(store, organizationId, name);
    if (row) return row;
    const message = `The organization has no bucket ${name} on this server: an admin adds it with shruti buckets add.`;
    throw new AppError("invalid_request", { detail, message });
  }

  function signed(row: BucketRow, key: string, method: "GET" | "PUT"): Address {
    const { name: bucket, endpoint } = row;
    const secretKey = sealed.open(row.sealedSecret, bucketSeal(row));
    if (secretKey === undefined)
      throw invalid(`The secret of the bucket ${bucket} cannot be read: an admin adds the bucket again.`);
    // The bucket compares the time with its own: a test's clock would be of no use.
    const url = signObject({ ...row, secretKey }, { method, bucket, key, nowMs: Date.now() });
    const { host } = new URL(endpoint);
    return {
      url,
      rules: rulesOf(row, config),
      isSigned: true,
      checkHop: (hop) => {
        if (hop.host !== host) throw invalid(`The host ${hop.host} is not that of the bucket ${bucket}.`);
      },
    };
  }

  return {
    require,
    addressOf({ organizationId, source, sealedAddress }) {
      const object = readBucketAddress(source);
      if (object) return signed(require(organizationId, object.bucket), object.key, "GET");
      const text =
        sealedAddress === null ? undefined : sealed.open(sealedAddress, addressSeal(organizationId));
      if (text === undefined) throw invalid("The address cannot be read any more: send it again.");
      const url = checkSourceUrl(text, config);
      return { url, rules: intakeRules(config), checkHop: (hop) => requireListed(hop, config.intake.hosts) };
    },
    addressToWrite: (organizationId, { bucket, key }) => signed(require(organizationId, bucket), key, "PUT"),
  };
}

/** An admin has named the endpoint, so it is on no other list. */
function rulesOf({ isPrivate }: BucketRow, config: Config): AddressRules {
  const rules = intakeRules(config);
  if (!isPrivate) return rules;
  const allowedNetworks = [...rules.allowedNetworks, ...LOOPBACK];
  return { allowHttp: true, allowPrivateNetworks: true, allowedNetworks };
}
