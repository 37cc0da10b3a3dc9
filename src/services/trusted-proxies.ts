import type { Config } from "../config/schema.ts";
import { type Network, parseNetwork } from "../outbound/addresses.ts";

/** Parses the networks of `server.trusted_proxies`. @throws ConfigError for a text that is not a network */
export function trustedProxies({ server }: Config): Network[] {
  return server.trusted_proxies.map((text) => parseNetwork(text, "server.trusted_proxies"));
}
