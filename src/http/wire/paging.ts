/** Items of a page when the request names no `limit` (docs/decisions.md section 1). */
export const DEFAULT_PAGE_SIZE = 20;
