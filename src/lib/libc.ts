import { dlopen, type FFIFunction, type Library } from "bun:ffi";

/**
 * Calls functions of libc that Bun does not offer.
 *
 * @returns what `work` returns; undefined where libc cannot be asked, or `work` fails
 */
export function withLibc<Symbols extends Record<string, FFIFunction>, T>(
  wanted: Symbols,
  work: (symbols: Library<Symbols>["symbols"]) => T,
): T | undefined {
  try {
    const { symbols, close } = dlopen("libc.so.6", wanted);
    try {
      return work(symbols);
    } finally {
      close();
    }
  } catch {
    return undefined;
  }
}
