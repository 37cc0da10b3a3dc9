import { X509Certificate } from "node:crypto";
import { isIP } from "node:net";
import { getCACertificates } from "node:tls";
import { ConfigError } from "../config/problems.ts";
import { untilAborted } from "../lib/abort.ts";
import { readRegularFile } from "../lib/regular-file.ts";
import { type AddressRules, hostOf, refusalOf } from "./addresses.ts";
import { describeFailure, describeResolverFailure, type FailureNames } from "./failures.ts";

/** Finds the addresses of a host name, in the system's order of preference. */
export type Resolve = (hostName: string) => Promise<string[]>;

/**
 * Bun's own resolver reads /etc/hosts and asks the name servers without a thread. `node:dns` uses the thread pool that
 * file access needs too: 64 names of a silent name server delayed a read by 9.7 s.
 */
const resolveBySystem: Resolve = async (hostName) =>
  (await Bun.dns.lookup(hostName)).map(({ address }) => address);

/** The host has no address, or one that the rules refuse. The message says why. */
export class AddressRefused extends Error {
  /** The rules refuse the address. False: the name has no address at the moment, and may have one later. */
  readonly isRule: boolean;

  constructor(message: string, isRule: boolean) {
    super(message);
    this.name = "AddressRefused";
    this.isRule = isRule;
  }
}

export type GuardedFetchOptions = {
  /** Finds addresses; left out: as the system does. */
  resolve?: Resolve | undefined;
  /** Path of a PEM file with own authorities; empty: none. */
  authoritiesFile: string;
  /** Names in errors. */
  names: FailureNames;
  /** Why requests do not go to a refused address, and what an admin can do; it follows the address. */
  refusalAdvice: string;
};

export type GuardedRequest = {
  /** Its text has passed `checkUrl`. */
  url: URL;
  rules: AddressRules;
  method: "GET" | "POST" | "PUT";
  /** Headers without `host`. */
  headers: Record<string, string>;
  body?: string | Uint8Array;
  /** Ends the request, also while its answer is read. */
  signal: AbortSignal;
  /** Requests made so far. They choose among several addresses of the host in turn. */
  attempts: number;
  /** Is called with the address before it is connected to. */
  onAddress?: (address: string) => void;
};

/** Makes one request by the rules. */
export type GuardedFetch = {
  /**
   * Resolves the host name, checks each of its addresses, and connects to one of exactly these under the name's
   * certificate. It uses no proxy, follows no redirect, shares no connection and decompresses nothing.
   *
   * @returns the answer, whose body the caller reads or cancels
   * @throws AddressRefused; the error of `fetch`
   */
  fetch(request: GuardedRequest): Promise<Response>;
  /** Says why a request failed. */
  describe(error: unknown): string;
};

/**
 * Creates the only way in which requests leave for addresses that customers name (docs/decisions/webhooks.md).
 *
 * @throws ConfigError when the file of authorities cannot be used
 */
export function createGuardedFetch(options: GuardedFetchOptions): GuardedFetch {
  const { resolve = resolveBySystem, authoritiesFile, names, refusalAdvice } = options;
  const ownAuthorities = readAuthorities(authoritiesFile, names.authoritiesSetting);
  let authorities: string[] | undefined;
  return {
    async fetch({ url, rules, method, headers, body, signal, attempts, onAddress }) {
      const address = await pickAddress(url, { rules, resolve, signal, attempts, refusalAdvice });
      onAddress?.(address);
      authorities ??= [
        ...new Set([...getCACertificates("default"), ...getCACertificates("system"), ...ownAuthorities]),
      ];
      return fetch(pinned(url, address), {
        method,
        headers: { host: url.host, ...headers },
        ...(body === undefined ? {} : { body }),
        redirect: "manual",
        keepalive: false,
        proxy: false,
        decompress: false,
        signal,
        tls: {
          rejectUnauthorized: true,
          ca: authorities,
          // RFC 6066 section 3: an address is not a server name. The certificate is checked against the address.
          ...(isIP(hostOf(url)) === 0 ? { serverName: hostOf(url) } : {}),
        },
      });
    },
    describe: (error) => (error instanceof AddressRefused ? error.message : describeFailure(error, names)),
  };
}

/** The authorities of a whole system take some hundred kilobytes. */
const MAX_PEM_BYTES = 16 * 1024 * 1024;

/**
 * Reads the certificates of a PEM file; none where the path is empty.
 *
 * @param setting the full name of the setting that has the path, for the error
 * @throws ConfigError for a file that cannot be used
 */
export function readAuthorities(path: string, setting: string): string[] {
  if (path === "") return [];
  const refuse = (cause: unknown) =>
    new ConfigError(`${setting}: ${path} cannot be used as a PEM file of certificates`, { cause });
  try {
    const found =
      readRegularFile(path, MAX_PEM_BYTES).match(
        /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g,
      ) ?? [];
    if (found.length === 0) throw new Error("no certificate in it");
    return found.map((pem) => new X509Certificate(pem).toString());
  } catch (error) {
    throw refuse(error);
  }
}

type Picking = Pick<GuardedRequest, "rules" | "signal" | "attempts"> & {
  resolve: Resolve;
  refusalAdvice: string;
};

/** Checks each address of the URL's host, and returns the one that this request calls. */
async function pickAddress(url: URL, picking: Picking): Promise<string> {
  const { rules, resolve, signal, attempts, refusalAdvice } = picking;
  const host = hostOf(url);
  const addresses = isIP(host) === 0 ? await untilAborted(resolved(host, resolve), signal) : [host];
  for (const address of addresses) {
    const refusal = refusalOf(address, rules);
    if (refusal) throw new AddressRefused(`${refusal}, ${refusalAdvice}`, true);
  }
  const address = addresses[attempts % addresses.length];
  if (address === undefined) throw new AddressRefused("the host name has no address", false);
  return address;
}

async function resolved(host: string, resolve: Resolve): Promise<string[]> {
  try {
    return await resolve(host);
  } catch (error) {
    throw new AddressRefused(describeResolverFailure(error), false);
  }
}

function pinned(url: URL, address: string): string {
  const host = isIP(address) === 6 ? `[${address}]` : address;
  return `${url.protocol}//${host}${url.port === "" ? "" : `:${url.port}`}${url.pathname}${url.search}`;
}
