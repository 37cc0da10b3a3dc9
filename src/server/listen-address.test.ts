import { expect, test } from "bun:test";
import { localAddress, namesNoHost, publicAddress } from "./listen-address.ts";

test.each([
  ["127.0.0.1:0", "127.0.0.1", "127.0.0.1", false],
  ["0.0.0.0:80", "0.0.0.0", "127.0.0.1", true],
  ["*:80", "*", "127.0.0.1", true],
  ["[::]:80", "[::]", "[::1]", true],
  [":::80", "[::]", "[::1]", true],
  ["[::1]:80", "[::1]", "[::1]", false],
  ["::1:80", "[::1]", "[::1]", false],
  ["fd00::5:80", "[fd00::5]", "[fd00::5]", false],
  ["shruti.example:80", "shruti.example", "shruti.example", false],
])("%s: clients use %s, this machine %s", (listen, host, local, isWithoutHost) => {
  expect(publicAddress(listen, true, 7)).toBe(`https://${host}:7`);
  expect(localAddress(listen, false, 7)).toBe(`http://${local}:7`);
  expect(namesNoHost(listen)).toBe(isWithoutHost);
  for (const address of [publicAddress(listen, false, 7), localAddress(listen, false, 7)])
    expect(URL.canParse(address)).toBe(true);
});
