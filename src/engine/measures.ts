import type { MediaOutcome } from "./media-process.ts";

/** Digital silence, and everything below it. */
export const SILENCE_DB = -120;
/** What volumedetect calls the level of silence. */
const VOLUMEDETECT_SILENCE_DB = -91;

/** What a filter of `levelFilter` heard; levels in dB below full scale. */
export type Levels = {
  /** Of all channels together. */
  samples: number;
  peakDb: number;
  rmsDb: number;
  /** Samples within 1 dB of full scale. */
  nearFullScale: number;
  /** One sample in a thousand is at least as loud; `SILENCE_DB` where too few were heard to say. */
  loudDb: number;
};

/**
 * An ffmpeg filter that counts samples by their level and passes them on as 16 bit. It costs a tenth of astats, and
 * tells levels to 0.1 dB.
 */
export function levelFilter(name: string): string {
  return `volumedetect@${name}`;
}

/** @param name as `levelFilter` got it; a stream whose parameters change midway is heard by one filter after another */
export function readLevels(outcome: MediaOutcome, name: string): Levels {
  const heard = [...printedBy(outcome, "volumedetect", name).values()].map(levelsOf);
  const samples = heard.reduce((sum, part) => sum + part.samples, 0);
  const power = heard.reduce((sum, part) => sum + part.samples * 10 ** (part.rmsDb / 10), 0) / samples;
  const highest = (of: (part: Levels) => number) => Math.max(SILENCE_DB, ...heard.map(of));
  return {
    samples,
    peakDb: highest(({ peakDb }) => peakDb),
    rmsDb: samples === 0 ? SILENCE_DB : Math.max(SILENCE_DB, 10 * Math.log10(power)),
    nearFullScale: heard.reduce((sum, part) => sum + part.nearFullScale, 0),
    loudDb: highest(({ loudDb }) => loudDb),
  };
}

const LOUDER_DB = 40;
/** Above it the louder one may be cut at full scale; far below it the sound does not fill one step of 16 bits. */
const FAINT_BELOW_DB = -80;

/** A `levelFilter` for what may be fainter than its 16 bits can tell; what it passes on is 40 dB louder. */
export function faintLevelFilter(name: string): string {
  return `${levelFilter(name)},volume=${LOUDER_DB}dB:precision=fixed,${levelFilter(louder(name))}`;
}

/** @param name as `faintLevelFilter` got it */
export function readFaintRmsDb(outcome: MediaOutcome, name: string): number {
  const { rmsDb } = readLevels(outcome, name);
  if (rmsDb >= FAINT_BELOW_DB) return rmsDb;
  const louderDb = readLevels(outcome, louder(name)).rmsDb;
  return Math.max(SILENCE_DB, louderDb - LOUDER_DB);
}

function louder(name: string): string {
  return `${name}_louder`;
}

function levelsOf(printed: ReadonlyMap<string, string>): Levels {
  const level = (key: string) => {
    const db = Number.parseFloat(printed.get(key) ?? "-inf");
    return db > VOLUMEDETECT_SILENCE_DB ? db : SILENCE_DB;
  };
  // It prints how many samples lie within each dB, from the loudest down to a thousandth of all.
  const counted = [...printed.keys()].flatMap((key) => /^histogram_(\d+)db$/.exec(key)?.[1] ?? []);
  const faintest = counted.at(-1);
  return {
    samples: Number(printed.get("n_samples") ?? 0),
    peakDb: level("max_volume"),
    rmsDb: level("mean_volume"),
    nearFullScale: Number(printed.get("histogram_0db") ?? 0),
    loudDb: faintest === undefined ? SILENCE_DB : -(Number(faintest) + 1),
  };
}

/** An ffmpeg filter that prints exact values, as astats names them, when it ends: slow, for what needs them. */
export function exactFilter(name: string, values: string): string {
  return `astats@${name}=measure_perchannel=none:measure_overall=${values}`;
}

/** @returns for each filter of this name that heard something, its values by astats' names for them */
export function readExact(outcome: MediaOutcome, name: string): Map<string, number>[] {
  return [...printedBy(outcome, "astats", name).values()].map((printed) => {
    const values = [...printed].map(([key, text]): [string, number] => [
      key,
      text === "-inf" ? Number.NEGATIVE_INFINITY : Number(text),
    ]);
    return new Map(values.filter(([, value]) => !Number.isNaN(value)));
  });
}

/** What each filter of this kind and name printed: lines such as `[astats@mix @ 0x5566] Peak level dB: -3.1`. */
function printedBy(outcome: MediaOutcome, kind: string, name: string): Map<string, Map<string, string>> {
  const filters = new Map<string, Map<string, string>>();
  const start = `[${kind}@${name} @ `;
  for (const line of outcome.stderr.split("\n")) {
    if (!line.startsWith(start)) continue;
    const [address = "", rest = ""] = line.slice(start.length).split("] ");
    const [key = "", value = ""] = rest.split(": ");
    const printed = filters.get(address) ?? new Map<string, string>();
    filters.set(address, printed.set(key, value));
  }
  return filters;
}
