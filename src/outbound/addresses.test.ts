import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import type { Config } from "../config/schema.ts";
import type { AppError } from "../domain/errors.ts";
import { testConfig } from "../testing/kits/test-config.ts";
import { addressRules, checkEndpointUrl, MAX_URL_LENGTH, parseNetwork, refusalOf } from "./addresses.ts";

const rulesOf = (webhooks: Partial<Config["webhooks"]> = {}) =>
  addressRules(testConfig({ webhooks }).webhooks);
const rules = rulesOf();

function problemOf(url: string, under = rules): string | undefined {
  try {
    checkEndpointUrl(url, under);
  } catch (error) {
    const { code, detail, message } = error as AppError;
    expect({ code, detail }).toEqual({ code: "invalid_request", detail: "url" });
    return message;
  }
  return undefined;
}

describe("addresses of receivers", () => {
  test.each([
    ["0.0.0.0", "unspecified"],
    ["0.1.2.3", "unspecified"],
    ["127.0.0.1", "loopback"],
    ["127.255.255.254", "loopback"],
    ["169.254.169.254", "link-local"],
    ["224.0.0.1", "multicast"],
    ["239.255.255.255", "multicast"],
    ["240.0.0.1", "reserved"],
    ["255.255.255.255", "broadcast"],
    ["192.0.0.192", "reserved"],
    ["100.100.100.200", "metadata"],
    ["168.63.129.16", "metadata"],
    ["fd00:ec2::254", "metadata"],
    ["::", "unspecified"],
    ["::1", "loopback"],
    ["0:0:0:0:0:0:0:1", "loopback"],
    ["fe80::1", "link-local"],
    ["fe80::1%eth0", "not a plain"],
    ["febf::1", "link-local"],
    ["ff02::1", "multicast"],
    ["::ffff:127.0.0.1", "loopback"],
    ["::ffff:a9fe:a9fe", "link-local"],
    ["::127.0.0.1", "loopback"],
    ["64:ff9b::7f00:1", "loopback"],
    ["::ffff:0:7f00:1", "loopback"],
    ["::ffff:0:a9fe:a9fe", "link-local"],
    ["64:ff9b:1::a9fe:a9fe", "link-local"],
    ["2002:7f00:0001::", "loopback"],
    ["2002:a9fe:a9fe::1", "link-local"],
    ["2001:0:7f00:1::", "loopback"],
    ["2001:0:808:808:0:0:80ff:fffe", "loopback"],
    ["2606:4700::5efe:7f00:1", "loopback"],
    ["2130706433", "not a plain"],
    ["0x7f.1", "not a plain"],
    ["0177.0.0.1", "not a plain"],
    ["127.1", "not a plain"],
    ["", "not a plain"],
  ])("%s is refused: %s", (address, reason) => {
    expect(refusalOf(address, rules)).toContain(reason);
  });

  test.each([
    "8.8.8.8",
    "10.1.2.3",
    "172.16.0.1",
    "192.168.1.1",
    "fd12:3456::1",
    "2606:4700::1111",
    "::ffff:10.0.0.1",
  ])("%s is allowed", (address) => {
    expect(refusalOf(address, rules)).toBeUndefined();
  });

  test.each([
    "10.1.2.3",
    "172.31.0.1",
    "192.168.1.1",
    "100.64.0.1",
    "fd12::1",
    "fec0::1",
    "::ffff:10.0.0.1",
    "2002:a00:1::",
  ])("%s is refused where private networks are switched off", (address) => {
    expect(refusalOf(address, rulesOf({ allow_private_networks: false }))).toContain("private");
  });

  test("a network that the config allows overrides every refusal, for that network only", () => {
    const allowing = rulesOf({
      allowed_networks: ["127.0.0.0/8", "fe80::5", "10.9.0.0/16"],
      allow_private_networks: false,
    });
    for (const address of ["127.0.0.1", "::ffff:127.0.0.1", "fe80::5", "10.9.1.1", "64:ff9b::7f00:1"]) {
      expect(refusalOf(address, allowing)).toBeUndefined();
    }
    for (const address of ["::1", "fe80::6", "10.8.1.1", "169.254.169.254"]) {
      expect(refusalOf(address, allowing)).toBeDefined();
    }
    expect(() => parseNetwork("127.0.0.0/33")).toThrow("allowed_networks");
    expect(() => parseNetwork("localhost")).toThrow("allowed_networks");
  });

  test("no IPv6 form of a refused IPv4 address is accepted", () => {
    const octet = fc.integer({ min: 0, max: 255 });
    const refused = fc.tuple(fc.constantFrom(0, 127, 224, 239, 240, 255), octet, octet, octet);
    fc.assert(
      fc.property(
        refused,
        fc.constantFrom("::ffff:", "::", "64:ff9b::", "64:ff9b:1::", "2606::5efe:"),
        (bytes, dress) => {
          expect(refusalOf(bytes.join("."), rules)).toBeDefined();
          expect(refusalOf(dress + bytes.join("."), rules)).toBeDefined();
        },
      ),
    );
  });
});

