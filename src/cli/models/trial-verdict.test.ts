import { describe, expect, test } from "bun:test";
import type { Warning } from "../../domain/result.ts";
import type { TrialVerdict } from "../../domain/trial.ts";
import { betterOf, refusalOf, verdictOf } from "./trial-verdict.ts";

const EN = "and so my fellow americans ask not what your country can do for you";
const HI = "अभी दस बजे और दस मिनट हैं";

test.each<[TrialVerdict, string, string, string, Warning[]]>([
  ["understood", "en", EN, "And so, my fellow Americans: ask not what your country can do for you.", []],
  ["understood", "hi", HI, "अभी 10 बजे और 10 मिनट है", []],
  // Where the text is right, it does not matter that a guard has worked.
  ["understood", "hi", HI, HI, ["repetition_removed"]],
  ["weak", "en", EN, "You should go and see the country of your friends.", []],
  ["weak", "hi", HI, "आपका स्वागत है", ["suspected_hallucination"]],
  ["other_script", "hi", HI, "abhi das baje aur das minute hain", ["script_mismatch"]],
  ["loops", "hi", HI, "आपी", ["repetition_removed"]],
  ["loops", "hi", HI, "", ["repetition_removed"]],
  ["loops", "hi", HI, "कि वह और यह भी कहा कि ".repeat(10), []],
  ["silent", "en", EN, "", []],
  ["silent", "en", EN, " … ", ["low_confidence" as Warning]],
])("%s: %s %p, heard %p with %p", (verdict, language, said, heard, warnings) => {
  expect(verdictOf({ language, said, heard, warnings })).toBe(verdict);
});

const outcome = (language: string, verdict: TrialVerdict) => ({
  language,
  said: EN,
  heard: "what what what",
  verdict,
});

describe("a model", () => {
  test.each<[TrialVerdict[]]>([
    [["understood", "loops"]],
    [["silent", "weak"]],
    [["other_script"]],
    [["slow"]],
    [["loops", "slow"]],
    [[]],
  ])("with the verdicts %p can be installed", (verdicts) => {
    const outcomes = verdicts.map((verdict, n) => outcome(n === 0 ? "en" : "hi", verdict));
    expect(refusalOf(outcomes, undefined)).toBeUndefined();
  });

  test("that is of no use in any sample is refused, and advised to do what was seen to help", () => {
    const outcomes = [outcome("en", "silent"), outcome("hi", "loops")];
    const refusal = refusalOf(outcomes, undefined);
    expect(refusal).toBe(
      `The model hears nothing in clear speech of the language en (${JSON.stringify(EN)}), and loops in the language hi: for a sample of 67 characters it writes "what what what". It was not installed; --no-trial installs it as it is.`,
    );
    expect(refusalOf(outcomes, "--no-timestamps")).toContain(
      "Without timestamps it does better: add it with --no-timestamps.",
    );
  });

  test("has the better verdict of two samples, the first of equal ones", () => {
    const [one, other] = [outcome("en", "loops"), outcome("en", "weak")];
    expect(betterOf(one, other)).toBe(other);
    expect(betterOf(other, one)).toBe(other);
    const same = outcome("en", "loops");
    expect(betterOf(one, same)).toBe(one);
  });
});
