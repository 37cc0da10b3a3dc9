import { isIP } from "node:net";
import ipaddr from "ipaddr.js";
import { ConfigError } from "../config/problems.ts";
import { AppError } from "../domain/errors.ts";

/** Longest address that is accepted, in characters. */
export const MAX_URL_LENGTH = 2048;

type Address = ipaddr.IPv4 | ipaddr.IPv6;
export type Network = readonly [Address, number];

export type AddressRules = {
  allowHttp: boolean;
  allowPrivateNetworks: boolean;
  /** Networks that may be called although another rule refuses their addresses. */
  allowedNetworks: readonly Network[];
};

/**
 * Reads rules from a section of the config.
 *
 * @param setting the full name of the setting `allowed_networks`, for the error
 * @throws ConfigError for a text that is not a network
 */
export function addressRules(
  settings: {
    readonly allow_http: boolean;
    readonly allow_private_networks: boolean;
    readonly allowed_networks: readonly string[];
  },
  setting = "webhooks.allowed_networks",
): AddressRules {
  return {
    allowHttp: settings.allow_http,
    allowPrivateNetworks: settings.allow_private_networks,
    allowedNetworks: settings.allowed_networks.map((text) => parseNetwork(text, setting)),
  };
}

/** Parses a network in CIDR form, or a single address as a network. @throws ConfigError for any other text */
export function parseNetwork(text: string, setting = "webhooks.allowed_networks"): Network {
  try {
    if (!text.includes("/")) {
      const address = ipaddr.parse(text);
      return [address, address.kind() === "ipv4" ? 32 : 128];
    }
    return ipaddr.parseCIDR(text);
  } catch (cause) {
    throw new ConfigError(`${setting}: ${JSON.stringify(text)} is not a valid network, such as 10.1.0.0/16`, {
      cause,
    });
  }
}

const networks = (...texts: string[]) => texts.map((text) => parseNetwork(text));

/** Requests never go to these, unless `allowed_networks` contains them (IANA special-purpose registries). */
const REFUSED: readonly { kind: string; networks: readonly Network[] }[] = [
  { kind: "an unspecified address", networks: networks("0.0.0.0/8", "::/128") },
  { kind: "a loopback address", networks: networks("127.0.0.0/8", "::1/128") },
  { kind: "a link-local address", networks: networks("169.254.0.0/16", "fe80::/10") },
  { kind: "a multicast address", networks: networks("224.0.0.0/4", "ff00::/8") },
  { kind: "a broadcast or reserved address", networks: networks("240.0.0.0/4", "192.0.0.0/24", "100::/64") },
  {
    // Alibaba, Azure, AWS and Google answer here with the machine's credentials; 169.254.169.254 is link-local.
    kind: "an address of a cloud's metadata service",
    networks: networks("100.100.100.200", "168.63.129.16", "fd00:ec2::254", "fd20:ce::254"),
  },
];

const PRIVATE: readonly Network[] = networks(
  "10.0.0.0/8",
  "172.16.0.0/12",
  "192.168.0.0/16",
  "100.64.0.0/10",
  "198.18.0.0/15",
  "fc00::/7",
  "fec0::/10",
);

/** Where an IPv6 address contains the IPv4 address that a translator or tunnel would use: offset in bytes. */
const EMBEDDINGS: readonly { network: Network; offset: number; inverted?: true }[] = [
  { network: parseNetwork("::/96"), offset: 12 },
  // "IPv4-translated" (RFC 2765), which is another form than the mapped one.
  { network: parseNetwork("::ffff:0:0:0/96"), offset: 12 },
  { network: parseNetwork("64:ff9b::/96"), offset: 12 },
  { network: parseNetwork("64:ff9b:1::/48"), offset: 12 },
  { network: parseNetwork("2002::/16"), offset: 2 },
  { network: parseNetwork("2001::/32"), offset: 4 },
  { network: parseNetwork("2001::/32"), offset: 12, inverted: true },
];
/** ISATAP (RFC 5214): the interface identifier says that an IPv4 address follows, under any prefix. */
const ISATAP_PATTERNS = ["00005efe", "02005efe"];

function isWithin(address: Address, [network, bits]: Network): boolean {
  return address.kind() === network.kind() && address.match(network, bits);
}

function embeddedAddresses(address: ipaddr.IPv6): ipaddr.IPv4[] {
  const bytes = address.toByteArray();
  const at = (offset: number, mask: number) =>
    new ipaddr.IPv4(bytes.slice(offset, offset + 4).map((byte) => byte ^ mask));
  const found = EMBEDDINGS.filter(({ network }) => isWithin(address, network)).map(({ offset, inverted }) =>
    at(offset, inverted ? 0xff : 0),
  );
  const interfaceId = Buffer.from(bytes.slice(8, 12)).toString("hex");
  return ISATAP_PATTERNS.includes(interfaceId) ? [...found, at(12, 0)] : found;
}

