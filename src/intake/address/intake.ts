import type { Config } from "../../config/schema.ts";
import { AppError } from "../../domain/errors.ts";
import {
  type AudioSource,
  addressSeal,
  type ResultCopyFormat,
  type ResultTarget,
} from "../../domain/intake.ts";
import { createGuardedFetch, type GuardedFetch, readAuthorities } from "../../outbound/guarded-fetch.ts";
import { createSealedTexts, type SealedTexts } from "../../services/sealed-texts.ts";
import type { Store } from "../../store/database.ts";
import { type Buckets, createBuckets } from "./buckets.ts";
import { checkSourceUrl, intakeRules, invalid, readBucketAddress, withoutSecrets } from "./source.ts";

/** Checks what a request says of addresses, before anything is stored. */
export type AddressIntake = {
  /**
   * Checks the address of a recording.
   *
   * @throws AppError `invalid_request` (detail `audio.source_url`), with a sentence that names the host or the rule
   */
  source(organizationId: string, text: string): AudioSource;
  /**
   * Checks where a result is to be written.
   *
   * @throws AppError `invalid_request` (detail `results_to.url`)
   */
  target(
    organizationId: string,
    wanted: { url: string; formats?: ResultCopyFormat[] | undefined },
  ): ResultTarget;
};

export type AddressIntakeDeps = { store: Store; config: Config; dataDir: string };

/** Opens what requests, the fetcher and the writer of results use. @throws ConfigError when a setting of `[intake]` cannot be used */
export function openAddressIntake({ store, config, dataDir }: AddressIntakeDeps): {
  intake: AddressIntake;
  buckets: Buckets;
  guarded: GuardedFetch;
} {
  const sealed = createSealedTexts(dataDir);
  const buckets = createBuckets({ store, config, sealed });
  return {
    buckets,
    guarded: createGuardedFetch({
      authoritiesFile: config.intake.ca_file,
      names: { peer: "the server there", authoritiesSetting: "intake.ca_file" },
      refusalAdvice: "which is not called; intake.allowed_networks in the config can allow it",
    }),
    intake: {
      source: (organizationId, text) => sourceOf({ config, sealed, buckets }, organizationId, text),
      target: (organizationId, wanted) => targetOf(buckets, organizationId, wanted),
    },
  };
}

function sourceOf(
  { config, sealed, buckets }: { config: Config; sealed: SealedTexts; buckets: Buckets },
  organizationId: string,
  text: string,
): AudioSource {
  const object = readBucketAddress(text);
  if (object) {
    if (object.key === "" || object.key.endsWith("/"))
      throw invalid("The address must name an object, such as s3://bucket/folder/call.wav.");
    buckets.require(organizationId, object.bucket);
    return { source: text, sealedAddress: null };
  }
  const url = checkSourceUrl(text, config);
  return { source: withoutSecrets(url), sealedAddress: sealed.seal(url.href, addressSeal(organizationId)) };
}

function targetOf(
  buckets: Buckets,
  organizationId: string,
  { url, formats = ["json"] }: { url: string; formats?: ResultCopyFormat[] | undefined },
): ResultTarget {
  const detail = "results_to.url";
  const place = readBucketAddress(url, detail);
  if (!place || (place.key !== "" && !place.key.endsWith("/"))) {
    throw new AppError("invalid_request", {
      detail,
      message: "Results are written to a folder of a bucket: s3://bucket/ or s3://bucket/folder/.",
    });
  }
  buckets.require(organizationId, place.bucket, detail);
  return { target: url, formats: [...new Set(formats)] };
}

/** Checks the settings of `[intake]`. @throws ConfigError when one cannot be used */
export function checkIntakeSettings(config: Config): void {
  intakeRules(config);
  readAuthorities(config.intake.ca_file, "intake.ca_file");
}
