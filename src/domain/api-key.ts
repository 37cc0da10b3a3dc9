/** What a key may be allowed to do (docs/decisions.md section 3). */
export const SCOPES = [
  "transcriptions:read",
  "transcriptions:write",
  "uploads:write",
  "models:read",
  "usage:read",
  "webhooks:write",
] as const;
export type Scope = (typeof SCOPES)[number];

/** Who is asking: the outcome of authentication. */
export type Caller = {
  keyId: string;
  projectId: string;
  organizationId: string;
  scopes: ReadonlySet<Scope>;
};
