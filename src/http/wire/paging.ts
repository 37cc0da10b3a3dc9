/** Items of a page when the request names no `limit` (docs/decisions/conventions.md). */
export const DEFAULT_PAGE_SIZE = 20;
