/**
 * Splits an address to listen on, such as `127.0.0.1:8080` or `[::1]:8080`, at its last colon. It does not check the parts.
 *
 * @returns `host` as it is written, `hostname` without the brackets of an IPv6 address, and `port`
 */
export function splitListen(listen: string): { host: string; hostname: string; port: number } {
  const at = listen.lastIndexOf(":");
  const host = listen.slice(0, at);
  return { host, hostname: host.replace(/^\[|\]$/g, ""), port: Number(listen.slice(at + 1)) };
}
