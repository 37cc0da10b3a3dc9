import type { YieldToLoop } from "./diarize-tracks.ts";
import type { SegmentationInfo } from "./neural-models.ts";
import { firstFrameOf } from "./neural-sharing.ts";
import { peopleByWindow } from "./neural-turns.ts";
import type { HeardTrack } from "./neural-windows.ts";

/** Windows are compared in every so many frames, each 50 ms. */
const COMPARED_EVERY = 3;

/**
 * Says how far windows agree on each person. Windows overlap, so several hear the same moment: of the moments in which one
 * hears a person alone and another hears a single voice, this is the share in which that voice is the same person's.
 *
 * @param people the person of each voice of the track, or −1
 * @returns a share for each person, 0 to 1; 1 where no other window hears a voice
 */
export async function agreementOf(
  info: SegmentationInfo,
  track: HeardTrack,
  people: Int32Array,
  yieldToLoop: YieldToLoop,
): Promise<Float64Array> {
  const count = people.reduce((most, person) => Math.max(most, person + 1), 0);
  const agreed = new Float64Array(count);
  const compared = new Float64Array(count);
  const personOf = peopleByWindow(info, track, people);
  const first = (window: number) => firstFrameOf(window, track, info);
  for (const [window, frames] of track.windows.entries()) {
    for (let later = window + 1; later < track.windows.length; later++) {
      const shift = first(later) - first(window);
      if (shift >= frames.length) break;
      const theirs = track.windows[later] ?? new Uint8Array();
      for (
        let frame = shift;
        frame < Math.min(frames.length, theirs.length + shift);
        frame += COMPARED_EVERY
      ) {
        const one = aloneIn(frames[frame], personOf, window * info.speakers);
        const other = aloneIn(theirs[frame - shift], personOf, later * info.speakers);
        if (one < 0 || other < 0) continue;
        for (const person of [one, other]) {
          compared[person] = (compared[person] ?? 0) + 1;
          if (one === other) agreed[person] = (agreed[person] ?? 0) + 1;
        }
      }
    }
    await yieldToLoop();
  }
  return agreed.map((moments, person) => (compared[person] ? moments / (compared[person] ?? 1) : 1));
}

/** Returns the person who speaks alone in a frame; −1: no one does, or several, or no one knows who. */
function aloneIn(bits = 0, personOf: Int32Array, at: number): number {
  if (bits === 0 || (bits & (bits - 1)) !== 0) return -1;
  return personOf[at + 31 - Math.clz32(bits)] ?? -1;
}
