import { type FileHandle, open } from "node:fs/promises";
import type { AudioRef, FileAudio } from "../../engine/protocol.ts";
import { readFully } from "../../lib/file-bytes.ts";
import type { JobTokens } from "../tokens.ts";
import { BYTES_HEADERS, bare, type ListenerRoute } from "./listener.ts";

export type AudioRouteOptions = {
  tokens: Pick<JobTokens, "opens">;
  /** Returns the audio of a job that is wanted; undefined: it is not, or not any more. */
  audioOf: (job: string) => AudioRef | undefined;
};

const BYTES_PER_SAMPLE = 2;
const BLOCK_BYTES = 256 * 1024;
/** Blocks that wait for their next use. */
const MOST_SPARE_BLOCKS = 16;

/** Makes the route at which workers fetch the audio of their chunks. */
export function audioRoute({ tokens, audioOf }: AudioRouteOptions): ListenerRoute {
  const blocks = createBlocks();
  return {
    method: "GET",
    path: /^\/audio\/([0-9a-f]{32})$/,
    answer({ token }, [job = ""]) {
      if (!tokens.opens("audio", job, token)) return bare(401);
      const audio = audioOf(job);
      if (!audio) return bare(404);
      const body = "pcm" in audio ? new Uint8Array(audio.pcm) : streamOf(audio, blocks);
      return new Response(body, { headers: BYTES_HEADERS });
    },
  };
}

/** Memory for audio on its way. New memory for each answer would cost more than reading and encrypting it. */
type Blocks = { take(): Uint8Array<ArrayBuffer>; giveBack(block: Uint8Array<ArrayBuffer>): void };

function createBlocks(): Blocks {
  const spare: Uint8Array<ArrayBuffer>[] = [];
  return {
    take: () => spare.pop() ?? new Uint8Array(BLOCK_BYTES),
    giveBack(block) {
      if (spare.length < MOST_SPARE_BLOCKS) spare.push(block);
    },
  };
}

/** A stretch of a chunk's audio: samples of a file, or silence. */
type Stretch = { fileSample: number | undefined; samples: number };

/** Lists the stretches of a chunk in order. Samples that no slice covers are silence. */
function stretchesOf({ slices, totalSamples }: FileAudio): Stretch[] {
  const stretches: Stretch[] = [];
  let at = 0;
  for (const slice of [...slices].sort((a, b) => a.targetStartSample - b.targetStartSample)) {
    if (slice.targetStartSample > at)
      stretches.push({ fileSample: undefined, samples: slice.targetStartSample - at });
    stretches.push({ fileSample: slice.sourceStartSample, samples: slice.samples });
    at = slice.targetStartSample + slice.samples;
  }
  if (at < totalSamples) stretches.push({ fileSample: undefined, samples: totalSamples - at });
  return stretches;
}

/**
 * Reads a chunk's audio while it is sent: 16-bit samples, little-endian, 16 kHz mono. Bun's own answers from files would
 * read in the thread of the event loop.
 */
function streamOf(audio: FileAudio, blocks: Blocks): ReadableStream {
  let isCancelled = false;
  return new ReadableStream({
    type: "direct",
    async pull(controller: ReadableStreamDirectController) {
      const file = await open(audio.pcmPath, "r");
      const block = blocks.take();
      try {
        for await (const filled of filledBlocks(file, stretchesOf(audio), block)) {
          if (isCancelled) return;
          // The call resolves when the receiver can take more. The bytes have been copied then.
          await controller.write(filled);
        }
        controller.close();
      } finally {
        blocks.giveBack(block);
        await file.close();
      }
    },
    cancel() {
      isCancelled = true;
    },
  });
}

/** Fills a block with stretches again and again, until all were in it. */
async function* filledBlocks(
  file: FileHandle,
  stretches: readonly Stretch[],
  block: Uint8Array<ArrayBuffer>,
): AsyncGenerator<Uint8Array<ArrayBuffer>, void> {
  let filled = 0;
  for (const { fileSample, samples } of stretches) {
    const bytes = samples * BYTES_PER_SAMPLE;
    for (let done = 0; done < bytes; ) {
      const part = block.subarray(filled, Math.min(block.length, filled + bytes - done));
      await fillPart(file, part, fileSample === undefined ? undefined : fileSample * BYTES_PER_SAMPLE + done);
      done += part.length;
      filled += part.length;
      if (filled < block.length) continue;
      yield block;
      filled = 0;
    }
  }
  if (filled > 0) yield block.subarray(0, filled);
}

/** @param at undefined: silence */
async function fillPart(file: FileHandle, part: Uint8Array, at: number | undefined): Promise<void> {
  if (at === undefined) return void part.fill(0);
  if ((await readFully(file, part, at)) < part.length)
    throw new Error("the decoded audio ends before the chunk does");
}
