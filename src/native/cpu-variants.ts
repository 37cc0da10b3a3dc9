import { readdirSync } from "node:fs";
import { basename, join } from "node:path";
import type { Processor } from "./processor.ts";

/** A library of whisper.cpp with code for a family of processors, such as `haswell` or `zen4`: a variant. */
export type CpuVariant = { name: string; path: string };

/** Returns the name of the variant in a library; undefined for other files. A build for one processor is `generic`. */
export function variantName(path: string): string | undefined {
  const match = /^libggml-cpu(?:-(.+))?\.so$/.exec(basename(path));
  return match ? (match[1] ?? "generic") : undefined;
}

/** What ggml's score of a variant counts bf16 products for. */
const SCORE_OF_BF16 = 1 << 9;
/** Variants that multiply bf16 numbers in vectors, and have no tiles of AMX. */
const WITH_BF16_VECTORS = ["cooperlake", "zen4"];
const WITH_TILES = "sapphirerapids";

/**
 * Corrects ggml's score of a variant, which asks the processor alone. Tiles need a kernel that knows them (Linux 5.16) and a
 * hypervisor that passes them on; without these, the first use of a tile ends the process. On processors of Intel later than
 * Cooper Lake, which has no `avx512vbmi`, bf16 products in vectors have half the speed of floats. So they count for nothing
 * there, and `icelake` is better than `zen4` (patches/README.md, AMX).
 */
export function correctedScore(name: string, score: number, { isIntel, flags }: Processor): number {
  if (name === WITH_TILES && !flags.has("amx_tile")) return 0;
  const isBf16Slow = isIntel && flags.has("avx512vbmi") && WITH_BF16_VECTORS.includes(name);
  return isBf16Slow && score > 0 ? score - SCORE_OF_BF16 : score;
}

/**
 * Returns the variants in a folder that this processor can run. The first is the fastest.
 *
 * @param score returns ggml's score of each file: 0 for one that cannot be used
 * @param processor undefined: ggml's scores alone decide
 * @throws Error when there is none
 */
export function usableVariants(
  dir: string,
  score: (paths: string[]) => number[],
  processor?: Processor,
): CpuVariant[] {
  const variants = readdirSync(dir)
    .sort()
    .flatMap((file): CpuVariant[] => {
      const name = variantName(file);
      return name === undefined ? [] : [{ name, path: join(dir, file) }];
    });
  const scores = score(variants.map(({ path }) => path));
  const usable = variants
    .map((variant, i) => {
      const score = scores[i] ?? 0;
      return { variant, score: processor ? correctedScore(variant.name, score, processor) : score };
    })
    .filter((scored) => scored.score > 0)
    .sort((a, b) => b.score - a.score)
    .map(({ variant }) => variant);
  if (usable.length === 0) throw new Error(`no CPU library for whisper could be loaded from ${dir}`);
  return usable;
}

/**
 * Chooses the best variant that is not avoided, and names those that come after it. If all are avoided, it chooses the
 * plainest.
 *
 * @param usable best first, at least one
 */
export function chooseVariant(
  usable: readonly CpuVariant[],
  avoided: readonly string[],
): { chosen: CpuVariant; plainer: string[] } {
  const [best, ...plainer] = usable.filter(({ name }) => !avoided.includes(name));
  const chosen = best ?? usable.at(-1);
  if (!chosen) throw new Error("there is no variant to choose from");
  return { chosen, plainer: plainer.map(({ name }) => name) };
}

/** A variant that is not used any more, and the signal that ended the process that used it. */
export type BrokenVariant = { variant: string; signal: string };

/** Describes a broken variant for `doctor` and `status`. */
export function describeBroken({ variant, signal }: BrokenVariant): string {
  return `processor code ${variant}: a worker ended in it (${signal}) before it had recognized anything; plainer code takes its place`;
}

/** The variants that ended worker processes; shared by all hosts of a program, and kept while it runs. */
export type BrokenVariants = {
  names(): string[];
  list(): BrokenVariant[];
  /** Adds a variant. Returns false when it was there already. */
  add(variant: string, signal: string): boolean;
  remove(variant: string): void;
};

export function createBrokenVariants(): BrokenVariants {
  const signals = new Map<string, string>();
  return {
    names: () => [...signals.keys()],
    list: () => [...signals].map(([variant, signal]) => ({ variant, signal })),
    add(variant, signal) {
      if (signals.has(variant)) return false;
      signals.set(variant, signal);
      return true;
    },
    remove(variant) {
      signals.delete(variant);
    },
  };
}

/** The most plainer variants that are tried after crashes of which the processor's code may not be the cause. */
const MOST_STEPS_FOR_OTHER_CRASHES = 2;
/**
 * Signals, beside SIGILL, by which wrong code for a processor ends a process. SIGILL has no other cause; these can also
 * come from the weights or the audio. SIGKILL and SIGABRT are not among them: they come when memory is short, or when the
 * library itself finds an error.
 */
const OTHER_CRASHES = ["SIGSEGV", "SIGBUS", "SIGFPE"];

export type Verdict =
  /** The next process uses plainer code. */
  | { kind: "plainer"; variant: string; plainer: string }
  /** Plainer code ended processes, too. The variants that this trial ruled out are used again. */
  | { kind: "exonerated"; variants: string[] }
  /** The variant is not the cause. */
  | { kind: "other" };

/**
 * Finds out whether code for this processor ends the worker processes of one model before they have recognized
 * anything.
 */
export type VariantTrial = {
  /** Records that a process has recognized a chunk with a variant. Later crashes then have another cause. */
  prove(variant: string): void;
  /**
   * Judges the end of a process that had not recognized anything, and adds a variant that is to blame to the broken ones.
   *
   * @param used the variant that the process had loaded, and those it could have loaded instead, the best first
   * @param signal that ended the process; null: it exited by itself
   */
  judge(used: { cpuVariant: string; plainerVariants: string[] }, signal: string | null): Verdict;
};

export function createVariantTrial(broken: BrokenVariants): VariantTrial {
  const proven = new Set<string>();
  let ruledOut: string[] = [];
  let otherCrashes = 0;
  let isOver = false;

  function exonerate(): Verdict {
    isOver = true;
    for (const variant of ruledOut) broken.remove(variant);
    return ruledOut.length === 0 ? { kind: "other" } : { kind: "exonerated", variants: ruledOut };
  }

  return {
    prove(variant) {
      proven.add(variant);
      ruledOut = [];
    },

    judge(used, signal) {
      const { cpuVariant: variant, plainerVariants } = used;
      if (isOver || proven.has(variant) || signal === null) return { kind: "other" };
      const isSure = signal === "SIGILL";
      if (!isSure && !OTHER_CRASHES.includes(signal)) return { kind: "other" };
      const plainer = plainerVariants.find((name) => !broken.names().includes(name));
      if (plainer === undefined) return exonerate();
      if (!isSure && ++otherCrashes > MOST_STEPS_FOR_OTHER_CRASHES) return exonerate();
      if (broken.add(variant, signal)) ruledOut.push(variant);
      return { kind: "plainer", variant, plainer };
    },
  };
}
