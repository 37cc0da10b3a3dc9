import { describe, expect, test } from "bun:test";
import { Command } from "commander";
import type { FamilyTuning } from "../../domain/model.ts";
import { addFamilyOptions, familyTuningOf } from "./family-options.ts";

/** Parses arguments with a command that has no options but those of families. */
function parsed(...args: string[]): Command {
  const silent = { writeErr: () => undefined };
  const command = addFamilyOptions(new Command().exitOverride().configureOutput(silent));
  return command.parse(args, { from: "user" });
}

describe("the options that families declare", () => {
  test.each<[string[], FamilyTuning]>([
    [[], {}],
    [["--no-timestamps"], { whisper: { timestamps: false } }],
    [["--no-translation"], { whisper: { translates: false } }],
    [["--features", "kaldi"], { ctc: { features: "kaldi" } }],
    [
      ["--features", "nemo", "--no-timestamps"],
      { whisper: { timestamps: false }, ctc: { features: "nemo" } },
    ],
  ])("%p set what each family asked for", (args, tuning) => {
    expect(familyTuningOf(parsed(...args))).toEqual(tuning);
  });

  test("refuse what is not one of their values", () => {
    expect(() => parsed("--features", "mel")).toThrow("Allowed choices are nemo, nemo-2.5, kaldi.");
  });

  test("are each there once, where families share their keys", () => {
    const flags = parsed().options.map(({ flags }) => flags);
    expect(flags.toSorted()).toEqual(["--features <kind>", "--no-timestamps", "--no-translation"]);
  });
});
