import { createSlots, type Slot } from "../../src/admission/slots.ts";

/**
 * Measures how long the choice of the next chunk takes as the number of slots grows: as many recordings of an hour as the
 * scheduler runs at once, each with all the chunks waiting that it asks slots for. Usage: `bun scripts/bench/turns.ts`.
 */

const CHUNKS_OF_AN_HOUR = 120;
const ORGANIZATIONS = [20, 1_000];
const CHOICES = 2_000;

for (const organizations of ORGANIZATIONS)
  for (const slots of [16, 64, 128, 256, 512]) console.log(await measure(slots, organizations));

async function measure(count: number, organizations: number) {
  const slots = createSlots({ slots: count, synchronousSlots: 1 });
  const held: Slot[] = [];
  const began = performance.now();
  for (let recording = 0; recording < count + 34; recording++) {
    const { signal } = new AbortController();
    for (let position = 0; position < Math.min(count + 1, CHUNKS_OF_AN_HOUR); position++) {
      const request = {
        ...{ isSynchronous: false, weight: 1, position, costMs: 30_000, remainingMs: 3_600_000 + recording },
        organizationId: `org-${recording % organizations}`,
        projectId: `prj-${recording % (2 * organizations)}`,
        transcriptionId: `tr-${String(recording).padStart(5, "0")}`,
        model: { id: "model", slots: 100_000 },
      };
      void slots.acquire(request, signal).then((slot) => held.push(slot));
    }
  }
  const asking = performance.now() - began;
  await new Promise(setImmediate);
  let longest = 0;
  let sum = 0;
  for (let choice = 0; choice < Math.min(CHOICES, slots.status().waiting); choice++) {
    const start = performance.now();
    held.shift()?.release();
    const took = performance.now() - start;
    longest = Math.max(longest, took);
    sum += took;
    await Promise.resolve();
  }
  return {
    ...{ slots: count, organizations },
    "asking, ms": ms(asking),
    "a choice, ms": ms(sum / CHOICES),
    "longest, ms": ms(longest),
  };
}

function ms(value: number): number {
  return Number(value.toFixed(3));
}
