import { describe, expect, test } from "bun:test";
import { Command } from "commander";
import { addDiarizationOption, diarizationOf } from "./diarization-option.ts";

function parse(...args: string[]) {
  const command = new Command().exitOverride().configureOutput({ writeErr: () => undefined });
  addDiarizationOption(command.argument("<file...>").option("--model <id>")).action(() => undefined);
  command.parse(args, { from: "user" });
  return { speakers: diarizationOf(command.opts().diarization), files: command.args };
}

describe("--diarization", () => {
  test.each([
    [["a.wav"], undefined, ["a.wav"]],
    [["--diarization", "a.wav"], {}, ["a.wav"]],
    [["b.wav", "--diarization", "a.wav", "c.wav"], {}, ["b.wav", "a.wav", "c.wav"]],
    [["a.wav", "--diarization"], {}, ["a.wav"]],
    [["--diarization", "--model", "m", "a.wav"], {}, ["a.wav"]],
    [["--diarization", "2", "a.wav"], { minSpeakers: 2, maxSpeakers: 2 }, ["a.wav"]],
    [["a.wav", "--diarization=2-4"], { minSpeakers: 2, maxSpeakers: 4 }, ["a.wav"]],
    [["a.wav", "--diarization", "1-20"], { minSpeakers: 1, maxSpeakers: 20 }, ["a.wav"]],
    [["--diarization", "-"], {}, ["-"]],
    [["--diarization", "2.wav"], {}, ["2.wav"]],
    [["--diarization", "./2"], {}, ["./2"]],
    [["--", "--diarization", "2"], undefined, ["--diarization", "2"]],
  ] as const)("%j", (args, speakers, files) => {
    expect(parse(...args)).toEqual({ speakers, files: [...files] });
  });

  test.each(["0", "21", "4-2", "2-", "0-3", "2-21", "1000"])(
    "%s is refused, and says how to name a file",
    (given) => {
      expect(() => parse("--diarization", given, "a.wav")).toThrow(`./${given}`);
      expect(() => parse(`--diarization=${given}`, "a.wav")).toThrow("from 1 to 20");
    },
  );
});
