/** Positions of a file's bytes, both included. */
export type ByteRange = { from: number; to: number };

/**
 * Reads the field `Range` of a request (RFC 9110 section 14.2).
 *
 * @param total bytes of the file
 * @returns undefined: the field is to be ignored, because it is absent, malformed, of another unit, or names several
 *   ranges; `unsatisfiable`: it names bytes behind the end
 */
export function readRange(field: string | null, total: number): ByteRange | "unsatisfiable" | undefined {
  const [, first = "", last = ""] = /^bytes=\s*(\d{0,16})-(\d{0,16})\s*$/i.exec(field ?? "") ?? [];
  if (first === "" && last === "") return undefined;
  if (first === "") {
    const length = Math.min(Number(last), total);
    return length === 0 ? "unsatisfiable" : { from: total - length, to: total - 1 };
  }
  if (last !== "" && Number(last) < Number(first)) return undefined;
  if (Number(first) >= total) return "unsatisfiable";
  return { from: Number(first), to: last === "" ? total - 1 : Math.min(Number(last), total - 1) };
}

/** Reports whether one of the tags of `If-None-Match` or `If-Range` is this one. Weak tags name other bytes. */
export function namesTag(field: string | null, tag: string): boolean {
  if (field === null) return false;
  return field.trim() === "*" || field.split(",").some((each) => each.trim() === tag);
}
