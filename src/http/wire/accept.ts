/**
 * Chooses a media type by `Accept` (RFC 9110 section 12.5.1).
 *
 * @param offered what there is, the usual one first: it wins a tie, and where nothing fits
 */
export function choose<const T extends string>(
  accept: string | null,
  offered: readonly [T, ...T[]] | T[],
): T {
  const ranges = (accept ?? "*/*").split(",").map(rangeOf);
  let best = offered[0] as T;
  let bestQuality = 0;
  for (const type of offered) {
    const quality = qualityOf(type, ranges);
    if (quality > bestQuality) {
      best = type;
      bestQuality = quality;
    }
  }
  return best;
}

type Range = { type: string; quality: number };

function rangeOf(text: string): Range {
  const [type = "", ...parameters] = text.split(";").map((part) => part.trim().toLowerCase());
  const weight = parameters.find((parameter) => parameter.startsWith("q="));
  const quality = weight === undefined ? 1 : Number(weight.slice(2));
  return { type, quality: quality >= 0 && quality <= 1 ? quality : 0 };
}

/** The quality of the most exact range that covers a type. */
function qualityOf(type: string, ranges: readonly Range[]): number {
  const group = `${type.split("/")[0]}/*`;
  for (const candidate of [type, group, "*/*"]) {
    const range = ranges.find((one) => one.type === candidate);
    if (range) return range.quality;
  }
  return 0;
}
