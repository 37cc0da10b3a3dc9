import type { Config } from "../config/schema.ts";
import { splitListen } from "../lib/host-port.ts";

/** Makes addresses of `server.listen`, which is a host, a colon and a port. */

/** Returns the host of `server.listen` as it is written in a URL: an IPv6 address has brackets there. */
function hostOf(listen: string): string {
  const { host } = splitListen(listen);
  return host.includes(":") && !host.startsWith("[") ? `[${host}]` : host;
}

/** Reports whether the server listens on all addresses, so that the setting names no host. */
export const namesNoHost = (listen: string): boolean => /^(0\.0\.0\.0|\[::\]|\*)$/.test(hostOf(listen));

/** Reports whether only programs of this machine reach the server. */
export const isLocalOnly = (listen: string): boolean =>
  /^(127\.\d+\.\d+\.\d+|\[::1\]|localhost)$/.test(hostOf(listen));

/**
 * Returns the address of the server for clients where `server.base_url` is empty.
 *
 * @param port the one that the server got, because `listen` may ask for a free one
 */
export function publicAddress(listen: string, isTls: boolean, port: number | undefined): string {
  return `${isTls ? "https" : "http"}://${hostOf(listen)}:${port}`;
}

/** Returns the address of the server for programs on this machine. */
export function localAddress(listen: string, isTls: boolean, port: number | undefined): string {
  const host = hostOf(listen);
  const local = host === "[::]" ? "[::1]" : namesNoHost(listen) || host === "" ? "127.0.0.1" : host;
  return `${isTls ? "https" : "http"}://${local}:${port}`;
}

/** Returns the address of a server that does not say its own: a wildcard is reached by loopback. */
export function addressOfConfig({ server: { listen, tls_cert } }: Config): string {
  return localAddress(listen, tls_cert !== "", splitListen(listen).port);
}
