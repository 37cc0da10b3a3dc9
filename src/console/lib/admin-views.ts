/** The views of an admin: the last part of their addresses, in the order of the navigation. The first is shown first. */
export const VIEWS = ["overview", "organizations", "transcriptions", "models", "webhooks"] as const;

export type View = (typeof VIEWS)[number];
