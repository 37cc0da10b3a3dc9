import { readFileSync } from "node:fs";

/** This machine's processor as Linux describes it: its maker, and the instructions that programs may use. */
export type Processor = { isIntel: boolean; flags: ReadonlySet<string> };

/** Reads the text of `/proc/cpuinfo`. Returns undefined where it names no flags, such as on ARM. */
export function parseProcessor(text: string): Processor | undefined {
  const flags = /^flags\s*: (.*)$/m.exec(text)?.[1];
  if (flags === undefined) return undefined;
  return { isIntel: /^vendor_id\s*: GenuineIntel$/m.test(text), flags: new Set(flags.trim().split(/\s+/)) };
}

/** Describes this machine's processor. Returns undefined on a system without `/proc/cpuinfo`. */
export function readProcessor(): Processor | undefined {
  try {
    return parseProcessor(readFileSync("/proc/cpuinfo", "utf8"));
  } catch {
    return undefined;
  }
}
