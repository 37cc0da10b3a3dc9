import type { Server } from "bun";
import ipaddr from "ipaddr.js";
import type { Network } from "../services/webhook-addresses.ts";

type Address = ipaddr.IPv4 | ipaddr.IPv6;
/** More proxies than this in a row are nobody's. */
const MAX_HOPS = 20;

/**
 * Tells the address of a request's client, for the log: the other end of the connection, or, where that is a trusted
 * proxy, the last address of `X-Forwarded-For` that is none. What stands further in front is the client's own word.
 *
 * @returns undefined where the connection has no address any more, or none at all
 */
export function createClientAddress(trusted: readonly Network[]) {
  const isTrusted = (address: Address) =>
    trusted.some(([network, bits]) => address.kind() === network.kind() && address.match(network, bits));

  return (request: Request, server: Server<unknown> | undefined): string | undefined => {
    let client = parse(server?.requestIP(request)?.address);
    if (!client || trusted.length === 0 || !isTrusted(client)) return client?.toString();
    const hops = (request.headers.get("x-forwarded-for") ?? "").split(",").slice(-MAX_HOPS);
    for (const hop of hops.reverse()) {
      const address = parse(hop.trim());
      if (!address) break;
      client = address;
      if (!isTrusted(address)) break;
    }
    return client.toString();
  };
}

/** An IPv4 address that came in the clothes of an IPv6 one is an IPv4 address. */
function parse(text: string | undefined): Address | undefined {
  return text !== undefined && ipaddr.isValid(text) ? ipaddr.process(text) : undefined;
}