describe("URLs of endpoints", () => {
  test.each([
    "https://hooks.example/x?y=1",
    "https://hooks.example:8443",
    "https://10.0.0.5/hook",
    "https://[2606:4700::1111]:8443/",
    "https://bücher.example/",
    "HTTPS://HOOKS.example/",
  ])("%s is accepted", (url) => {
    expect(problemOf(url)).toBeUndefined();
  });

  test.each([
    ["http://hooks.example/", "https://"],
    ["ftp://hooks.example/", "https://"],
    ["https:hooks.example", "https://"],
    ["https:/hooks.example", "https://"],
    ["hooks.example", "cannot be read"],
    ["", "cannot be read"],
    ["https://", "cannot be read"],
    [" https://hooks.example/", "cannot be read"],
    ["https://hooks.example/\n", "cannot be read"],
    ["https:\\\\hooks.example\\x", "cannot be read"],
    ["https://user@hooks.example/", "user name"],
    ["https://user:pass@hooks.example/", "user name"],
    ["https://@hooks.example/", "user name"],
    ["https://hooks.example/#x", "fragment"],
    ["https://hooks.example/#", "fragment"],
    ["https://hooks.example:0/", "port"],
    ["https://hooks.example:70000/", "cannot be read"],
    [`https://hooks.example/${"a".repeat(MAX_URL_LENGTH)}`, "longer"],
    ["https://127.0.0.1/", "loopback"],
    ["https://2130706433/", "loopback"],
    ["https://0x7f000001/", "loopback"],
    ["https://0177.0.0.1/", "loopback"],
    ["https://127.1/", "loopback"],
    ["https://127.0.0.1./", "loopback"],
    ["https://１２７.0.0.1/", "loopback"],
    ["https://localhost/", "loopback"],
    ["https://LOCALHOST./", "loopback"],
    ["https://a.localhost/", "loopback"],
    ["https://169.254.169.254/latest/meta-data", "link-local"],
    ["https://[::1]/", "loopback"],
    ["https://[::ffff:127.0.0.1]/", "loopback"],
    ["https://[fe80::1%25eth0]/", "cannot be read"],
    ["https://0/", "unspecified"],
  ])("%p is refused: %s", (url, reason) => {
    expect(problemOf(url)).toContain(reason);
  });

  test("a test setup may use plain HTTP and its own machine", () => {
    const bench = rulesOf({ allow_http: true, allowed_networks: ["127.0.0.0/8"] });
    for (const url of ["http://127.0.0.1:8080/", "http://localhost/", "https://127.0.0.1/"]) {
      expect(problemOf(url, bench)).toBeUndefined();
    }
    expect(problemOf("gopher://127.0.0.1/", bench)).toBeDefined();
  });
});
