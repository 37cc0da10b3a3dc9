import { describe, expect, test } from "bun:test";
import { randomFrom } from "../testing/makers/voices.ts";
import { unitOf } from "./neural-linkage.ts";
import { allotPeople, choosePeople } from "./neural-number.ts";
import { growVoiceTree } from "./neural-voices.ts";
import type { HeardVoice } from "./neural-windows.ts";

const WINDOW = { windowSamples: 160_000 };
const SHIFT_SAMPLES = 40_000;
const NUMBERS = 16;
const noYield = async () => undefined;
const anyNumber = { least: 1, most: 20 };

type Scene = {
  /** Samples between the beginnings of two windows. */
  shiftSamples?: number;
  /** The people of each window; each is alone for this time. */
  windows: readonly (readonly number[])[];
  aloneMs?: (person: number) => number;
  /** How far the vectors of one person lie apart. */
  spread?: number;
  /** How alike different people are: 0 not at all, 1 they are the same. */
  alike?: number;
  /** How much of the voice of person 0 person 3 has. */
  likeFirst?: number;
  axes?: number;
};

/** Makes voices whose people are known. A person is an axis, so different people are 1 apart unless they are alike. */
function voicesOf({ windows, aloneMs = () => 4_000, spread = 0.3, alike = 0, ...more }: Scene) {
  const { likeFirst = 0, axes = NUMBERS, shiftSamples = SHIFT_SAMPLES } = more;
  const random = randomFrom(5);
  const truth: number[] = [];
  const voices: HeardVoice[] = [];
  for (const [window, people] of windows.entries())
    for (const [speaker, person] of people.entries()) {
      const embedding = Float32Array.from(
        { length: axes },
        (_, axis) =>
          (axis === person ? 1 : 0) +
          (axis === axes - 1 ? alike : 0) +
          (axis === 0 && person === 3 ? likeFirst : 0) +
          spread * (random() - 0.5),
      );
      voices.push({ window, speaker, aloneMs: aloneMs(person), unit: unitOf(embedding) });
      truth.push(person);
    }
  return { track: { voices, shiftSamples }, truth };
}

/** Windows agree on everyone: what they say of each other is tested in `neural-agreement.test.ts`. */
const everyone = async (people: Int32Array) => new Float64Array(Math.max(0, ...people) + 1).fill(1);

async function choose(scene: Scene, bounds = anyNumber, mostLinked?: number, agreementIn = everyone) {
  const { track, truth } = voicesOf(scene);
  const tree = await growVoiceTree(WINDOW, track, bounds.least, noYield, mostLinked);
  const countIn = (people: Int32Array) => new Set([...people].filter((person) => person >= 0)).size;
  return { ...(await choosePeople(tree, bounds, { countIn, agreementIn }, noYield)), truth, tree };
}

/** Numbers the people by their first voices, so that two divisions can be compared. */
function inOrder(people: Iterable<number>): number[] {
  const numbers = new Map<number, number>();
  return Array.from(people, (person) => {
    const number = numbers.get(person) ?? numbers.size;
    numbers.set(person, number);
    return number;
  });
}

const repeat = (count: number, windows: number[][]) => Array.from({ length: count }, () => windows).flat();

