import type { BytesAudio } from "../../engine/protocol.ts";
import { errorMessage } from "../../lib/error-message.ts";
import type { Ticket } from "../messages.ts";

/** The audio could not be fetched, which is not the fault of the chunk. */
export class AudioError extends Error {}

const BYTES_PER_SAMPLE = 2;
const TRIES = 3;
const PAUSE_MS = 300;
const TIMEOUT_MS = 20_000;

/**
 * Fetches the audio of a ticket into memory.
 *
 * @param ca PEM text of the authorities that the control plane's certificate must come from
 * @throws AudioError; the signal's reason when it is aborted
 */
export async function fetchAudio(
  { audio, samples }: Ticket,
  ca: string,
  signal: AbortSignal,
): Promise<BytesAudio> {
  const bytes = samples * BYTES_PER_SAMPLE;
  for (let tries = 1; ; tries++) {
    try {
      return { pcm: await fetchOnce(audio, bytes, ca, signal), totalSamples: samples };
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof AudioError || tries >= TRIES) {
        throw new AudioError(
          `the audio cannot be fetched from ${new URL(audio.url).origin}: ${errorMessage(error)}`,
        );
      }
      await Bun.sleep(PAUSE_MS * tries);
    }
  }
}

async function fetchOnce(
  { url, token }: Ticket["audio"],
  bytes: number,
  ca: string,
  signal: AbortSignal,
): Promise<Uint8Array> {
  const response = await fetch(url, {
    headers: { authorization: `Bearer ${token}` },
    signal: AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)]),
    redirect: "error",
    tls: { ca },
  });
  if (!response.ok) {
    await response.body?.cancel();
    // Another request would have the same answer: the ticket is too old, or the chunk is not wanted any more.
    throw new AudioError(`status ${response.status}`);
  }
  const pcm = new Uint8Array(bytes);
  let filled = 0;
  for await (const block of response.body ?? []) {
    if (filled + block.length > bytes) throw new AudioError("more audio than the ticket says");
    pcm.set(block, filled);
    filled += block.length;
  }
  if (filled < bytes) throw new Error("the audio ended too early");
  return pcm;
}
