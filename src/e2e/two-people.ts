import { join } from "node:path";
import { readSample } from "../cli/models/trial-samples.ts";
import type { Sound } from "./sounds.ts";

/** Two people whom the nets tell apart, made from one recording that the repository has. */

/** President Kennedy, 1961; public domain. */
const PERSON = join(import.meta.dir, "../../models/trial/jfk.wav");
/** So much faster, the voice is that of a person with a shorter throat: higher in pitch and in its formants. */
const OTHER_PERSON = 1.4;

/** Returns what the first person says between two times of the recording, seconds. */
export async function person(from: number, to: number): Promise<Sound> {
  const rateHz = 16_000;
  const pcm = (await readSample(PERSON)).subarray(Math.round(from * rateHz), Math.round(to * rateHz));
  return { rateHz, channels: [Float32Array.from(pcm, (sample) => sample / 32_768)] };
}

/** Returns the voice of another person, who says the same. */
export function another({ rateHz, channels: [samples = new Float32Array()] }: Sound): Sound {
  const at = (n: number) => samples[n] ?? 0;
  const faster = Float32Array.from({ length: Math.floor(samples.length / OTHER_PERSON) }, (_, n) => {
    const place = n * OTHER_PERSON;
    const share = place - Math.floor(place);
    return (1 - share) * at(Math.floor(place)) + share * at(Math.floor(place) + 1);
  });
  return { rateHz, channels: [faster] };
}
