import type { BytesAudio } from "../../engine/protocol.ts";
import { errorMessage } from "../../lib/error-message.ts";
import type { Ticket } from "../messages.ts";
import { readExactBody } from "./exact-body.ts";

/** The audio could not be fetched, which is not the fault of the chunk. */
export class AudioError extends Error {}
/** The control plane does not want the chunk any more. */
export class UnwantedError extends AudioError {}

const BYTES_PER_SAMPLE = 2;
const TRIES = 3;
const PAUSE_MS = 300;
/** A connection that is silent for this long is given up: the network may have forgotten it. */
const SILENCE_MS = 5_000;
const NOT_FOUND = 404;

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
      // Connections of earlier requests may be dead without a sign, so only the first try uses one.
      const isReusing = tries === 1;
      return { pcm: await fetchOnce(audio, bytes, { ca, signal, isReusing }), totalSamples: samples };
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof UnwantedError) throw error;
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
  { ca, signal, isReusing }: { ca: string; signal: AbortSignal; isReusing: boolean },
): Promise<Uint8Array> {
  const silence = new AbortController();
  const timer = setTimeout(() => silence.abort(new Error("the control plane does not answer")), SILENCE_MS);
  try {
    const response = await fetch(url, {
      headers: { authorization: `Bearer ${token}` },
      signal: AbortSignal.any([signal, silence.signal]),
      redirect: "error",
      keepalive: isReusing,
      tls: { ca },
    });
    return await readAll(response, bytes, () => timer.refresh());
  } finally {
    clearTimeout(timer);
  }
}

/** @param onBlock called when something has arrived */
async function readAll(response: Response, bytes: number, onBlock: () => void): Promise<Uint8Array> {
  if (!response.ok) {
    await response.body?.cancel();
    if (response.status === NOT_FOUND) throw new UnwantedError("the chunk is not wanted any more");
    // Another request would have the same answer, such as for a ticket that is too old.
    throw new AudioError(`status ${response.status}`);
  }
  return readExactBody(response, {
    bytes,
    tooMuch: () => new AudioError("more audio than the ticket says"),
    onBlock,
  });
}
