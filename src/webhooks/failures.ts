/** Says why an answer is a failure; undefined for a status 2xx. */
export function describeStatus(status: number): string | undefined {
  if (status >= 200 && status < 300) return undefined;
  if (status === 410) return "the receiver answered 410: it wants no more events";
  if (status >= 300 && status < 400) {
    return `the receiver answered ${status}: redirects are not followed, register the final address`;
  }
  if (status === 401 || status === 403) {
    return `the receiver answered ${status}: it does not accept the signature or asks for other credentials`;
  }
  if (status === 404 || status === 405)
    return `the receiver answered ${status}: no POST is expected at this path`;
  return `the receiver answered ${status}`;
}
