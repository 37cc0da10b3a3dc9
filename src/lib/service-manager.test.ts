import { afterAll, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { notifyServiceManager, reloadingState } from "./service-manager.ts";

const folder = mkdtempSync(join(tmpdir(), "shruti-notify-"));
afterAll(() => rmSync(folder, { recursive: true }));

/** Receives one datagram as systemd would. Python has datagram sockets of the Unix domain, Bun has not. */
const RECEIVER = `import socket, sys
name = sys.argv[1]
receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
receiver.bind("\\0" + name[1:] if name[0] == "@" else name)
receiver.settimeout(20)
sys.stdout.write("bound\\n"); sys.stdout.flush()
sys.stdout.write(receiver.recv(4096).decode()); sys.stdout.flush()`;

test.skipIf(Bun.which("python3") === null).each([
  ["a path", join(folder, "notify.sock")],
  ["an abstract address", `@shruti-test-${process.pid}`],
  ["the longest path", `${join(folder, "n")}`.padEnd(107, "o")],
])(
  "the manager receives the state at %s (needs python3)",
  async (_what, address) => {
    const child = Bun.spawn(["python3", "-c", RECEIVER, address], { stdout: "pipe", stderr: "inherit" });
    const reader = child.stdout.getReader();
    const next = async () => new TextDecoder().decode((await reader.read()).value);
    expect(await next()).toBe("bound\n");
    expect(notifyServiceManager(address, { READY: 1, STATUS: "listening on ₹" })).toBe(true);
    expect(await next()).toBe("READY=1\nSTATUS=listening on ₹\n");
  },
  30_000,
);

test("a reload names the time of the monotonic clock, microseconds", () => {
  const uptimeUs = () => Number(readFileSync("/proc/uptime", "utf8").split(" ")[0]) * 1e6;
  const { RELOADING, MONOTONIC_USEC } = reloadingState();
  expect(RELOADING).toBe(1);
  expect(MONOTONIC_USEC).toMatch(/^\d+$/);
  // The uptime also counts the time that the machine has slept.
  expect(Number(MONOTONIC_USEC)).toBeLessThan(uptimeUs() + 1e6);
  expect(Number(reloadingState().MONOTONIC_USEC)).toBeGreaterThanOrEqual(Number(MONOTONIC_USEC));
});

test.each([
  ["no manager", undefined],
  ["an address without a listener", join(folder, "nothing.sock")],
  ["an address of another form", "vsock:2:1234"],
  ["a path that is too long", `/${"a".repeat(200)}`],
])("%s is no error", (_what, address) => {
  expect(notifyServiceManager(address, { READY: 1 })).toBe(false);
});
