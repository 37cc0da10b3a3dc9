/** Rights that a key can have (docs/decisions/keys.md). */
export const SCOPES = [
  "transcriptions:read",
  "transcriptions:write",
  "uploads:write",
  "models:read",
  "usage:read",
  "webhooks:write",
] as const;
export type Scope = (typeof SCOPES)[number];

/** The key, project and organization of a request: the outcome of authentication. */
export type Caller = {
  keyId: string;
  projectId: string;
  organizationId: string;
  scopes: ReadonlySet<Scope>;
};
