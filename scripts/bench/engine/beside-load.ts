import type { Shruti } from "./shruti.ts";

/** How long the places are waited for at most: a recording of an hour must be prepared first. */
const FILL_WITHIN_MS = 60_000;
const LOOK_EVERY_MS = 100;

/**
 * Times synchronous requests, one after the other, milliseconds each.
 *
 * @param wav the recording of each request
 */
export async function timeRequests(
  shruti: Shruti,
  { wav, model, count }: { wav: string; model: string; count: number },
): Promise<number[]> {
  const times: number[] = [];
  for (let n = 0; n < count; n++) {
    const startedMs = performance.now();
    await shruti.transcribeNow(wav, model);
    times.push(performance.now() - startedMs);
  }
  return times;
}

/**
 * Runs work while background chunks fill all places of a machine and others wait, and cancels them afterwards.
 *
 * @param load upload of a recording that lasts longer than the work
 * @throws Error when the load has ended before the work
 */
export async function besideFullLoad<T>(
  shruti: Shruti,
  { load, model }: { load: string; model: string },
  work: () => Promise<T>,
): Promise<T> {
  const id = await shruti.start(load, model);
  try {
    const deadline = performance.now() + FILL_WITHIN_MS;
    while ((await shruti.chunksWaiting()) === 0) {
      if (performance.now() > deadline) throw new Error("the places are not full");
      await Bun.sleep(LOOK_EVERY_MS);
    }
    const result = await work();
    if ((await shruti.chunksWaiting()) === 0) throw new Error("the load has ended before the work");
    return result;
  } finally {
    await shruti.cancel(id);
  }
}
