import { join } from "node:path";

/**
 * Billions of operations a second that one thread does at best: with floats; with whole numbers of 16 and of 8 bits; with
 * vectors of bf16 numbers, and with AMX's tiles of them and of bytes, where the processor has such products.
 */
export type Peak = {
  floats: number;
  shorts?: number;
  bytes?: number;
  bf16?: number;
  tiles?: number;
  byte_tiles?: number;
};

/** Measures the processor. */
export function measurePeak(folder: string): Peak {
  const program = join(folder, "peak");
  const source = join(import.meta.dirname, "peak.cpp");
  const compiled = Bun.spawnSync(["c++", "-O3", "-std=c++17", "-march=native", "-w", source, "-o", program]);
  if (!compiled.success) throw new Error(`peak.cpp: ${compiled.stderr}`);
  const lines = Bun.spawnSync([program]).stdout.toString();
  const found = [...lines.matchAll(/^(floats|shorts|bytes|bf16|tiles|byte_tiles) (\d+)$/gm)].map(
    ([, kind, value]) => [kind, Number(value)],
  );
  return { floats: 0, ...Object.fromEntries(found) };
}
