import { FFIType, ptr } from "bun:ffi";
import { withLibc } from "./libc.ts";

/**
 * Reports to systemd, or another manager with the same protocol (sd_notify(3)), what the service does. Bun has no datagram
 * sockets of the Unix domain, so the C library sends the datagram.
 */

const AF_UNIX = 1;
const SOCK_DGRAM = 2;
const SOCK_CLOEXEC = 0o2000000;
/** `sizeof(struct sockaddr_un)`: the family and 108 bytes of path. */
const ADDRESS_BYTES = 110;
const FAMILY_BYTES = 2;

const SYMBOLS = {
  socket: { args: [FFIType.i32, FFIType.i32, FFIType.i32], returns: FFIType.i32 },
  sendto: {
    args: [FFIType.i32, FFIType.ptr, FFIType.u64, FFIType.i32, FFIType.ptr, FFIType.u32],
    returns: FFIType.i64,
  },
  close: { args: [FFIType.i32], returns: FFIType.i32 },
  clock_gettime: { args: [FFIType.i32, FFIType.ptr], returns: FFIType.i32 },
} as const;
const CLOCK_MONOTONIC = 1;

/** A state for the manager, as `NAME=value`. */
export type ServiceState = Partial<
  Record<
    "READY" | "RELOADING" | "MONOTONIC_USEC" | "STOPPING" | "STATUS" | "EXTEND_TIMEOUT_USEC",
    string | number
  >
>;

/** Returns the state of a service that begins to reload: the manager compares the time with that of its own request. */
export function reloadingState(): ServiceState {
  const time = new BigInt64Array(2);
  withLibc(SYMBOLS, ({ clock_gettime }) => clock_gettime(CLOCK_MONOTONIC, ptr(time)));
  const [seconds = 0n, nanoseconds = 0n] = time;
  return { RELOADING: 1, MONOTONIC_USEC: String(seconds * 1_000_000n + nanoseconds / 1_000n) };
}

/**
 * Sends a state to the service manager of this process.
 *
 * @param path the variable `NOTIFY_SOCKET`; an abstract address begins with `@`
 * @returns false when there is no manager, or the datagram could not be sent
 */
export function notifyServiceManager(path: string | undefined, state: ServiceState): boolean {
  if (path === undefined || !/^[@/]/.test(path)) return false;
  const address = addressOf(path);
  if (!address) return false;
  const message = Buffer.from(
    Object.entries(state)
      .map(([name, value]) => `${name}=${value}\n`)
      .join(""),
  );
  const sent = withLibc(SYMBOLS, ({ socket, sendto, close }) => {
    const descriptor = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (descriptor < 0) return undefined;
    const count = sendto(descriptor, ptr(message), message.length, 0, ptr(address), address.length);
    close(descriptor);
    return Number(count);
  });
  return sent === message.length;
}

/** Makes the bytes of `struct sockaddr_un`; undefined when the path is too long. */
function addressOf(path: string): Uint8Array | undefined {
  const name = Buffer.from(path);
  if (FAMILY_BYTES + name.length + 1 > ADDRESS_BYTES) return undefined;
  const isAbstract = path.startsWith("@");
  // The length of an abstract name counts; a path ends with a zero byte.
  const address = new Uint8Array(FAMILY_BYTES + name.length + (isAbstract ? 0 : 1));
  new DataView(address.buffer).setUint16(0, AF_UNIX, true);
  address.set(name, FAMILY_BYTES);
  if (isAbstract) address[FAMILY_BYTES] = 0;
  return address;
}