/**
 * Says why a request must not go to an address; undefined: it may. An IPv6 address that contains an IPv4 address
 * (mapped, compatible, NAT64, 6to4, Teredo, ISATAP) must pass with the IPv4 address too.
 *
 * @param text an address as a resolver or a parsed URL gives it, without brackets
 */
export function refusalOf(text: string, rules: AddressRules): string | undefined {
  // Only plain forms pass. The operating system could read another form differently from this check.
  if (isIP(text) === 0 || text.includes("%")) return `${text} is not a plain IP address`;
  const parsed = ipaddr.parse(text);
  const address =
    parsed.kind() === "ipv6" && (parsed as ipaddr.IPv6).isIPv4MappedAddress()
      ? (parsed as ipaddr.IPv6).toIPv4Address()
      : parsed;
  if ([parsed, address].some((a) => rules.allowedNetworks.some((network) => isWithin(a, network))))
    return undefined;
  for (const { kind, networks: refused } of REFUSED) {
    if (refused.some((network) => isWithin(address, network))) return `${text} is ${kind}`;
  }
  if (!rules.allowPrivateNetworks && PRIVATE.some((network) => isWithin(address, network))) {
    return `${text} is a private address`;
  }
  if (address.kind() === "ipv4") return undefined;
  for (const embedded of embeddedAddresses(address as ipaddr.IPv6)) {
    if (refusalOf(embedded.toString(), rules))
      return `${text} leads to ${refusalOf(embedded.toString(), rules)}`;
  }
  return undefined;
}

/** Returns the host of a URL as a resolver expects it: without brackets and without the dot of the root. */
export function hostOf(url: URL): string {
  return url.hostname.replace(/^\[|\]$/g, "").replace(/\.$/, "");
}

/** What a check of an address says and allows. */
export type UrlUse = {
  /** Dotted name of the field that has the address. */
  detail: string;
  /** Begins the sentence about an address that the rules refuse, such as "Events cannot be sent to this address". */
  refusal: string;
  /** The address may have a user name and a password. */
  mayHaveUser?: boolean;
};

/**
 * Checks the text of an address that a customer has named. Each request resolves a host name and checks its addresses.
 * The URL parser (WHATWG) turns decimal, hex, octal and full-width forms of IPv4 into the dotted form.
 *
 * @throws AppError `invalid_request`, with a message that says what to change
 */
export function checkUrl(text: string, rules: AddressRules, use: UrlUse): URL {
  const refuse = (message: string) => new AppError("invalid_request", { detail: use.detail, message });
  if (text.length > MAX_URL_LENGTH) throw refuse(`The URL is longer than ${MAX_URL_LENGTH} characters.`);
  const url = URL.canParse(text) ? new URL(text) : undefined;
  // The parser silently drops or replaces these characters, so the address called would differ from the text.
  if (!url || /[\s\\\p{Cc}]/u.test(text)) throw refuse("The URL cannot be read.");
  // The parser would add the slashes to `https:hooks.example`.
  const isAllowed = url.protocol === "https:" || (rules.allowHttp && url.protocol === "http:");
  if (!isAllowed || !/^https?:\/\//i.test(text)) {
    throw refuse("The URL must begin with https://.");
  }
  const hasUser = url.username || url.password || /^[a-z]+:\/\/[^/?#]*@/i.test(text);
  if (hasUser && !use.mayHaveUser) throw refuse("The URL must not carry a user name or password.");
  if (text.includes("#")) throw refuse("The URL must not carry a fragment.");
  if (url.port === "0") throw refuse("The URL's port cannot be 0.");
  const host = hostOf(url);
  if (host === "" || host.length > 253) throw refuse("The URL has no usable host name.");
  const isLocalName = host === "localhost" || host.endsWith(".localhost");
  const refusal =
    isIP(host) !== 0 ? refusalOf(host, rules) : isLocalName ? refusalOf("127.0.0.1", rules) : undefined;
  if (refusal) throw refuse(`${use.refusal}: ${refusal}.`);
  return url;
}

/** Checks the address of a webhook endpoint. @throws AppError `invalid_request`, detail `url` */
export const checkEndpointUrl = (text: string, rules: AddressRules): URL =>
  checkUrl(text, rules, { detail: "url", refusal: "Events cannot be sent to this address" });
