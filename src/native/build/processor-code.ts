import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { correctedScore } from "../cpu-variants.ts";
import { parseProcessor } from "../processor.ts";

/**
 * For which families of processors ggml's code is compiled: for all of them in a release, and in other builds for what
 * this machine runs, because each family takes half a minute to a minute of processor time.
 */
export const PROCESSOR_CHOICES = ["machine", "all"] as const;
export type ProcessorChoice = (typeof PROCESSOR_CHOICES)[number];

const LIST = join(
  import.meta.dirname,
  "../../../node_modules/nodejs-whisper/cpp/whisper.cpp/ggml/src/CMakeLists.txt",
);

/** An instruction set of ggml's list: what it adds to ggml's score, and what /proc/cpuinfo must list for it. */
type InstructionSet = { score: number; flags: string[] };

/** What ggml-cpu/arch/x86/cpu-feats.cpp and ggml-cpu/arch/arm/cpu-feats.cpp ask and count. */
const SETS: Record<string, Record<string, InstructionSet>> = {
  x64: {
    FMA: { score: 1, flags: ["fma"] },
    F16C: { score: 1 << 1, flags: ["f16c"] },
    SSE42: { score: 1 << 2, flags: ["sse4_2"] },
    BMI2: { score: 1 << 3, flags: ["bmi2"] },
    AVX: { score: 1 << 4, flags: ["avx"] },
    AVX2: { score: 1 << 5, flags: ["avx2"] },
    AVX_VNNI: { score: 1 << 6, flags: ["avx_vnni"] },
    AVX512: { score: 1 << 7, flags: ["avx512f", "avx512cd", "avx512vl", "avx512dq", "avx512bw"] },
    AVX512_VBMI: { score: 1 << 8, flags: ["avx512vbmi"] },
    AVX512_BF16: { score: 1 << 9, flags: ["avx512_bf16"] },
    AVX512_VNNI: { score: 1 << 10, flags: ["avx512_vnni"] },
    AMX_TILE: { score: 0, flags: ["amx_tile"] },
    AMX_INT8: { score: 1 << 11, flags: ["amx_int8"] },
  },
  arm64: {
    DOTPROD: { score: 1 << 1, flags: ["asimddp"] },
    FP16_VECTOR_ARITHMETIC: { score: 1 << 2, flags: ["fphp"] },
    SVE: { score: 1 << 3, flags: ["sve"] },
    MATMUL_INT8: { score: 1 << 4, flags: ["i8mm"] },
    SVE2: { score: 1 << 5, flags: ["sve2"] },
    SME: { score: 1 << 6, flags: ["sme"] },
  },
};

/** Where a kind of processors begins and ends in ggml's list. */
const SECTIONS: Record<string, RegExp> = {
  x64: /if \(GGML_CPU_ALL_VARIANTS\)[\s\S]*?STREQUAL "x86"\)([\s\S]*?)elseif/,
  arm64:
    /if \(GGML_CPU_ALL_VARIANTS\)[\s\S]*?STREQUAL "ARM"\)\s*if \(CMAKE_SYSTEM_NAME MATCHES "Linux"\)([\s\S]*?)elseif/,
};

/** The code for processors with AVX2, which most machines have. It is used where better code fails. */
const WIDESPREAD = "haswell";

type Family = { name: string; sets: string[] };

/**
 * Reads from ggml's own list for which families of processors it has code, the plainest first.
 *
 * @param arch kind of processors as in `process.arch`
 * @throws Error for a kind that ggml's list is not read for
 */
function familiesOf(arch: string): Family[] {
  const section = SECTIONS[arch]?.exec(readFileSync(LIST, "utf8"))?.[1] ?? "";
  const families = [...section.matchAll(/ggml_add_cpu_backend_variant\(([\w.]+)([^)]*)\)/g)].map(
    ([, name = "", sets = ""]) => ({ name, sets: sets.split(/\s+/).filter((set) => set !== "") }),
  );
  if (families.length === 0) throw new Error(`${LIST} has no code for processors of the kind ${arch}`);
  return families;
}

/** Returns the names of all processor code for a kind of processors (`process.arch`), the plainest first. */
export function allProcessorCode(arch: string): string[] {
  return familiesOf(arch).map(({ name }) => name);
}

/**
 * Chooses the code that a build for this machine contains: the best that the processor can run, the code for AVX2, and the
 * plainest, so that such an executable also runs on other machines, though slower.
 *
 * @param arch kind of processors as in `process.arch`
 * @param cpuinfo text of /proc/cpuinfo
 * @returns names, the best first; all code where the text does not tell what the processor has
 */
export function machineProcessorCode(arch: string, cpuinfo: string): string[] {
  const families = familiesOf(arch);
  const flags = flagsIn(cpuinfo);
  if (flags === undefined) return families.map(({ name }) => name);
  const processor = parseProcessor(cpuinfo) ?? { isIntel: false, flags };
  const scored = families.flatMap(({ name, sets }) => {
    const score = scoreOf(arch, sets, flags);
    return score === 0 ? [] : [{ name, score: correctedScore(name, score, processor) }];
  });
  const usable = scored.sort((a, b) => b.score - a.score).map(({ name }) => name);
  const [best] = usable;
  const kept = [best, ...usable.filter((name) => name === WIDESPREAD), families[0]?.name];
  return [...new Set(kept.flatMap((name) => name ?? []))];
}

/** Reads what a processor has: the line is named flags on x86, and Features on ARM. */
function flagsIn(cpuinfo: string): ReadonlySet<string> | undefined {
  const line = /^(?:flags|Features)\s*: (.*)$/m.exec(cpuinfo)?.[1];
  return line === undefined ? undefined : new Set(line.trim().split(/\s+/));
}

/** Returns what ggml's own score would be; 0: the processor lacks something, or a set is not known here. */
function scoreOf(arch: string, sets: string[], flags: ReadonlySet<string>): number {
  let score = 1;
  for (const name of sets) {
    const set = SETS[arch]?.[name];
    if (set === undefined || !set.flags.every((flag) => flags.has(flag))) return 0;
    score += set.score;
  }
  return score;
}

/** Names the processor code that a build for `choice` contains, the best or plainest first. */
export function chosenProcessorCode(arch: string, choice: ProcessorChoice): string[] {
  const path = "/proc/cpuinfo";
  if (choice === "all" || !existsSync(path)) return allProcessorCode(arch);
  return machineProcessorCode(arch, readFileSync(path, "utf8"));
}

/** @returns names of the code for processors of a kind that is not among the given */
export function missingProcessorCode(arch: string, present: readonly string[]): string[] {
  return allProcessorCode(arch).filter((name) => !present.includes(name));
}
