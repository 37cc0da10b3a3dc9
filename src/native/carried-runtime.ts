import { dlopen, FFIType } from "bun:ffi";
import { existsSync } from "node:fs";
import { join } from "node:path";

/** Libraries, each with one symbol, which `dlopen` of bun:ffi needs. The second library needs the first. */
const CARRIED_RUNTIME = [
  { file: "carried-libgcc_s.so.1", symbol: "_Unwind_Resume" },
  { file: "carried-libstdc++.so.6", symbol: "__cxa_pure_virtual" },
] as const;

/**
 * Loads a library that needs the C++ run time. The host's is used if it is new enough. Otherwise the carried one is
 * loaded first, and the dynamic loader then finds it by its soname.
 *
 * @param dir the folder of the carried native files
 * @throws what `open` throws, when the library cannot be loaded either way
 */
export function withCarriedRuntime<T>(dir: string, open: () => T): T {
  try {
    return open();
  } catch (error) {
    if (!isRuntimeMissing(error) || !existsSync(join(dir, CARRIED_RUNTIME[0].file))) throw error;
    loadCarriedRuntime(dir);
    return open();
  }
}

/** Recognizes the dynamic loader's messages for a library that is missing or too old. */
function isRuntimeMissing(error: unknown): boolean {
  return /libstdc\+\+|libgcc_s|GLIBCXX|CXXABI/.test(String(error));
}

function loadCarriedRuntime(dir: string): void {
  for (const { file, symbol } of CARRIED_RUNTIME) {
    dlopen(join(dir, file), { [symbol]: { args: [], returns: FFIType.void } });
  }
}
