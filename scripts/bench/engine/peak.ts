import { join } from "node:path";

/** Billions of floating-point operations a second that one thread does at best; `bf16` where there are such products. */
export type Peak = { floats: number; bf16?: number };

/** Measures the processor. The matrix unit of AMX is not measured. */
export function measurePeak(folder: string): Peak {
  const program = join(folder, "peak");
  const source = join(import.meta.dirname, "peak.cpp");
  const compiled = Bun.spawnSync(["c++", "-O3", "-std=c++17", "-march=native", "-w", source, "-o", program]);
  if (!compiled.success) throw new Error(`peak.cpp: ${compiled.stderr}`);
  const lines = Bun.spawnSync([program]).stdout.toString();
  const of = (kind: string) => Number(new RegExp(`${kind} (\\d+)`).exec(lines)?.[1] ?? 0);
  return of("bf16") > 0 ? { floats: of("floats"), bf16: of("bf16") } : { floats: of("floats") };
}
