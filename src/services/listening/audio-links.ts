import { createHmac, randomBytes } from "node:crypto";
import type { Caller } from "../../domain/api-key.ts";
import { AppError } from "../../domain/errors.ts";
import type { Clock } from "../../lib/clock.ts";
import { startOf } from "../../lib/secrets.ts";
import { equalsConstantTime } from "../../lib/sha256.ts";
import type { ApiKeyService } from "../api-keys.ts";

const LIFE_MS = 4 * 3_600_000;
const MAX_AHEAD_MS = 5 * 60_000;
const PREFIX = startOf("audioLink");
const LINK = new RegExp(`^${PREFIX}(key_[0-9A-Z]{26})_([0-9a-z]{1,11})_([0-9A-Za-z_-]{43})$`);

/**
 * Links to the audio of one transcription, for players that cannot send a key. A link is signed with a secret of this
 * run of the program, and stored nowhere. It ends with the key that asked for it.
 */
export type AudioLinks = {
  /** Makes a link that works for four hours. */
  create(caller: Caller, transcriptionId: string): { link: string; expiresAt: number };
  /** Returns on whose behalf a link opens the audio. @throws AppError `unauthorized`, `organization_disabled` */
  callerOf(link: string, transcriptionId: string): Caller;
};

export function createAudioLinks(apiKeys: Pick<ApiKeyService, "callerOf">, clock: Clock): AudioLinks {
  const secret = randomBytes(32);
  const sign = (...parts: string[]) =>
    createHmac("sha256", secret).update(parts.join(" ")).digest("base64url");
  return {
    create({ keyId }, transcriptionId) {
      const expiresAt = clock.now() + LIFE_MS;
      const until = expiresAt.toString(36);
      return { link: `${PREFIX}${keyId}_${until}_${sign(keyId, until, transcriptionId)}`, expiresAt };
    },
    callerOf(link, transcriptionId) {
      const [, keyId, until, signature] = LINK.exec(link) ?? [];
      if (keyId === undefined || until === undefined || signature === undefined) {
        throw new AppError("unauthorized");
      }
      const isOwn = equalsConstantTime(signature, sign(keyId, until, transcriptionId));
      const leftMs = Number.parseInt(until, 36) - clock.now();
      // A link that works for longer is of a clock that was ahead.
      if (!isOwn || leftMs <= 0 || leftMs > LIFE_MS + MAX_AHEAD_MS) throw new AppError("unauthorized");
      return apiKeys.callerOf(keyId);
    },
  };
}
