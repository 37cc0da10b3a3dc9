import { SAMPLE_RATE_HZ } from "../domain/chunk.ts";
import { exactFilter, faintLevelFilter, levelFilter } from "./measures.ts";
import type { AudioProbe } from "./probe.ts";

/** Under these names the graphs' measures are read. */
export const COUNT = "count";
export const CLIPPING = "clipping";

/**
 * ffmpeg's filter graph: measure, resample on the recording's clock, split into channels or mix down, measure again
 * (`readFacts` reads what is measured).
 *
 * Conversion to 16 bit comes first, so that clipped samples of every codec stand at full scale when they are counted.
 * Its outputs are `out0`, `out1`, … with `separate`, else `out0`.
 */
export function filterGraph(probe: AudioProbe, separate: boolean): string {
  const { channels } = probe;
  const isStereo = channels === 2;
  const layout = namedLayout(probe);
  const branches = [`${mixFilter(probe)},${levelFilter("mix")}`];
  if (separate) {
    branches[0] += ",asplit=1[high]";
    for (let index = 0; index < channels; index++) {
      branches.push(`pan=mono|c0=c${index},${levelFilter(`track${index}`)}[out${index}]`);
    }
  } else {
    branches[0] += ",asplit=2[out0][high]";
  }
  if (isStereo) branches.push(`pan=mono|c0=0.5*c0-0.5*c1,${levelFilter("sides")},anullsink`);
  const taps = branches.map((_, index) => `[tap${index}]`);
  const head = [
    "[0:a:0]aformat=sample_fmts=s16",
    levelFilter("source"),
    `aresample=${SAMPLE_RATE_HZ}:async=1:first_pts=0`,
    // Without it ffmpeg mixes down before the split, because one branch asks for mono.
    ...(layout === undefined ? [] : [`aformat=channel_layouts=${layout}`]),
    `asplit=${taps.length}${taps.join("")}`,
  ];
  const high = `[high]${"highpass=f=5000,".repeat(4)}${faintLevelFilter("high")},anullsink`;
  return [head.join(","), ...branches.map((branch, index) => `${taps[index]}${branch}`), high].join(";");
}

/** The same recording without any measuring but its length. */
export function countingGraph(probe: AudioProbe): string {
  const filters = [
    "aformat=sample_fmts=s16",
    `aresample=${SAMPLE_RATE_HZ}:async=1:first_pts=0`,
    mixFilter(probe),
    levelFilter(COUNT),
  ];
  return `[0:a:0]${filters.join(",")}[out0]`;
}

/** The same recording, each sample looked at: what of it stands at full scale. */
export function clippingGraph(): string {
  return `[0:a:0]aformat=sample_fmts=s16,${exactFilter(CLIPPING, "Peak_level+Peak_count+Number_of_samples")}[out0]`;
}

/** The channels' shares in the mix add up to 1 at most: it cannot clip. */
function mixFilter(probe: AudioProbe): string {
  if (namedLayout(probe) !== undefined) return "aformat=channel_layouts=mono";
  const share = (1 / probe.channels).toFixed(6);
  return `pan=mono|c0=${Array.from({ length: probe.channels }, (_, index) => `${share}*c${index}`).join("+")}`;
}

/** A layout that FFmpeg knows how to mix down; undefined for channels without a place, such as several microphones. */
function namedLayout(probe: AudioProbe): string | undefined {
  if (probe.channels === 1) return "mono";
  if (probe.channels === 2) return "stereo";
  return probe.channelLayout !== undefined && /^\d\.\d(\.\d)?(\([a-z]+\))?$/.test(probe.channelLayout)
    ? probe.channelLayout
    : undefined;
}
