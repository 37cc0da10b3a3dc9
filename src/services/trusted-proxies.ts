import type { Config } from "../config/schema.ts";
import { type Network, parseNetwork } from "./webhook-addresses.ts";

/** Networks of `server.trusted_proxies`. @throws ConfigError for a text that is none */
export function trustedProxies({ server }: Config): Network[] {
  return server.trusted_proxies.map((text) => parseNetwork(text, "server.trusted_proxies"));
}
