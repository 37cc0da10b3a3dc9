import type { KeyObject } from "node:crypto";
import { signMessage } from "../../../src/lib/signatures.ts";
import type { BlobStore, Descriptor } from "./blobs.ts";

/** The form in which cosign keeps signatures, and in which it verifies them with a public key. */
const PAYLOAD_TYPE = "application/vnd.dev.cosign.simplesigning.v1+json";
const SIGNATURE = "dev.cosignproject.cosign/signature";

/**
 * Adds the signature of an image as cosign writes it: a manifest with the signed document as its layer ("simple signing"),
 * and the signature of that document's bytes, Ed25519, as an annotation. The manifest names the image as its subject, too, so
 * that registries list it among the referrers.
 *
 * @param image what is signed: the document has its digest
 * @param repository that the image was released as; cosign shows it and does not compare it
 * @returns the manifest, and the tag under which cosign looks for it in the image's repository
 */
export function signatureArchive(
  blobs: BlobStore,
  image: Descriptor,
  repository: string,
  key: KeyObject,
): { tag: string; manifest: Descriptor } {
  const payload = JSON.stringify({
    critical: {
      identity: { "docker-reference": repository },
      image: { "docker-manifest-digest": image.digest },
      type: "cosign container image signature",
    },
    optional: null,
  });
  const layer = blobs.add(PAYLOAD_TYPE, payload);
  const signature = Buffer.from(signMessage(Buffer.from(payload), key)).toString("base64");
  const config = blobs.addJson("application/vnd.oci.image.config.v1+json", {
    ...{ architecture: "", os: "", config: {}, created: "0001-01-01T00:00:00Z" },
    ...{
      rootfs: { type: "layers", diff_ids: [layer.digest] },
      history: [{ created: "0001-01-01T00:00:00Z" }],
    },
  });
  const mediaType = "application/vnd.oci.image.manifest.v1+json";
  const { digest, size } = image;
  const manifest = blobs.addJson(mediaType, {
    ...{ schemaVersion: 2, mediaType, config },
    layers: [{ ...layer, annotations: { [SIGNATURE]: signature } }],
    subject: { mediaType: image.mediaType, digest, size },
  });
  return { tag: `${image.digest.replace(":", "-")}.sig`, manifest };
}
