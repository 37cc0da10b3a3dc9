/** Buckets refuse a signature whose time differs by more from their own. */
const MOST_SKEW_MS = 15 * 60_000;
/** An answer that refuses is a short text in XML. */
const MAX_ANSWER_BYTES = 16 * 1024;
/** What servers with S3's API say of a signature that was made a moment ago: the second and third are of signed addresses. */
const OF_THE_CLOCK =
  /<Code>RequestTimeTooSkewed<|Request has expired|Request is not (?:yet )?valid(?: yet)?\b/i;

/**
 * Finds out whether a bucket has refused a request, which was signed a moment ago, because of this machine's clock.
 *
 * @param response with status 403; its body is read, or cancelled by the caller
 * @returns words for a sentence about the answer; undefined: the clock is not the cause
 */
export async function clockAdvice(response: Response): Promise<string | undefined> {
  const skewMs = Date.now() - Date.parse(response.headers.get("date") ?? "");
  const isFar = Math.abs(skewMs) > MOST_SKEW_MS;
  if (!isFar && !OF_THE_CLOCK.test(await beginningOf(response))) return undefined;
  const minutes = Math.round(Math.abs(skewMs) / 60_000);
  // A server may say so that has no clock in its answer, or a proxy with another one.
  const differs =
    minutes > 1 ? `is ${minutes} minutes ${skewMs > 0 ? "ahead" : "behind"}` : "differs from it";
  return `: by its clock, this machine's clock ${differs}, which is more than it allows; set the clock of this machine`;
}

async function beginningOf({ body }: Response): Promise<string> {
  let text = "";
  const decoder = new TextDecoder();
  for await (const bytes of body ?? []) {
    text += decoder.decode(bytes, { stream: true });
    if (text.length > MAX_ANSWER_BYTES) break;
  }
  return text;
}
