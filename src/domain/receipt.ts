/** What a receipt says: what was deleted, when and by whom, and the hashes by which its owner recognises it. */
export type DeletionReceipt = {
  object: "deletion_receipt";
  id: string;
  created_at: string;
  deleted: { kind: "transcription" | "upload" | "organization"; id: string; organization_id: string };
  by: { source: string; name: string };
  /**
   * The recording that was deleted with it; null: none, or it had been deleted before. The recordings of an organization
   * have receipts of their own, or are in those of their transcripts.
   */
  recording: { upload_id: string; sha256: string | null; bytes: number } | null;
  /** SHA-256 of the stored result; null: it had none. */
  transcript: { sha256: string } | null;
  /** How many of each were removed with an organization; `uploads` are recordings. */
  removed: Record<string, number> | null;
  /** What the purge of an organization cannot reach. Receipts of older versions do not have it. */
  not_reached?: NotReached;
};

export type NotReached = {
  /**
   * Backups that this machine has made and that may hold the organization. `found`: the machine has found it at its path.
   * The newest come first; `backups_count` counts all.
   */
  backups: { path: string; made_at: string | null; found: boolean }[];
  backups_count: number;
  /** What no machine knows, in words. */
  elsewhere: string;
};