describe("the number of people", () => {
  test.each([10, 100, 400])(
    "does not grow with the length: %d times the same talk",
    async (times) => {
      const { people, count, truth } = await choose({
        windows: repeat(times, [[0, 1], [0], [1, 2], [2, 0]]),
      });
      expect(count).toBe(3);
      expect(inOrder(people)).toEqual(inOrder(truth));
    },
    60_000,
  );

  test.each([2, 20])(
    "does not grow with the mixed voices of long talks: %d times the same",
    async (times) => {
      const talk = [
        ...repeat(10, [
          [0, 1],
          [1, 2],
          [2, 0],
        ]),
        [3],
      ];
      const { count } = await choose({ windows: repeat(times, talk), spread: 0.2, likeFirst: 1 });
      expect(count).toBe(3);
    },
    60_000,
  );

  test("has each of two people whose voices are nearer to each other than those of the others", async () => {
    const windows = repeat(20, [[0, 1], [1, 2], [2, 3], [0]]);
    const { people, count, truth, isCountUncertain } = await choose({ windows, spread: 0.2, likeFirst: 0.6 });
    expect(count).toBe(4);
    expect(inOrder(people)).toEqual(inOrder(truth));
    expect(isCountUncertain).toBe(false);
  });

  test.each([
    ["in doubt where two voices are about as near as one person's may be", 0.9, true],
    ["not in doubt where they are the same voice", 8, false],
  ])("is %s", async (_title, likeFirst, isInDoubt) => {
    const windows = repeat(20, [[0, 1], [1, 2], [2, 3], [0]]);
    const { isCountUncertain } = await choose({ windows, spread: 0.2, likeFirst });
    expect(isCountUncertain).toBe(isInDoubt);
  });

  test.each([
    ["are one person in a short recording", 16_000, 2],
    ["are two people in a longer one", SHIFT_SAMPLES, 3],
  ])(
    "of voices that are about as near as one person's may be: they %s",
    async (_title, shiftSamples, number) => {
      const windows = repeat(6, [[0, 1], [1, 3], [3], [0]]);
      const { count } = await choose({ windows, spread: 0.2, likeFirst: 0.9, shiftSamples });
      expect(count).toBe(number);
    },
  );

  test("does not count one person twice whom the segmentation took for two", async () => {
    const { count } = await choose({ windows: repeat(30, [[0, 0]]), spread: 0.35 });
    expect(count).toBe(1);
  });

  test("is at most 20, which is in doubt", async () => {
    const windows = repeat(
      8,
      Array.from({ length: 30 }, (_, person) => [person, (person + 1) % 30]),
    );
    const { count, isCountUncertain } = await choose({ windows, axes: 32, spread: 0.2 });
    expect(count).toBe(20);
    expect(isCountUncertain).toBe(true);
  });

  test("is found at the distance that people have in this recording", async () => {
    const windows = repeat(30, [
      [0, 1],
      [1, 2],
      [2, 0],
    ]);
    // On a telephone all people are alike. No fixed distance separates these and those of the test above.
    const { count, tree } = await choose({ windows, alike: 1, spread: 0.1 });
    expect(tree.apart).toBeLessThan(0.6);
    expect(count).toBe(3);
  });

  test("of few voices is at most theirs", async () => {
    expect((await choose({ windows: [] })).people).toHaveLength(0);
    expect((await choose({ windows: [[0]] })).count).toBe(1);
    expect((await choose({ windows: [[0, 1]] })).count).toBe(2);
  });

  test("does not count what is heard for less than a hundredth of the time", async () => {
    const windows = [...repeat(100, [[0, 1]]), [2], [0]];
    const { people, count } = await choose({ windows, aloneMs: (person) => (person === 2 ? 900 : 4_000) });
    expect(count).toBe(2);
    expect(new Set(people)).toEqual(new Set([0, 1]));
  });

  test.each([2, 3, 4])(
    "is kept when %d are given, and a voice goes to the nearest of them",
    async (given) => {
      const windows = repeat(30, [[0], [1], [2], [3]]);
      const { count } = await choose({ windows }, { least: given, most: given });
      expect(count).toBe(given);
    },
  );

  test("is kept in a short recording by a person who says a word, not by half of another", async () => {
    const windows = [...repeat(25, [[0]]), [1]];
    const aloneMs = (person: number) => (person === 1 ? 900 : 4_000);
    const scene = { windows, aloneMs, shiftSamples: 16_000 };
    expect((await choose(scene)).count).toBe(1);
    const { people, count, truth } = await choose(scene, { least: 2, most: 2 });
    expect(count).toBe(2);
    expect(inOrder(people)).toEqual(inOrder(truth));
  });

  test("is the nearer bound where what is found lies outside", async () => {
    const windows = repeat(30, [
      [0, 1],
      [1, 2],
      [2, 0],
    ]);
    expect((await choose({ windows }, { least: 1, most: 2 })).count).toBe(2);
    expect((await choose({ windows }, { least: 2, most: 5 })).count).toBe(3);
  });

  test("that the sound does not have is not made up: fewer people come back", async () => {
    const { count } = await choose({ windows: [[0], [0]] }, { least: 6, most: 6 });
    expect(count).toBeLessThanOrEqual(2);
  });
});

