import { open } from "node:fs/promises";
import { PCM_BYTES_PER_SAMPLE, readPcm, scalePcm } from "../../native/decoder/pcm-file.ts";
import type { AudioRef, BytesAudio, FileAudio } from "../protocol.ts";
import { removeOffset } from "./offset.ts";

/**
 * Puts a chunk's audio together, without a constant offset.
 *
 * @returns 16 kHz mono samples within −1 and 1; zeros where no slice lies
 * @throws Error when the file ends before a slice does, or when bytes and number of samples differ
 */
export async function samplesOf(audio: AudioRef): Promise<Float32Array> {
  const samples = new Float32Array(audio.totalSamples);
  if ("pcm" in audio) scalePcm(pcmOf(audio), samples, 0);
  else await readSlices(audio, samples);
  removeOffset(samples);
  return samples;
}

async function readSlices({ pcmPath, slices }: FileAudio, samples: Float32Array): Promise<void> {
  const file = await open(pcmPath, "r");
  try {
    for (const slice of slices) {
      const pcm = new Int16Array(slice.samples);
      const read = await readPcm(file, pcm, slice.sourceStartSample);
      if (read < pcm.length) throw new Error("the decoded audio ends before the chunk does");
      scalePcm(pcm, samples, slice.targetStartSample);
    }
  } finally {
    await file.close();
  }
}

function pcmOf({ pcm, totalSamples }: BytesAudio): Int16Array {
  if (pcm.byteLength !== totalSamples * PCM_BYTES_PER_SAMPLE) throw new Error("the audio has another length");
  // The view needs an even address, which a copy has.
  return new Int16Array(new Uint8Array(pcm).buffer);
}
