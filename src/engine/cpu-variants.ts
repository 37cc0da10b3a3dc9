import { readdirSync } from "node:fs";
import { basename, join } from "node:path";

/** One of whisper.cpp's libraries with code for a family of processors, such as `haswell` or `zen4`. */
export type CpuVariant = { name: string; path: string };

/** The variant in a library; undefined for another file. A library that is built for one processor only has no name. */
export function variantName(path: string): string | undefined {
  const match = /^libggml-cpu(?:-(.+))?\.so$/.exec(basename(path));
  return match ? (match[1] ?? "generic") : undefined;
}

/**
 * The variants in a folder that this processor can run, the one that uses most of its instructions first.
 *
 * @param score ggml's number for each of the files: 0 for one that cannot be used
 * @throws Error when there is none
 */
export function usableVariants(dir: string, score: (paths: string[]) => number[]): CpuVariant[] {
  const variants = readdirSync(dir)
    .sort()
    .flatMap((file): CpuVariant[] => {
      const name = variantName(file);
      return name === undefined ? [] : [{ name, path: join(dir, file) }];
    });
  const scores = score(variants.map(({ path }) => path));
  const usable = variants
    .map((variant, i) => ({ variant, score: scores[i] ?? 0 }))
    .filter((scored) => scored.score > 0)
    .sort((a, b) => b.score - a.score)
    .map(({ variant }) => variant);
  if (usable.length === 0) throw new Error(`no CPU library for whisper could be loaded from ${dir}`);
  return usable;
}

/**
 * The best variant that is not to be avoided, and the names of those that would come after it. Where all are to be
 * avoided it is the plainest.
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

/** A variant that is not used any more, and by which signal the worker ended that used it. */
export type BrokenVariant = { variant: string; signal: string };

/** For `doctor` and `status`. */
export function describeBroken({ variant, signal }: BrokenVariant): string {
  return `processor code ${variant}: a worker ended in it (${signal}) before it had decoded anything; plainer code takes its place`;
}

export type BrokenVariants = ReturnType<typeof createBrokenVariants>;

/** What all hosts of a program know of variants that end workers; kept while the program runs. */
export function createBrokenVariants() {
  const signals = new Map<string, string>();
  return {
    names: (): string[] => [...signals.keys()],
    list: (): BrokenVariant[] => [...signals].map(([variant, signal]) => ({ variant, signal })),
    /** @returns whether it was not among them before */
    add(variant: string, signal: string): boolean {
      if (signals.has(variant)) return false;
      signals.set(variant, signal);
      return true;
    },
    remove(variant: string): void {
      signals.delete(variant);
    },
  };
}

/** Where variants cannot help, a chunk that breaks its worker costs this many workers more than it would. */
const MOST_STEPS_FOR_OTHER_CRASHES = 2;
/**
 * What wrong code for a processor ends a worker with. An instruction that it does not have is one thing only; the
 * others can be the weights' or the sound's fault as well. SIGKILL and SIGABRT are none: they come when memory is short
 * or the library itself finds something wrong.
 */
const OTHER_CRASHES = ["SIGSEGV", "SIGBUS", "SIGFPE"];

export type Verdict =
  /** The next worker takes plainer code. */
  | { kind: "plainer"; variant: string; plainer: string }
  /** Plainer code ended the workers, too: what this trial ruled out is used again. */
  | { kind: "exonerated"; variants: string[] }
  /** The variant has nothing to do with it. */
  | { kind: "other" };

/**
 * Finds out, for the workers of one model, whether the code for this processor is what ends them before they have
 * decoded anything.
 */
export function createVariantTrial(broken: BrokenVariants) {
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
    /** It has decoded a chunk: what ends a later worker is something else. */
    prove(variant: string): void {
      proven.add(variant);
      ruledOut = [];
    },

    /**
     * A worker ended that had not decoded anything.
     * @param used the variant it had loaded, and those it could have loaded instead, best first
     */
    judge(used: { cpuVariant: string; plainerVariants: string[] }, signal: string | null): Verdict {
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
