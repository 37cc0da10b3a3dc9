import { resolve } from "node:path";
import type { Reading } from "../../domain/reading.ts";
import { onAbort } from "../../lib/abort.ts";
import { PCM_BYTES_PER_SAMPLE } from "../../native/decoder/pcm-file.ts";
import type { NativeFiles } from "../../native/native-files.ts";
import { DecodeError } from "./decode-failure.ts";
import { startDecoder } from "./decoder-process.ts";
import { pointBefore } from "./outline.ts";
import { readingArguments } from "./reading-argument.ts";

/** A stretch of a recording, in samples at 16 kHz. */
export type PlayStretch = {
  path: string;
  reading?: Reading | undefined;
  channels: "mix" | "separate";
  /** Samples side by side in the output: 1, or the recording's channels. */
  lanes: number;
  fromSample: number;
  samples: number;
  /** Points of the recording's outline; without them everything before the stretch is decoded too. */
  points?: Uint8Array | undefined;
};

/**
 * Decodes a stretch of a recording. What is behind the end of the recording is silence.
 *
 * @returns 16-bit samples, little-endian, all lanes of a sample together
 * @throws DecodeError `aborted`, `limits`, `undecodable`
 */
export async function playAudio(
  { decoder }: Pick<NativeFiles, "decoder">,
  job: PlayStretch,
  { signal, timeoutMs }: { signal: AbortSignal; timeoutMs: number },
): Promise<Uint8Array<ArrayBuffer>> {
  const { path, reading = {}, channels, lanes, fromSample, samples } = job;
  if (signal.aborted) throw aborted();
  const point = job.points ? pointBefore(job.points, fromSample) : "-";
  const input = [decoder, "play", resolve(path), ...readingArguments(reading)];
  const child = startDecoder([...input, channels, ...[lanes, fromSample, samples].map(String), point]);
  let isLate = false;
  const kill = () => child.kill("SIGKILL");
  const timer = setTimeout(() => {
    isLate = true;
    kill();
  }, timeoutMs);
  const unwatch = onAbort(signal, kill);
  try {
    const sound = new Uint8Array(samples * lanes * PCM_BYTES_PER_SAMPLE);
    let filled = 0;
    for await (const bytes of child.stdout) {
      sound.set(bytes.subarray(0, sound.length - filled), filled);
      filled += bytes.length;
    }
    const status = await child.exited;
    if (signal.aborted) throw aborted();
    if (isLate) throw new DecodeError("limits", "The audio took too long to decode.");
    if (status !== 0) throw new DecodeError("undecodable", "The audio cannot be decoded here.");
    return sound;
  } finally {
    clearTimeout(timer);
    unwatch();
    if (child.exitCode === null && child.signalCode === null) kill();
  }
}

function aborted(): DecodeError {
  return new DecodeError("aborted", "The work was cancelled.");
}
