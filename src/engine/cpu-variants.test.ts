import { afterAll, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chooseVariant, createBrokenVariants, createVariantTrial, usableVariants } from "./cpu-variants.ts";

const dir = mkdtempSync(join(tmpdir(), "shruti-variants-"));
afterAll(() => rmSync(dir, { recursive: true, force: true }));

describe("variants", () => {
  test("the usable ones, best first; other libraries are none", () => {
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

/** Lets workers die of a signal, one after another, until no plainer code takes over; tells what was used. */
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
  test("an instruction that is missing leads down to the plainest; when all end so, none is to blame", () => {
    const { used, verdict, broken } = descend("SIGILL");
    expect(used).toEqual(ALL);
    expect(verdict).toEqual({ kind: "exonerated", variants: ["a", "b", "c", "d"] });
    expect(broken.list()).toEqual([]);
  });

  test.each(["SIGSEGV", "SIGBUS", "SIGFPE"])("%s leads two steps down", (signal) => {
    const { used, verdict, broken } = descend(signal);
    expect(used).toEqual(["a", "b", "c"]);
    expect(verdict).toEqual({ kind: "exonerated", variants: ["a", "b"] });
    expect(broken.list()).toEqual([]);
  });

  test("it is over then: the next crash blames nothing", () => {
    const { broken, trial } = descend("SIGSEGV");
    expect(descend("SIGILL", broken, trial).used).toEqual(["a"]);
  });

  test.each(["SIGKILL", "SIGABRT", "SIGTERM", null])("%s is no sign of wrong code", (signal) => {
    const verdict = createVariantTrial(createBrokenVariants()).judge(
      { cpuVariant: "a", plainerVariants: ["b"] },
      signal,
    );
    expect(verdict).toEqual({ kind: "other" });
  });

  test("what has decoded is not blamed later, and what was ruled out on the way to it stays so", () => {
    const broken = createBrokenVariants();
    const trial = createVariantTrial(broken);
    const verdict = trial.judge({ cpuVariant: "a", plainerVariants: ["b", "c"] }, "SIGILL");
    expect(verdict).toEqual({ kind: "plainer", variant: "a", plainer: "b" });
    trial.prove("b");
    expect(trial.judge({ cpuVariant: "b", plainerVariants: ["c"] }, "SIGILL")).toEqual({ kind: "other" });
    expect(broken.list()).toEqual([{ variant: "a", signal: "SIGILL" }]);
  });

  test("a model for which all code fails takes back only what it ruled out itself", () => {
    const broken = createBrokenVariants();
    createVariantTrial(broken).judge({ cpuVariant: "a", plainerVariants: ["b"] }, "SIGILL");
    expect(descend("SIGSEGV", broken).used).toEqual(["b", "c", "d"]);
    expect(broken.names()).toEqual(["a"]);
  });

  test("a worker that had begun before another ruled its code out takes plainer code, too", () => {
    const broken = createBrokenVariants();
    const used = { cpuVariant: "a", plainerVariants: ["b", "c"] };
    createVariantTrial(broken).judge(used, "SIGILL");
    broken.add("b", "SIGILL");
    const verdict = createVariantTrial(broken).judge(used, "SIGILL");
    expect(verdict).toEqual({ kind: "plainer", variant: "a", plainer: "c" });
  });
});
