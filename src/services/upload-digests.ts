/** SHA-256 over uploads while they arrive, so that verification need not read them again. */
export type DigestBook = {
  /**
   * Goes on with an upload's digest at a position of its file; position 0 starts anew.
   *
   * @returns undefined when the bytes before that position were not seen (another process received them):
   *   the file has to be read when it is complete
   */
  continueAt(uploadId: string, position: number): RunningDigest | undefined;
  /** The digest of exactly that many bytes, lower-case hex, when they were all seen. */
  finish(uploadId: string, bytes: number): string | undefined;
  forget(uploadId: string): void;
};

export type RunningDigest = { update(chunk: Uint8Array): void };

type Entry = { hasher: Bun.CryptoHasher; bytes: number };

/**
 * @param maxEntries digests kept at once; the longest untouched one goes first, and its file is then read
 */
export function createDigestBook(maxEntries = 4096): DigestBook {
  const entries = new Map<string, Entry>();

  return {
    continueAt(uploadId, position) {
      const known = entries.get(uploadId);
      entries.delete(uploadId);
      const entry = position === 0 ? { hasher: new Bun.CryptoHasher("sha256"), bytes: 0 } : known;
      if (!entry || entry.bytes !== position) return undefined;
      entries.set(uploadId, entry);
      const oldest = entries.keys().next().value;
      if (entries.size > maxEntries && oldest !== undefined) entries.delete(oldest);
      return {
        update(chunk) {
          entry.hasher.update(chunk);
          entry.bytes += chunk.length;
        },
      };
    },
    finish(uploadId, bytes) {
      const entry = entries.get(uploadId);
      if (entry?.bytes !== bytes) return undefined;
      // A copy is finished, so that a repeated question gets the same answer.
      return entry.hasher.copy().digest("hex");
    },
    forget: (uploadId) => void entries.delete(uploadId),
  };
}
