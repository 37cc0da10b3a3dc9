import { expect, test } from "bun:test";
import type { Server } from "bun";
import { trustedProxies } from "../services/trusted-proxies.ts";
import { testConfig } from "../testing/kits/test-config.ts";
import { createClientAddress } from "./client-address.ts";

/** A server, as far as it reports the address of the other end of a connection. */
const connectedTo = (address: string | null) =>
  ({
    requestIP: () => (address === null ? null : { address, port: 1, family: "IPv4" }),
  }) as unknown as Server<unknown>;

const trusting = (networks: string[]) =>
  trustedProxies(testConfig({ server: { trusted_proxies: networks } }));

function clientOf(networks: string[], connection: string | null, forwarded?: string): string | undefined {
  const headers: Record<string, string> = forwarded === undefined ? {} : { "x-forwarded-for": forwarded };
  const request = new Request("http://shruti.test/", { headers });
  return createClientAddress(trusting(networks))(request, connectedTo(connection)).address;
}

test("without trusted proxies the address is that of the connection, whatever the request says", () => {
  expect(clientOf([], "192.0.2.7")).toBe("192.0.2.7");
  expect(clientOf([], "192.0.2.7", "198.51.100.1")).toBe("192.0.2.7");
  expect(clientOf(["10.0.0.0/8"], "192.0.2.7", "198.51.100.1")).toBe("192.0.2.7");
  expect(clientOf([], "::ffff:192.0.2.7")).toBe("192.0.2.7");
  expect(clientOf([], "2001:db8::1")).toBe("2001:db8::1");
  expect(clientOf([], null)).toBeUndefined();
  expect(createClientAddress([])(new Request("http://shruti.test/"), undefined).address).toBeUndefined();
});

test.each([
  ["one proxy", "198.51.100.1", "198.51.100.1"],
  ["addresses that the client has put in front are ignored", "6.6.6.6, 198.51.100.1", "198.51.100.1"],
  ["two proxies", "6.6.6.6, 198.51.100.1, 10.2.0.1", "198.51.100.1"],
  ["a client within the proxies' network", "10.9.9.9, 10.2.0.1", "10.9.9.9"],
  ["an IPv6 client", "2001:db8::5", "2001:db8::5"],
  ["nonsense before the proxy", "6.6.6.6, unknown, 10.2.0.1", "10.2.0.1"],
  ["nonsense only", "_hidden", "10.1.1.1"],
  ["nothing", undefined, "10.1.1.1"],
])("behind a trusted proxy: %s", (_what, forwarded, client) => {
  expect(clientOf(["10.0.0.0/8", "::1"], "10.1.1.1", forwarded)).toBe(client);
  expect(clientOf(["10.0.0.0/8", "::1"], "::ffff:10.1.1.1", forwarded)).toBe(client);
});

test.each([
  ["a client without a proxy", "192.0.2.7", undefined, true, false],
  ["a client that a proxy names", "10.1.1.1", "198.51.100.1", true, true],
  ["a proxy that names no client", "10.1.1.1", undefined, false, true],
  ["a proxy that names nonsense", "10.1.1.1", "_hidden", false, true],
])("%s", (_what, connection, forwarded, isKnown, isProxied) => {
  const headers: Record<string, string> = forwarded === undefined ? {} : { "x-forwarded-for": forwarded };
  const request = new Request("http://shruti.test/", { headers });
  const found = createClientAddress(trusting(["10.0.0.0/8"]))(request, connectedTo(connection));
  expect(found).toMatchObject({ isKnown, isProxied });
});

test("a value that is not a network is refused with the setting's name", () => {
  expect(() => trusting(["10.0.0.0/40"])).toThrow(
    'server.trusted_proxies: "10.0.0.0/40" is not a valid network',
  );
});
