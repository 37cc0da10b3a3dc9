import type { PartList } from "../../executable/parts.ts";

/** Facts of a build that tests make releases of, with the exceptions that a test names. */
export function buildFacts(exceptions: Partial<PartList["build"]> = {}): PartList["build"] {
  return {
    version: "1.2.3",
    commit: "0123456789abcdef0123456789abcdef01234567",
    dirty: false,
    committed_at: "2026-11-22T06:00:00.000Z",
    platform: "linux-x64",
    compiler: "cc 1",
    glibc: "2.28",
    processor_code: { names: ["haswell", "x64"], complete: false },
    bun: Bun.version,
    bun_revision: Bun.revision,
    ...exceptions,
  };
}
