import { MAX_SPEAKERS } from "../domain/transcription.ts";
import type { YieldToLoop } from "./diarize-tracks.ts";
import { type AgreementIn, findPeople, givenClusters, leastMsOf, peopleOf } from "./neural-people.ts";
import type { VoiceTree } from "./neural-voices.ts";

/** The least and the highest number of people. */
export type PeopleBounds = { least: number; most: number };

/** Who each voice is, and how many people the turns made of that have. */
export type PeopleChoice = {
  people: Int32Array;
  count: number;
  /**
   * The number lies outside the bounds; or it was to be found, and more than the most were found, or two people are so
   * near that they may be one.
   */
  isCountUncertain: boolean;
};

/** What a division of the voices between people makes of the track. */
export type DivisionChecks = {
  /** Makes turns, and returns how many people they have. */
  countIn: (people: Int32Array) => number;
  agreementIn: AgreementIn;
};

/** Time that is enough for a person is doubled and halved, up to this time and this often. */
const MOST_LEAST_MS = 8_000;
const HALVINGS = 4;
/** Two people who are nearer to each other may be one. */
const DOUBTFUL_NEARNESS = 1.4;

/**
 * Chooses the people of a track. When their number lies outside the bounds, the nearer bound counts as given: what is
 * enough time for a person is changed until the turns have so many people.
 */
export async function choosePeople(
  tree: VoiceTree,
  { least, most }: PeopleBounds,
  { countIn, agreementIn }: DivisionChecks,
  yieldToLoop: YieldToLoop,
): Promise<PeopleChoice> {
  const isOutside = (count: number) => count > 0 && (count < least || count > most);
  const choose = async (clusters: Int32Array) => {
    const people = await peopleOf(tree, clusters, yieldToLoop);
    return { people, count: countIn(people) };
  };
  if (tree.units.length < 2 || most === 1) {
    const people = new Int32Array(tree.units.length);
    const count = countIn(people);
    return { people, count, isCountUncertain: isOutside(count) };
  }
  const { people, nearness } = await findPeople(tree, agreementIn, yieldToLoop);
  const found = { people, count: countIn(people) };
  const wanted = Math.max(least, Math.min(most, found.count));
  const isInDoubt = nearness < DOUBTFUL_NEARNESS || (most === MAX_SPEAKERS && found.count > most);
  let best = found;
  for (const leastMs of found.count === wanted ? [] : enoughTimes(tree, wanted > found.count)) {
    const clusters = givenClusters(tree, wanted, leastMs);
    if (!clusters) continue;
    const tried = await choose(clusters);
    if (Math.abs(tried.count - wanted) < Math.abs(best.count - wanted)) best = tried;
    if (best.count === wanted) break;
  }
  return { ...best, isCountUncertain: isOutside(best.count) || (least < most && isInDoubt) };
}

/**
 * Changes the numbers of people of several tracks until their sum lies within the bounds: the track with the fewest
 * people gets one more, that with the most one less. A track with speech keeps one.
 *
 * @returns the number for each track
 */
export function allotPeople(counts: readonly number[], { least, most }: PeopleBounds): number[] {
  const numbers = [...counts];
  const used = [...numbers.keys()].filter((track) => (numbers[track] ?? 0) > 0);
  const numberOf = (track: number) => numbers[track] ?? 0;
  const sum = () => numbers.reduce((total, number) => total + number, 0);
  while (used.length > 0 && sum() < least) {
    const fewest = used.reduce((one, other) => (numberOf(other) < numberOf(one) ? other : one));
    numbers[fewest] = numberOf(fewest) + 1;
  }
  while (sum() > Math.max(most, used.length)) {
    const largest = used.reduce((one, other) => (numberOf(other) > numberOf(one) ? other : one));
    numbers[largest] = numberOf(largest) - 1;
  }
  return numbers;
}

/**
 * Returns the times that are tried as enough for a person, best first. Who is missing in a short recording says little, so there less time
 * is tried first: with more, the voice of another person would be divided.
 */
function enoughTimes(tree: VoiceTree, isMissing: boolean): number[] {
  const leastMs = leastMsOf(tree);
  const more: number[] = [];
  for (let time = leastMs; time > 0 && time <= MOST_LEAST_MS; time *= 2) more.push(time);
  const less = Array.from({ length: HALVINGS }, (_, halving) => leastMs / 2 ** (halving + 1));
  return isMissing && tree.isShort ? [...less, ...more] : [...more, ...less];
}
