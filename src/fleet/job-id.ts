import type { ModelPart } from "../domain/model.ts";
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
 * Returns the SHA-256 by which machines find a model: that of its file, or of several files together. Undefined when the
 * caller does not know it.
 */
export function modelHashOf({ sha256, parts }: { sha256?: string; parts?: ModelPart[] }): string | undefined {
  if (parts === undefined || parts.length === 0) return sha256;
  const lines = parts.map((part) => `${part.role} ${part.name} ${part.sha256}`).sort();
  return sha256Hex(lines.join("\n"));
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
