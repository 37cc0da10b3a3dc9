import type { AudioRef, ChunkJob } from "../engine/protocol.ts";
import { sha256Hex } from "../lib/sha256.ts";

/** Hex digits of a job's name: 128 bits. */
const JOB_DIGITS = 32;

/**
 * Names a job by what it asks for. The same chunk has the same name after a restart of the control plane, and meets its
 * own result there. Another setting, or another part of the audio, is another job.
 */
export function jobIdOf(
  { audio, windowMs, settings }: Omit<ChunkJob, "sharers" | "isAlone">,
  modelSha256: string,
): string {
  return sha256Hex(JSON.stringify([modelSha256, placeOf(audio), windowMs, settings])).slice(0, JOB_DIGITS);
}

function placeOf(audio: AudioRef): unknown {
  if ("pcm" in audio) return sha256Hex(audio.pcm);
  return [audio.pcmPath, audio.slices, audio.totalSamples];
}

/**
 * Names the code that decodes recordings and finds speech. The text of a recording must not depend on the machine that
 * prepares it, so a worker prepares only for a control plane with the same code.
 *
 * @param version of the program
 * @param soundCode name of the native parts (open-engine.ts)
 */
export function preparingCodeOf(version: string, soundCode: string): string {
  return sha256Hex(`prepare ${version} ${soundCode}`);
}
