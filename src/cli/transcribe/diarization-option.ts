import { type Command, InvalidArgumentError } from "commander";
import { type DiarizationRequest, MAX_SPEAKERS } from "../../domain/transcription.ts";

const NAME = "--diarization";
/** Written behind the option's name: the number of speakers is found. */
const ANY = "any";
/** What looks like a number of speakers or bounds of it, right or wrong, and not like a recording. */
const NUMBER = /^\d+(-\d*)?$/;

/**
 * Adds `--diarization [speakers]`. Recordings follow options, so the word behind this one is its value only where it looks
 * like a number: `--diarization call.wav` labels the speakers of `call.wav`.
 */
export function addDiarizationOption(command: Command): Command {
  const parseOptions = command.parseOptions.bind(command);
  command.parseOptions = (args) => parseOptions(withOwnValue(args));
  return command.option(
    `${NAME} [speakers]`,
    "label speakers, as many as are found; or a number such as 2, or bounds such as 2-4",
    readSpeakers,
  );
}

/** @returns the bounds of the number; undefined without the option */
export function diarizationOf(option: DiarizationRequest | true | undefined): DiarizationRequest | undefined {
  return option === true ? {} : option;
}

function withOwnValue(args: readonly string[]): string[] {
  const end = args.indexOf("--");
  return args.map((arg, index) => {
    const next = args[index + 1];
    const isAlone = arg === NAME && (end < 0 || index < end) && next !== undefined && !NUMBER.test(next);
    return isAlone ? `${NAME}=${ANY}` : arg;
  });
}

function readSpeakers(text: string): DiarizationRequest {
  if (text === ANY) return {};
  const [, first, second = first] = /^(\d+)(?:-(\d+))?$/.exec(text) ?? [];
  const [minSpeakers, maxSpeakers] = [Number(first), Number(second)];
  if (minSpeakers >= 1 && minSpeakers <= maxSpeakers && maxSpeakers <= MAX_SPEAKERS) {
    return { minSpeakers, maxSpeakers };
  }
  throw new InvalidArgumentError(
    `It is a number from 1 to ${MAX_SPEAKERS}, or two such as 2-4. A recording of that name is written as ./${text}.`,
  );
}
