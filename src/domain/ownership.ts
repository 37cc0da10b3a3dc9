import { AppError } from "./errors.ts";

/** The project whose resources a caller may touch, and its organization. */
export type Owner = { organizationId: string; projectId: string };

/**
 * Returns the row when it belongs to the caller's project.
 *
 * @throws AppError `not_found` when there is no row, or another organization owns it (so that its existence is not
 *   disclosed); `forbidden` when another project of the same organization does (docs/decisions/order-of-checks.md)
 */
export function requireOwned<T extends Owner>(row: T | undefined, caller: Owner, detail?: string): T {
  if (!row || row.organizationId !== caller.organizationId) {
    throw new AppError("not_found", detail === undefined ? {} : { detail });
  }
  if (row.projectId !== caller.projectId)
    throw new AppError("forbidden", detail === undefined ? {} : { detail });
  return row;
}