test("a person on whom the windows do not agree is none: such voices go to the nearest of the others", async () => {
  const scene = { windows: repeat(20, [[0], [1], [2]]), spread: 0.2 };
  const strangerOf = (truth: readonly number[]) => async (people: Int32Array) => {
    const agreement = await everyone(people);
    const stranger = people[truth.indexOf(2)] ?? 0;
    // The other two are people, also once the stranger is gone.
    if (new Set(people).size === 3) agreement[stranger] = 0.2;
    return agreement;
  };
  const { truth } = voicesOf(scene);
  const { people, count, isCountUncertain } = await choose(scene, anyNumber, undefined, strangerOf(truth));
  expect([count, isCountUncertain]).toEqual([2, false]);
  expect(inOrder(people.filter((_, index) => truth[index] !== 2))).toEqual(
    inOrder(truth.filter((one) => one !== 2)),
  );
});

test("in a short recording a person on whom the windows do not agree stays", async () => {
  const windows = repeat(20, [[0], [1]]);
  const noOne = async (people: Int32Array) => (await everyone(people)).fill(0.1);
  const { count } = await choose({ windows, shiftSamples: 16_000 }, anyNumber, undefined, noOne);
  expect(count).toBe(2);
});

test("of several people on whom the windows do not agree one is left", async () => {
  const nobody = async (people: Int32Array) => {
    const agreement = await everyone(people);
    return agreement.length > 1 ? agreement.fill(0.1) : agreement;
  };
  const { count } = await choose({ windows: repeat(20, [[0], [1], [2]]) }, anyNumber, undefined, nobody);
  expect(count).toBe(1);
});

test.each([
  ["stay as they are between the bounds", [2, 1], { least: 2, most: 4 }, [2, 1]],
  ["grow where they are fewest", [3, 1], { least: 6, most: 6 }, [3, 3]],
  ["shrink where they are most", [4, 1, 1], { least: 1, most: 4 }, [2, 1, 1]],
  ["keep one in each track with speech", [2, 3, 1], { least: 2, most: 2 }, [1, 1, 1]],
  ["stay none in a track without speech", [0, 1, 0], { least: 3, most: 3 }, [0, 3, 0]],
  ["stay none where no track has speech", [0, 0], { least: 2, most: 2 }, [0, 0]],
])("the numbers of people of several tracks %s", (_title, counts, bounds, numbers) => {
  expect(allotPeople(counts, bounds)).toEqual(numbers);
});

test("voices of one window are different people, and a voice too many belongs to none of them", async () => {
  const { people } = await choose({ windows: [...repeat(20, [[0], [1]]), [0, 0], [0, 1, 0]] });
  expect(new Set(people.slice(-5, -3)).size).toBe(2);
  expect(new Set(people.slice(-3))).toEqual(new Set([0, 1, -1]));
});

test("one person whose voice changes more than people differ is one", async () => {
  const { tree } = await choose({ windows: repeat(30, [[0]]), spread: 0.3 });
  const choice = await choosePeople(
    { ...tree, apart: 0.02 },
    anyNumber,
    { countIn: (people) => new Set(people).size, agreementIn: everyone },
    noYield,
  );
  expect(choice).toMatchObject({ count: 1, isCountUncertain: false });
});

test("of more voices than are clustered, the others go to the nearest person", async () => {
  const { people, count, truth } = await choose({ windows: repeat(200, [[0], [1], [2]]) }, anyNumber, 20);
  expect(count).toBe(3);
  expect(inOrder(people)).toEqual(inOrder(truth));
});

test("an abort ends the work at the next pause", async () => {
  const reason = new Error("aborted");
  const { track } = voicesOf({ windows: repeat(20, [[0, 1]]) });
  const grown = growVoiceTree(WINDOW, track, 1, async () => {
    throw reason;
  });
  await expect(grown).rejects.toBe(reason);
});
