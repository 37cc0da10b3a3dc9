import type { Server } from "bun";
import ipaddr from "ipaddr.js";
import type { Network } from "../outbound/addresses.ts";

type Address = ipaddr.IPv4 | ipaddr.IPv6;
/** Addresses of `X-Forwarded-For` that are read, from the last on. */
const MAX_HOPS = 20;

export type ClientAddress = {
  /** Undefined where the connection has no address any more. */
  address: string | undefined;
  /** False where the address is that of a trusted proxy, which does not say for whom it asks. */
  isKnown: boolean;
  /** The connection is a trusted proxy's. */
  isProxied: boolean;
};

/**
 * Finds the address of a request's client, for the log and the console: the other end of the connection, or, where that is a trusted
 * proxy, the last address of `X-Forwarded-For` that is not one. Earlier addresses are only the client's claim.
 */
export function createClientAddress(trusted: readonly Network[]) {
  const isTrusted = (address: Address) =>
    trusted.some(([network, bits]) => address.kind() === network.kind() && address.match(network, bits));

  return (request: Request, server: Server<unknown> | undefined): ClientAddress => {
    let client = parse(server?.requestIP(request)?.address);
    if (!client || trusted.length === 0 || !isTrusted(client))
      return { address: client?.toString(), isKnown: client !== undefined, isProxied: false };
    let isKnown = false;
    const hops = (request.headers.get("x-forwarded-for") ?? "").split(",").slice(-MAX_HOPS);
    for (const hop of hops.reverse()) {
      const address = parse(hop.trim());
      if (!address) break;
      client = address;
      isKnown = true;
      if (!isTrusted(address)) break;
    }
    return { address: client.toString(), isKnown, isProxied: true };
  };
}

/** Normalises an IPv4-mapped IPv6 address to IPv4. */
function parse(text: string | undefined): Address | undefined {
  return text !== undefined && ipaddr.isValid(text) ? ipaddr.process(text) : undefined;
}
