import { createCipheriv, createDecipheriv, hkdfSync, type KeyObject, randomBytes } from "node:crypto";
import { openApplianceKey } from "./signed/appliance-key.ts";

/**
 * Secrets that must be readable again, such as those of buckets. The database has them encrypted (AES-256-GCM) under a key
 * that is derived from the appliance's key, which is a file of its own: a copy of the database alone does not give them
 * away. After the appliance's key was lost they cannot be read, and are given again.
 */
export type SealedTexts = {
  /** @param about what the text belongs to. The seal opens with the same value only. */
  seal(text: string, about: string): string;
  /** Returns the text; undefined when the seal is of another key, or of something else, or is damaged. */
  open(sealed: string, about: string): string | undefined;
};

const VERSION = "v1";
const IV_BYTES = 12;
const TAG_BYTES = 16;

/** @param dataDir absolute path of the data directory. The key is read at the first use. */
export function createSealedTexts(dataDir: string): SealedTexts {
  let key: Buffer | undefined;
  const own = () => {
    key ??= sealingKey(openApplianceKey(dataDir));
    return key;
  };
  return {
    seal(text, about) {
      const iv = randomBytes(IV_BYTES);
      const cipher = createCipheriv("aes-256-gcm", own(), iv).setAAD(Buffer.from(about));
      const body = Buffer.concat([cipher.update(text, "utf8"), cipher.final()]);
      return `${VERSION}.${Buffer.concat([iv, cipher.getAuthTag(), body]).toString("base64url")}`;
    },
    open(sealed, about) {
      const [version, encoded] = sealed.split(".");
      const bytes = Buffer.from(encoded ?? "", "base64url");
      if (version !== VERSION || bytes.length < IV_BYTES + TAG_BYTES) return undefined;
      try {
        const decipher = createDecipheriv("aes-256-gcm", own(), bytes.subarray(0, IV_BYTES));
        decipher.setAAD(Buffer.from(about));
        decipher.setAuthTag(bytes.subarray(IV_BYTES, IV_BYTES + TAG_BYTES));
        const rest = bytes.subarray(IV_BYTES + TAG_BYTES);
        return Buffer.concat([decipher.update(rest), decipher.final()]).toString("utf8");
      } catch {
        return undefined;
      }
    },
  };
}

function sealingKey(applianceKey: KeyObject): Buffer {
  const secret = applianceKey.export({ type: "pkcs8", format: "der" });
  return Buffer.from(hkdfSync("sha256", secret, "", "shruti sealed texts", 32));
}
