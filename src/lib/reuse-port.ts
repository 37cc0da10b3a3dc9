import { FFIType, ptr } from "bun:ffi";
import { withLibc } from "./libc.ts";

/**
 * Chooses which of several listening sockets of one port gets new connections. Linux distributes them over all sockets
 * with `SO_REUSEPORT`. When one is closed, connections that wait in its queue are lost. So a socket first gets no more
 * of them, and is closed later (socket(7), `SO_ATTACH_REUSEPORT_CBPF`).
 */

const SOL_SOCKET = 1;
const SO_ACCEPTCONN = 30;
const SO_ATTACH_REUSEPORT_CBPF = 51;
/** The instruction of classic BPF that ends the program with a constant. */
const BPF_RET_K = 0x06;
const INT_BYTES = 4;
/** `sizeof(struct sock_filter)`, and that of `struct sock_fprog` on 64-bit machines. */
const FILTER_BYTES = 8;
const PROGRAM_BYTES = 16;
/** Descriptors are given out from the lowest on. */
const MAX_DESCRIPTOR = 65_536;
const MAX_UNUSED = 4_096;

const SYMBOLS = {
  getsockopt: {
    args: [FFIType.i32, FFIType.i32, FFIType.i32, FFIType.ptr, FFIType.ptr],
    returns: FFIType.i32,
  },
  setsockopt: {
    args: [FFIType.i32, FFIType.i32, FFIType.i32, FFIType.ptr, FFIType.u32],
    returns: FFIType.i32,
  },
} as const;

/** Lists the descriptors of this process's listening sockets. Empty where the system does not tell. */
export function listeningSockets(): Set<number> {
  const found = new Set<number>();
  withLibc(SYMBOLS, ({ getsockopt }) => {
    const value = new Int32Array(1);
    const length = new Uint32Array([INT_BYTES]);
    let unused = 0;
    for (let descriptor = 0; descriptor < MAX_DESCRIPTOR && unused < MAX_UNUSED; descriptor += 1) {
      const status = getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, value, length);
      unused = status === 0 ? 0 : unused + 1;
      if (status === 0 && value[0] === 1) found.add(descriptor);
    }
  });
  return found;
}

/**
 * Sends all new connections of a port to one of its sockets.
 *
 * @param descriptor any of them
 * @param index place of the wanted one in the kernel's list: sockets are added at the end, and the last one takes the
 *   place of a closed one
 * @returns false where the system refuses
 */
export function steerTo(descriptor: number, index: number): boolean {
  // Both in one piece of memory, which the call itself keeps: the address of a buffer does not keep that buffer.
  const bytes = new Uint8Array(PROGRAM_BYTES + FILTER_BYTES);
  const program = new DataView(bytes.buffer);
  program.setUint16(0, 1, true);
  program.setBigUint64(8, BigInt(ptr(bytes, PROGRAM_BYTES)), true);
  const filter = new DataView(bytes.buffer, PROGRAM_BYTES);
  filter.setUint16(0, BPF_RET_K, true);
  filter.setUint32(4, index, true);
  const status = withLibc(SYMBOLS, ({ setsockopt }) =>
    setsockopt(descriptor, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, bytes, PROGRAM_BYTES),
  );
  return status === 0;
}
