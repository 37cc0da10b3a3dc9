import { open } from "node:fs/promises";
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
const BLOCK_BYTES = 128 * 1024;

/** Makes the route at which workers fetch the audio of their chunks. */
export function audioRoute({ tokens, audioOf }: AudioRouteOptions): ListenerRoute {
  return {
    method: "GET",
    path: /^\/audio\/([0-9a-f]{32})$/,
    answer({ token }, [job = ""]) {
      if (!tokens.opens("audio", job, token)) return bare(401);
      const audio = audioOf(job);
      if (!audio) return bare(404);
      return new Response("pcm" in audio ? new Uint8Array(audio.pcm) : streamOf(audio), {
        headers: BYTES_HEADERS,
      });
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

/** Reads a chunk's audio while it is sent: 16-bit samples, little-endian, 16 kHz mono. */
function streamOf(audio: FileAudio): ReadableStream<Uint8Array> {
  const blocks = blocksOf(audio);
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      const { done, value } = await blocks.next();
      if (done) controller.close();
      else controller.enqueue(value);
    },
    async cancel() {
      await blocks.return(undefined);
    },
  });
}

async function* blocksOf(audio: FileAudio): AsyncGenerator<Uint8Array, void> {
  const file = await open(audio.pcmPath, "r");
  try {
    for (const { fileSample, samples } of stretchesOf(audio)) {
      const bytes = samples * BYTES_PER_SAMPLE;
      for (let done = 0; done < bytes; ) {
        const block = new Uint8Array(Math.min(BLOCK_BYTES, bytes - done));
        if (fileSample !== undefined) {
          const filled = await readFully(file, block, fileSample * BYTES_PER_SAMPLE + done);
          if (filled < block.length) throw new Error("the decoded audio ends before the chunk does");
        }
        done += block.length;
        yield block;
      }
    }
  } finally {
    await file.close();
  }
}
