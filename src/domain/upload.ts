/** States of an upload and the only moves between them (docs/interface.md section 3.2, docs/decisions/uploads.md). */
export const UPLOAD_STATES = ["allocated", "verifying", "complete", "rejected"] as const;
export type UploadState = (typeof UPLOAD_STATES)[number];

export const UPLOAD_TRIGGERS = [
  /** All bytes have arrived, and the client has asked for verification. */
  "verify",
  "verified",
  "reject",
  /** The bytes did not arrive in time. */
  "expire",
  /** The server fetches the bytes itself, and cannot. */
  "refuse",
] as const;
export type UploadTrigger = (typeof UPLOAD_TRIGGERS)[number];

const MOVES: Record<UploadState, Partial<Record<UploadTrigger, UploadState>>> = {
  allocated: { verify: "verifying", expire: "rejected", refuse: "rejected" },
  verifying: { verified: "complete", reject: "rejected" },
  complete: {},
  rejected: {},
};

/** Returns the state that a trigger leads to; undefined: the move does not exist. */
export function nextUploadState(state: UploadState, trigger: UploadTrigger): UploadState | undefined {
  return MOVES[state][trigger];
}

/** Returns the states that allow a trigger. */
export function uploadStatesAllowing(trigger: UploadTrigger): UploadState[] {
  return UPLOAD_STATES.filter((state) => MOVES[state][trigger] !== undefined);
}

export const UPLOAD_ERROR_CODES = ["audio_decode_failed", "upload_rejected"] as const;
export type UploadErrorCode = (typeof UPLOAD_ERROR_CODES)[number];
