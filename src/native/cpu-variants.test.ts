import { afterAll, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  chooseVariant,
  createBrokenVariants,
  createVariantTrial,
  usableVariants,
  variantName,
} from "./cpu-variants.ts";
import { parseProcessor } from "./processor.ts";

const dir = mkdtempSync(join(tmpdir(), "shruti-variants-"));
afterAll(() => rmSync(dir, { recursive: true, force: true }));

describe("variants", () => {
  test("the usable ones are found, best first; other libraries are ignored", () => {
    const scores: Record<string, number> = { haswell: 64, x64: 1, zen4: 2000, sse42: 5, sapphirerapids: 0 };
    for (const name of Object.keys(scores)) writeFileSync(join(dir, `libggml-cpu-${name}.so`), "");
    for (const file of ["libggml.so", "libggml-base.so", "libggml-cuda.so"])
      writeFileSync(join(dir, file), "");
    const score = (paths: string[]) =>
      paths.map((path) => scores[/cpu-(.+)\.so$/.exec(path)?.[1] ?? ""] ?? Number.NaN);
    const usable = usableVariants(dir, score);
    expect(usable.map(({ name }) => name)).toEqual(["zen4", "haswell", "sse42", "x64"]);
    expect(usable[0]?.path).toBe(join(dir, "libggml-cpu-zen4.so"));
    expect(() => usableVariants(dir, (paths) => paths.map(() => 0))).toThrow(
      "no CPU library for whisper could be loaded",
    );
  });

  const INTEL = "vendor_id\t: GenuineIntel\nflags\t\t: fpu avx2 avx512f avx512vbmi avx512_bf16";
  const COOPER_LAKE = "vendor_id\t: GenuineIntel\nflags\t\t: fpu avx2 avx512f avx512_bf16";
  const AMD = "vendor_id\t: AuthenticAMD\nflags\t\t: fpu avx2 avx512f avx512vbmi avx512_bf16";
  test.each([
    ["AMX", `${INTEL} amx_tile`, ["sapphirerapids", "icelake", "zen4", "cascadelake", "cooperlake"]],
    ["AMX that the kernel does not know", INTEL, ["icelake", "zen4", "cascadelake", "cooperlake"]],
    ["bf16 of AMD", AMD, ["zen4", "cooperlake", "icelake", "cascadelake"]],
    ["bf16 of Cooper Lake", COOPER_LAKE, ["zen4", "cooperlake", "icelake", "cascadelake"]],
    ["no list of flags", "", ["sapphirerapids", "zen4", "cooperlake", "icelake", "cascadelake"]],
  ])("the fastest is first with %s", (_what, text, expected) => {
    // What ggml says of these on a processor that has all instructions.
    const scores: Record<string, number> = {
      ...{ cascadelake: 1215, cooperlake: 1727, icelake: 1471, sapphirerapids: 4031, zen4: 1983 },
    };
    const folder = mkdtempSync(join(dir, "scores-"));
    for (const name of Object.keys(scores)) writeFileSync(join(folder, `libggml-cpu-${name}.so`), "");
    const score = (paths: string[]) => paths.map((path) => scores[variantName(path) ?? ""] ?? 0);
    const usable = usableVariants(folder, score, parseProcessor(text));
    expect(usable.map(({ name }) => name)).toEqual(expected);
  });

  test.each([
    [[], "best", ["middle", "plain"]],
    [["best"], "middle", ["plain"]],
    [["middle"], "best", ["plain"]],
    [["middle", "best"], "plain", []],
    [["best", "middle", "plain"], "plain", []],
  ])("without %j it is %s", (avoided, name, plainer) => {
    const usable = ["best", "middle", "plain"].map((each) => ({ name: each, path: each }));
    expect(chooseVariant(usable, avoided)).toEqual({ chosen: { name, path: name }, plainer });
  });
});

const ALL = ["a", "b", "c", "d", "e"];

/** Lets workers end by a signal, one after another, until no plainer code is left. Returns the code that was used. */
function descend(signal: string, broken = createBrokenVariants(), trial = createVariantTrial(broken)) {
  const used: string[] = [];
  while (true) {
    const [cpuVariant = "", ...plainerVariants] = ALL.filter((name) => !broken.names().includes(name));
    used.push(cpuVariant);
    const verdict = trial.judge({ cpuVariant, plainerVariants }, signal);
    if (verdict.kind !== "plainer") return { used, verdict, broken, trial };
  }
}

describe("trial", () => {
  test("after a missing instruction the next plainer code is tried; when all fail alike, none is ruled out", () => {
    const { used, verdict, broken } = descend("SIGILL");
    expect(used).toEqual(ALL);
    expect(verdict).toEqual({ kind: "exonerated", variants: ["a", "b", "c", "d"] });
    expect(broken.list()).toEqual([]);
  });

  test.each(["SIGSEGV", "SIGBUS", "SIGFPE"])("after %s, code up to two steps plainer is tried", (signal) => {
    const { used, verdict, broken } = descend(signal);
    expect(used).toEqual(["a", "b", "c"]);
    expect(verdict).toEqual({ kind: "exonerated", variants: ["a", "b"] });
    expect(broken.list()).toEqual([]);
  });

  test("after that the trial is over: the next crash rules no code out", () => {
    const { broken, trial } = descend("SIGSEGV");
    expect(descend("SIGILL", broken, trial).used).toEqual(["a"]);
  });

  test.each(["SIGKILL", "SIGABRT", "SIGTERM", null])("%s is not a sign of wrong code", (signal) => {
    const verdict = createVariantTrial(createBrokenVariants()).judge(
      { cpuVariant: "a", plainerVariants: ["b"] },
      signal,
    );
    expect(verdict).toEqual({ kind: "other" });
  });

  test("code that has worked is not ruled out later, and code ruled out before stays ruled out", () => {
    const broken = createBrokenVariants();
    const trial = createVariantTrial(broken);
    const verdict = trial.judge({ cpuVariant: "a", plainerVariants: ["b", "c"] }, "SIGILL");
    expect(verdict).toEqual({ kind: "plainer", variant: "a", plainer: "b" });
    trial.prove("b");
    expect(trial.judge({ cpuVariant: "b", plainerVariants: ["c"] }, "SIGILL")).toEqual({ kind: "other" });
    expect(broken.list()).toEqual([{ variant: "a", signal: "SIGILL" }]);
  });

  test("a model that fails with all code brings back only the code that it ruled out itself", () => {
    const broken = createBrokenVariants();
    createVariantTrial(broken).judge({ cpuVariant: "a", plainerVariants: ["b"] }, "SIGILL");
    expect(descend("SIGSEGV", broken).used).toEqual(["b", "c", "d"]);
    expect(broken.names()).toEqual(["a"]);
  });

  test("a worker that started before another one ruled its code out is moved to plainer code as well", () => {
    const broken = createBrokenVariants();
    const used = { cpuVariant: "a", plainerVariants: ["b", "c"] };
    createVariantTrial(broken).judge(used, "SIGILL");
    broken.add("b", "SIGILL");
    const verdict = createVariantTrial(broken).judge(used, "SIGILL");
    expect(verdict).toEqual({ kind: "plainer", variant: "a", plainer: "c" });
  });
});
